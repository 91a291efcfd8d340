"""What AOTAutograd makes of a graph, kept on disk by torch's own AOTAutogradCache: another process skips the tracing,
and its programs come from our cache of executables (csrc/graph/disk.c). torch.compiler.save_cache_artifacts takes the
entries along; TORCHINDUCTOR_AUTOGRAD_CACHE=0 turns them off, TORCHINDUCTOR_CACHE_DIR says where they are."""

import contextlib
import hashlib
import logging
import operator
import pathlib
import sys
from unittest import mock

import torch
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._inductor.output_code import OutputCode

from .._internal import lines
from .._internal.digest import attention_settings, sources
from . import control, flex
from .parts import callable_of, levels
from .program import described
from .sized import has_symbols, is_symbolic

log = logging.getLogger("torch_tpu.compile")  # TORCH_LOGS="torch_tpu", "+torch_tpu" with the graphs themselves



class Compiled(OutputCode):
    """A captured graph, compiled: a function of a list of inputs, which it empties. Pickles as its graph."""

    def __init__(self, module, options=None):
        super().__init__()
        self._data, self._options = None, options
        self._levels = None  # of its nodes in order, once they are known; empty: it is one program
        self._boxed_call = True  # of the object: what wraps it copies its dict
        self._load(module)

    def _load(self, module):
        self._module = module
        origin = "captured" if self._levels is None else "from the cache"
        if self._levels is None:
            lines.note(module)
            flex.inline(module)
            control.retype_random_states(module.graph)
            level = levels(module.graph)
            self._levels = [level.get(n) for n in module.graph.nodes] if level else []
        level = {n: at for n, at in zip(module.graph.nodes, self._levels) if at is not None}
        self._function = callable_of(module, self._options, level)
        if log.isEnabledFor(logging.INFO):
            operators = [n for n in module.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
            on_host = [str(n.target) for n in operators if level.get(n, 1) % 2 == 0]
            parts = f"on the host: {', '.join(on_host)}" if on_host else "one program"
            log.info("a graph of %d operators, %s; %s", len(operators), origin, parts)
            log.debug("%s", module.code)

    def __call__(self, inputs):
        args = list(inputs)
        inputs.clear()  # nothing outlives its last use
        return self._function(args)

    def prepare_for_serialization(self):
        from torch.fx._graph_pickler import GraphPickler, Options

        try:
            with _only_described(self._module.graph, self._levels):
                self._data = GraphPickler.dumps(
                    self._module, Options(ops_filter=None, node_metadata_key_filter=("val", "place_of").__contains__)
                )
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
        lines.find(module)
        self._load(module)

    def set_triton_bundle(self, triton_bundle):
        """There are no Triton kernels in it."""


@contextlib.contextmanager
def _only_described(graph, level):
    """What is known of a node's value is kept where a program asks for it: each costs a fake tensor when it is read
    back. Of graphs whose sizes vary all is kept: there the program is written by what is known (sized.py)."""
    if any(has_symbols(n.meta.get("val")) or is_symbolic(n.meta.get("val")) for n in graph.nodes):
        yield
        return
    level = dict(zip(graph.nodes, level))
    kept = described(graph, [n for n, at in level.items() if any(level[u] != at for u in n.users)])
    hidden = {n: n.meta.pop("val") for n in graph.nodes if n not in kept and "val" in n.meta}
    try:
        yield
    finally:
        for node, value in hidden.items():
            node.meta["val"] = value


def spare_imports():
    """Dynamo asks inductor's CUDA graphs about the gradients of an optimizer, and so imports all of inductor; of
    tensors that are not CUDA's they say always the same."""
    from torch._dynamo.variables import optimizer

    asked = getattr(optimizer, "_is_static_for_cudagraphs", None)
    if asked:
        optimizer._is_static_for_cudagraphs = lambda x: x.device.type == "tpu" or asked(x)


def _without_inductors_backends():
    """The key of an entry is made by a class of inductor's that asks for its code generators, whose import takes longer
    than everything else of a second process. They have no say here."""
    from torch._inductor import codecache

    nothing = {
        "init_backend_registration": lambda: None,
        "custom_backend_passes": {},
        "custom_backend_codegen_configs": {},
    }
    return mock.patch.multiple(codecache, **{k: v for k, v in nothing.items() if hasattr(codecache, k)})


def _made_by():
    """A digest of what decides which graph an entry holds besides torch: the sources of this package's compiler."""
    here = pathlib.Path(__file__).parent
    return sources(here, here.parent)


def _groups():
    """The process groups that this rank knows: graphs hold their names, which stand for other ranks in other processes,
    and on other ranks of this job."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not c10d.is_initialized():
        return ""
    known = c10d._world
    ranks = sorted((name, sorted(known.pg_group_ranks[group].items())) for group, name in known.pg_names.items())
    return hashlib.sha256(f"{c10d.get_rank()} {ranks}".encode()).hexdigest()


@contextlib.contextmanager
def entries(tag: str):
    """While AOTAutograd runs: its entries hold whole graphs, backward ones too, and are found by tag, by the process
    groups there are and by how attention is to be done, besides what torch sees."""
    import torch._functorch.config as functorch
    import torch.compiler.config as compiler

    with (
        _without_inductors_backends(),
        functorch.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True),
        compiler.patch(cache_key_tag=f"{compiler.cache_key_tag} {tag} {_made_by()} {_groups()} {attention_settings()}"),
    ):
        yield
