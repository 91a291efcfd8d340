"""A loop over rows in traced graphs: repeat(body, reverse, init, xs, extra) -> [*carry, *ys].

body(*carry, *(row of each of xs), *extra) gives [*carry, *(row of each of ys)], for the rows in order, or from the last
to the first; rows of ys lie where those of xs do. As torch's own scan, which has no reverse, and whose gradient is its
own. A traced program holds it as one loop, however many rows there are."""
import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    disable_proxy_modes_tracing,
    make_fx,
    track_tensor_tree,
)

class _Repeat(HigherOrderOperator):
    def __init__(self):
        super().__init__("torch_tpu_repeat")

    def __call__(self, body, reverse, init, xs, extra):
        return super().__call__(body, reverse, init, xs, extra)


repeat = _Repeat()


@repeat.py_impl(DispatchKey.CompositeExplicitAutograd)
def _run(body, reverse, init, xs, extra):
    n, carry, rows = xs[0].shape[0], list(init), []
    for i in reversed(range(n)) if reverse else range(n):
        made = body(*carry, *(x[i] for x in xs), *extra)
        carry = list(made[: len(init)])
        rows.append(made[len(init) :])
    return carry + [torch.stack(ys[::-1] if reverse else ys) for ys in zip(*rows)]


@repeat.py_impl(DispatchKey.Autograd)
def _below(body, reverse, init, xs, extra):
    with torch._C._AutoDispatchBelowAutograd():
        return repeat(body, reverse, init, xs, extra)


@repeat.py_impl(FakeTensorMode)
def _fake(mode, body, reverse, init, xs, extra):
    with mode:
        made = body(*init, *(x[0] for x in xs), *extra)
        return [x.clone() for x in made[: len(init)]] + [
            y.new_empty((xs[0].shape[0], *y.shape)) for y in made[len(init) :]
        ]


@repeat.py_impl(ProxyTorchDispatchMode)
def _proxy(mode, body, reverse, init, xs, extra):
    name = f"repeat_{sum(n.startswith('repeat_') for n, _ in mode.tracer.root.named_children())}"
    mode.tracer.root.add_module(name, body)
    # A child of the root is a get_attr node when it is an argument.
    given = torch.utils._pytree.tree_map(mode.tracer.unwrap_proxy, (body, reverse, list(init), list(xs), list(extra)))
    proxy = mode.tracer.create_proxy("call_function", repeat, given, {}, name="repeat")
    with disable_proxy_modes_tracing():
        made = repeat(body, reverse, init, xs, extra)
    return track_tensor_tree(made, proxy, constant=None, tracer=mode.tracer)


def trace_body(function, examples):
    """A function of tensors as a graph for repeat, and the tensors that it takes from outside, which the graph has as
    further arguments. What is traced around it does not hear of it."""
    with disable_proxy_modes_tracing():
        module = make_fx(function, tracing_mode="real")(*examples)
    graph, outer = module.graph, {}
    from ..aot.trace import _written  # which imports what uses this

    if _written(graph):
        raise NotImplementedError(
            "a layer that writes into what it was given, as batch norm into its buffers, cannot be one round of a loop"
        )
    last = [n for n in graph.nodes if n.op == "placeholder"][-1]
    for node in list(graph.find_nodes(op="get_attr")):
        value = getattr(module, node.target)
        if not isinstance(value, torch.Tensor):
            continue
        if id(value) not in outer:
            with graph.inserting_after(last):
                last = graph.placeholder(f"outer_{len(outer)}")
            last.meta["val"] = value
            outer[id(value)] = last, value
        node.replace_all_uses_with(outer[id(value)][0])
        graph.erase_node(node)
        delattr(module, node.target)  # else what is traced around it finds its tensor here
    graph.set_codegen(torch.fx.graph.CodeGen())
    module.recompile()
    return module, [value for _, value in outer.values()]
