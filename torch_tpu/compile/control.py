"""Torch's higher-order operators in a graph that is being traced: loops and branches of its program, and saved random
state.

Where no graph is being traced they do what torch's own implementations do. A part that a program cannot hold (a loop
whose state changes its sizes, random numbers in a branch) makes the whole graph run operator by operator."""

import torch
from torch.utils import _pytree as pytree

from .._internal.repeat import repeat

_ops = torch.ops.torch_tpu
_KEY = torch._C.DispatchKey.PrivateUse1


def _implements(operator):
    """Registers a function for tracing; torch's own, for everything else, is its first argument."""

    def register(function):
        dense = operator.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd]

        def run(*args):
            return function(*args) if _ops.tracing() else dense(*args)

        operator.py_impl(_KEY)(run)
        return function

    return register


def _part(function, inputs=()):
    """A callable for the native side: delivers the tensors of function's results."""

    def part(args):
        result = function(*args, *inputs)
        _ops.deliver([r for r in pytree.tree_leaves(result) if isinstance(r, torch.Tensor)])

    return part


def _results_of(function):
    """What a captured part returns: fake tensors, numbers or None."""
    (output,) = function.graph.find_nodes(op="output")
    return pytree.tree_map_only(torch.fx.Node, lambda n: n.meta["val"], output.args[0])


def _like(value):
    return torch.empty([int(s) for s in value.shape], dtype=value.dtype, device="meta")


def _register_control():
    import torch._higher_order_ops.map  # noqa: F401  (makes its operator)

    hops = torch.ops.higher_order

    @_implements(hops.cond)
    def _cond(predicate, on_true, on_false, operands):
        if not isinstance(predicate, torch.Tensor):
            return (on_true if predicate else on_false)(*operands)
        leaves, spec = pytree.tree_flatten(_results_of(on_true))
        places = [k for k, value in enumerate(leaves) if isinstance(value, torch.Tensor)]
        if not places:
            return pytree.tree_unflatten(leaves, spec)
        parts = _part(on_true, operands), _part(on_false, operands)
        made = _ops.trace_if(predicate, id(parts[0]), id(parts[1]), [_like(leaves[k]) for k in places])
        for k, value in zip(places, made):
            leaves[k] = value
        return pytree.tree_unflatten(leaves, spec)

    @_implements(hops.while_loop)
    def _while_loop(condition, body, carried, additional):
        if not all(isinstance(x, torch.Tensor) for x in carried):
            raise NotImplementedError("a loop that carries numbers")
        parts = _part(condition, additional), _part(body, additional)
        return tuple(_ops.trace_while(id(parts[0]), id(parts[1]), list(carried)))

    def loop(length, init, xs, step, results, reverse=False):
        """step(*carry, *rows) -> (*carry, *ys) over the rows of xs, from the last to the first if reverse; results:
        what step returns."""
        like = [_like(r) for r in results[len(init) :]]
        stacks = [torch.empty((length, *y.shape), dtype=y.dtype, device="tpu").zero_() for y in like]
        # of 64 bits libtpu does not see how often the loop runs
        start = torch.zeros((), dtype=torch.int32, device="tpu")

        def body(i, *state):
            carry, ys = state[: len(init)], state[len(init) :]
            at = length - 1 - i if reverse else i
            made = step(*carry, *[_ops.trace_row(x, at) for x in xs])
            rows = [_ops.trace_with_row(y, row, at) for y, row in zip(ys, made[len(init) :])]
            return [i + 1, *made[: len(init)], *rows]

        parts = _part(lambda i, *state: i < length), _part(body)
        return _ops.trace_while(id(parts[0]), id(parts[1]), [start, *init, *stacks])[1:]

    @_implements(hops.scan)
    def _scan(combine, init, xs, additional):
        return tuple(
            loop(xs[0].shape[0], list(init), list(xs), lambda *a: combine(*a, *additional), _results_of(combine))
        )

    @_implements(repeat)
    def _repeat(body, reverse, init, xs, extra):
        return list(loop(xs[0].shape[0], list(init), list(xs), lambda *a: body(*a, *extra), _results_of(body), reverse))

    @_implements(hops.map_impl)
    def _map(function, xs, additional):
        results = _results_of(function)
        leaves, spec = pytree.tree_flatten(results)
        if not all(isinstance(r, torch.Tensor) for r in leaves):
            raise NotImplementedError("a map that returns numbers")
        made = loop(xs[0].shape[0], [], list(xs), lambda *a: pytree.tree_leaves(function(*a, *additional)), leaves)
        return pytree.tree_unflatten(made, spec)


def _register_random_state():
    """Dropout under checkpointing saves random state in the forward graph and puts it back in the backward one. The
    state is a device tensor, seed and offset, so that both graphs stay programs and nothing waits."""
    from torch._higher_order_ops.utils import registered_hop_fake_fns
    from torch._prims import rng_prims

    save, restore = rng_prims.run_and_save_rng_state, rng_prims.run_with_rng_state
    key = torch._C.DispatchKey.BackendSelect
    torch_save, torch_restore = save.py_kernels[key], restore.py_kernels[key]

    def on_tpu(args, kwargs):
        return rng_prims.get_device(args, kwargs) == "tpu"

    def run_and_save(op, *args, **kwargs):
        if not on_tpu(args, kwargs):
            return torch_save(op, *args, **kwargs)
        state = _ops.trace_random_state() if _ops.tracing() else torch.tpu.get_rng_state().view(torch.int64).to("tpu")
        return state, op(*args, **kwargs)

    def fake(op, *args, **kwargs):
        if not on_tpu(args, kwargs):
            return torch_save(op, *args, **kwargs)
        return torch.empty(2, dtype=torch.int64, device="tpu"), op(*args, **kwargs)

    def run_with(state, op, *args, **kwargs):
        if not on_tpu(args, kwargs):
            return torch_restore(state, op, *args, **kwargs)
        if _ops.tracing():
            _ops.trace_set_random_state(state)
            try:
                return op(*args, **kwargs)
            finally:
                _ops.trace_set_random_state(None)
        before = torch.tpu.get_rng_state()
        torch.tpu.set_rng_state(state.cpu().view(torch.uint8))
        try:
            return op(*args, **kwargs)
        finally:
            torch.tpu.set_rng_state(before)

    def fake_with(state, op, *args, **kwargs):
        return op(*args, **kwargs) if on_tpu(args, kwargs) else torch_restore(state, op, *args, **kwargs)

    for operator, function in ((save, run_and_save), (restore, run_with)):
        operator.py_kernels[key] = function
        operator._dispatch_cache.clear()
    registered_hop_fake_fns[save] = fake
    registered_hop_fake_fns[restore] = fake_with


def retype_random_states(graph):
    """The partitioner that saves random state for recomputation takes it for what torch.tpu.get_rng_state returns, a
    CPU tensor; says of the nodes that hold one what it is: two numbers on the device."""
    from torch._prims import rng_prims

    states = [
        u
        for n in graph.find_nodes(op="call_function", target=rng_prims.run_and_save_rng_state)
        for u in n.users
        if u.args[1] == 0
    ]
    states += [n.args[0] for n in graph.find_nodes(op="call_function", target=rng_prims.run_with_rng_state)]
    for node in states:
        old = node.meta["val"]
        with old.fake_mode:
            node.meta["val"] = torch.empty(2, dtype=torch.int64, device="tpu")


def register():
    _register_control()
    _register_random_state()
