"""torch.compile(backend="tpu"): a captured graph becomes one program.

AOTAutograd gives an FX graph of aten operators over plain tensors; it is registered as a Python function, and the native
side traces it once for each kind of inputs, through the same lowering as eager operators. Inputs that the graph writes
are written in place. A graph with symbolic sizes is one program for each combination of sizes it is called with. A graph
that reads a value on the way, or saves and restores random state, runs as it is, operator by operator.
"""

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from .. import _C


def _evaluate(size, known):
    """A size, which may be an expression of symbols, as a number."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    return int(size.node.expr.subs(known))


def _elsewhere(node):
    """Whether a node's value is not on the device, so that a program could only freeze it. Numbers in 0-dim inputs pass."""
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else [value]
    return any(isinstance(v, torch.Tensor) and v.device.type != "tpu" and (v.dim() > 0 or node.op != "placeholder") for v in values)


class _Graph:
    """A captured graph as a function of tensors. Inputs returned as they are never enter the program."""

    def __init__(self, module):
        self.module = module
        nodes = list(module.graph.nodes)
        placeholders = [n for n in nodes if n.op == "placeholder"]
        position = {n: i for i, n in enumerate(placeholders)}
        (output,) = [n for n in nodes if n.op == "output"]
        copies = {n for n in nodes if n.target is torch.ops.aten.copy_.default and n.args[0] in position}
        written = {n.args[0] for n in copies}
        self.inputs = [n.meta.get("val") for n in placeholders]
        tensors = [i for i, value in enumerate(self.inputs) if isinstance(value, torch.Tensor)]
        self.numbers = [i for i in range(len(placeholders)) if i not in tensors]
        self.written = [i for i in tensors if placeholders[i] in written]
        self.read = [i for i in tensors if placeholders[i] not in written]
        self.results = []  # where each result comes from
        self.computed = []  # positions of the results that the program computes
        self.values = []  # and what is known of them: fake tensors
        for k, r in enumerate(output.args[0]):
            value = r.meta.get("val") if isinstance(r, torch.fx.Node) else r
            if r in position:
                self.results.append(("input", position[r]))
            elif r in copies:
                self.results.append(("input", position[r.args[0]]))
            elif isinstance(value, torch.Tensor):
                self.results.append(("new", len(self.computed)))
                self.computed.append(k)
                self.values.append(value)
            else:
                self.results.append(("number", value))
        symbolic = any(isinstance(v, torch.SymInt) for v in self.inputs)
        self.symbolic = symbolic or any(
            isinstance(s, torch.SymInt) for i in tensors for s in (*self.inputs[i].shape, *self.inputs[i].stride())
        )
        self.handles = {}  # what symbols stand for -> handle
        self.eager = any(n.target in _random_state_operators or _elsewhere(n) for n in nodes)

    def symbols(self, inputs):
        """What each symbol stands for in this call."""
        known = {}
        for value, real in zip(self.inputs, inputs):
            if isinstance(value, torch.Tensor):
                pairs = zip((*value.shape, *value.stride()), (*real.shape, *real.stride()))
            else:
                pairs = [(value, real)]
            for size, number in pairs:
                if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                    known[size.node.expr] = int(number)
        return known

    def register(self, numbers, known):
        outputs = [
            (
                str(v.dtype).removeprefix("torch."),
                tuple(_evaluate(s, known) for s in v.shape),
                tuple(_evaluate(s, known) for s in v.stride()),
            )
            for v in self.values
        ]

        def trace(args):
            """Called by the native side with traced tensors: [written, read]."""
            arguments = [None] * len(self.inputs)
            for where, values in zip((self.numbers, self.written, self.read), (numbers, *args)):
                for i, value in zip(where, values):
                    arguments[i] = value
            with torch.no_grad():
                results = self.module(*arguments)
            torch.ops.torch_tpu.deliver([results[k] for k in self.computed])

        return _C.graph_register(trace, outputs)

    def __call__(self, *inputs):
        if self.eager:
            return self.module(*inputs)
        known = self.symbols(inputs) if self.symbolic else {}
        numbers = tuple(inputs[i] for i in self.numbers)
        key = (numbers, *known.items()) if numbers or known else ()
        handle = self.handles.get(key)
        if handle is None:
            handle = self.handles[key] = self.register(numbers, known)
        try:
            new = torch.ops.torch_tpu.graph_call(
                handle, [inputs[i] for i in self.written], [inputs[i] for i in self.read]
            )
        except NotImplementedError:
            self.eager = True  # nothing has run: what cannot be traced is found before
            return self.module(*inputs)
        return [
            inputs[x] if kind == "input" else new[x] if kind == "new" else _evaluate(x, known) if x is not None else None
            for kind, x in self.results
        ]

    def __del__(self):
        for handle in getattr(self, "handles", {}).values():
            _C.graph_release(handle)


def _register_random_state():
    """Dropout under checkpointing saves random state in the forward graph and puts it back in the backward one. Torch's
    operators for that name the devices they know; this adds ours to what they do with real and with fake tensors."""
    from torch._higher_order_ops.utils import registered_hop_fake_fns
    from torch._prims import rng_prims

    save, restore = rng_prims.run_and_save_rng_state, rng_prims.run_with_rng_state
    key = torch._C.DispatchKey.BackendSelect
    torch_save, torch_restore = save.py_kernels[key], restore.py_kernels[key]

    def run_and_save(op, *args, **kwargs):
        if rng_prims.get_device(args, kwargs) != "tpu":
            return torch_save(op, *args, **kwargs)
        state = torch.tpu.get_rng_state()
        return state, op(*args, **kwargs)

    def run_with(state, op, *args, **kwargs):
        if rng_prims.get_device(args, kwargs) != "tpu":
            return torch_restore(state, op, *args, **kwargs)
        before = torch.tpu.get_rng_state()
        torch.tpu.set_rng_state(state)
        try:
            return op(*args, **kwargs)
        finally:
            torch.tpu.set_rng_state(before)

    for operator, function in ((save, run_and_save), (restore, run_with)):
        operator.py_kernels[key] = function
        operator._dispatch_cache.clear()
    registered_hop_fake_fns[save] = run_and_save
    return save, restore


_random_state_operators = _register_random_state()


def _compile(module, example_inputs):
    return make_boxed_func(_Graph(module))


_aot = aot_autograd(fw_compiler=_compile, keep_inference_input_mutations=True)


def tpu(module, example_inputs, **options):
    """The backend function that torch.compile calls: torch finds it by the entry point torch_dynamo_backends."""
    if options:
        raise ValueError(f"expected no options for the tpu backend, got {sorted(options)}")
    return _aot(module, example_inputs)
