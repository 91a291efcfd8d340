"""What AOTAutograd makes of a graph, kept on disk by torch's own AOTAutogradCache: another process skips the tracing, and
its programs come from our cache of executables (csrc/graph/disk.c). torch.compiler.save_cache_artifacts takes the entries
along; TORCHINDUCTOR_AUTOGRAD_CACHE=0 turns them off, TORCHINDUCTOR_CACHE_DIR says where they are."""

import contextlib

import torch
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._inductor.output_code import OutputCode

from . import control
from .parts import callable_of


class Compiled(OutputCode):
    """A captured graph, compiled: a function of a list of inputs, which it empties. Pickles as its graph."""

    def __init__(self, module, options=None):
        super().__init__()
        self._data, self._options = None, options
        self._boxed_call = True  # of the object: what wraps it copies its dict
        self._load(module)

    def _load(self, module):
        self._module = module
        control.retype_random_states(module.graph)
        self._function = callable_of(module, self._options)

    def __call__(self, inputs):
        args = list(inputs)
        inputs.clear()  # nothing outlives its last use
        return self._function(args)

    def prepare_for_serialization(self):
        from torch.fx._graph_pickler import GraphPickler, Options

        try:
            self._data = GraphPickler.dumps(self._module, Options(ops_filter=None, node_metadata_key_filter=lambda key: key == "val"))
        except Exception as e:
            raise BypassAOTAutogradCache(f"the graph cannot be pickled: {e}") from e
        self._module = self._function = None

    def post_compile(self, example_inputs, constants, graph_kwargs):
        if self._module is not None:
            return
        from torch._guards import TracingContext, detect_fake_mode
        from torch.fx._graph_pickler import GraphPickler

        context = TracingContext.try_get()
        mode = detect_fake_mode(example_inputs) or (context.fake_mode if context else None)
        if mode is None:
            mode = torch._subclasses.FakeTensorMode(shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv())
        module = GraphPickler.loads(self._data, mode)
        module.recompile()
        self._load(module)

    def set_triton_bundle(self, triton_bundle):
        """There are no Triton kernels in it."""


@contextlib.contextmanager
def entries(tag: str):
    """While AOTAutograd runs: its entries hold whole graphs, backward ones too, and are found by tag besides what torch sees."""
    import torch._functorch.config as functorch
    import torch.compiler.config as compiler

    with (
        functorch.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True),
        compiler.patch(cache_key_tag=f"{compiler.cache_key_tag} {tag}"),
    ):
        yield
