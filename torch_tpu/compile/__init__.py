"""torch.compile(backend="tpu"): a captured graph becomes one program.

AOTAutograd gives an FX graph of aten operators over plain tensors; it is registered as a Python function, and the native
side traces it once for each kind of inputs, through the same lowering as eager operators. Inputs that the graph writes
are written in place. Sizes are static: another shape is another graph. A graph that reads a value on the way runs as it
is, operator by operator.
"""

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from .. import _C


class _Graph:
    """A captured graph as a function of tensors. Inputs returned as they are never enter the program."""

    def __init__(self, module, example_inputs):
        self.module = module
        nodes = list(module.graph.nodes)
        placeholders = [n for n in nodes if n.op == "placeholder"]
        position = {n: i for i, n in enumerate(placeholders)}
        (output,) = [n for n in nodes if n.op == "output"]
        returned = list(output.args[0])
        written = {n.args[0] for n in nodes if n.target is torch.ops.aten.copy_.default and n.args[0] in position}
        tensors = [
            i for i, n in enumerate(placeholders) if isinstance(n.meta.get("val", example_inputs[i]), torch.Tensor)
        ]
        self.numbers = {i: example_inputs[i] for i in range(len(placeholders)) if i not in tensors}
        self.written = [i for i in tensors if placeholders[i] in written]
        self.read = [i for i in tensors if placeholders[i] not in written]
        self.results = []  # an input's position, a constant, or None for the next result of the program
        outputs, self.computed = [], []
        for k, r in enumerate(returned):
            if isinstance(r, torch.fx.Node) and r in position:
                self.results.append(("input", position[r]))
            elif isinstance(r, torch.fx.Node) and r.target is torch.ops.aten.copy_.default and r.args[0] in position:
                self.results.append(("input", position[r.args[0]]))
            elif isinstance(r, torch.fx.Node) and isinstance(r.meta.get("val"), torch.Tensor):
                value = r.meta["val"]
                outputs.append((str(value.dtype).removeprefix("torch."), _ints(value.shape), _ints(value.stride())))
                self.results.append(("new", len(self.computed)))
                self.computed.append(k)
            else:
                self.results.append(("constant", r if not isinstance(r, torch.fx.Node) else int(r.meta["val"])))
        self.handle = _C.graph_register(self.trace, outputs)
        self.eager = False

    def arguments(self, written, read):
        args = [None] * (len(written) + len(read) + len(self.numbers))
        for i, value in self.numbers.items():
            args[i] = value
        for i, value in zip(self.written, written):
            args[i] = value
        for i, value in zip(self.read, read):
            args[i] = value
        return args

    def trace(self, args):
        """Called by the native side with traced tensors: [written, read]."""
        with torch.no_grad():
            results = self.module(*self.arguments(*args))
        torch.ops.torch_tpu.deliver([results[k] for k in self.computed])

    def __call__(self, *inputs):
        if self.eager:
            return self.module(*inputs)
        try:
            new = torch.ops.torch_tpu.graph_call(
                self.handle, [inputs[i] for i in self.written], [inputs[i] for i in self.read]
            )
        except NotImplementedError:
            self.eager = True  # nothing has run: what cannot be traced is found before
            return self.module(*inputs)
        return [inputs[x] if kind == "input" else new[x] if kind == "new" else x for kind, x in self.results]

    def __del__(self):
        handle = getattr(self, "handle", None)
        if handle is not None:
            _C.graph_release(handle)


def _ints(sizes):
    return tuple(int(s) for s in sizes)


def _compile(module, example_inputs):
    # Constant tensors that the graph holds belong on its device, and dropout and the like must draw from it.
    return make_boxed_func(_Graph(module, example_inputs))


_aot = aot_autograd(fw_compiler=_compile, keep_inference_input_mutations=True)


def tpu(module, example_inputs, **options):
    """The backend function that torch.compile calls: torch finds it by the entry point torch_dynamo_backends."""
    if options:
        raise ValueError(f"expected no options for the tpu backend, got {sorted(options)}")
    return _aot(module, example_inputs)
