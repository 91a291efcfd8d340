"""torch's functional collectives as operations between the replicas of one program.

A traced graph names process groups, as the rank that traced it knows them. The program is that of every device, so an
operation lists all groups of its kind: those of the mesh's axis. Replicas are numbered as ranks are."""
import itertools
import math
import operator

import torch

_ops = torch.ops.torch_tpu


def _of_ranks(ranks, world, meshes):
    """All groups of the kind that `ranks` is of, as lists: it is one of them."""
    for grid in (mesh.mesh for mesh in meshes):
        # several: flattened
        for axes in (axes for n in range(1, grid.ndim + 1) for axes in itertools.combinations(range(grid.ndim), n)):
            moved = grid.movedim(axes, tuple(range(-len(axes), 0)))
            rows = moved.reshape(-1, math.prod(moved.shape[-len(axes) :])).tolist()
            if list(ranks) in rows:
                return rows
    n, step = len(ranks), ranks[1] - ranks[0] if len(ranks) > 1 else 1
    regular = step > 0 and world % (n * step) == 0 and list(ranks) == list(range(ranks[0], ranks[0] + n * step, step))
    if not regular or ranks[0] % (n * step) >= step:
        raise NotImplementedError(
            f"a collective of ranks {list(ranks)[:8]}{'...' if n > 8 else ''} of {world}, which are along no axis of a mesh: pass mesh="
        )
    return torch.arange(world).reshape(-1, n, step).movedim(1, -1).reshape(-1, n).tolist()


class Groups:
    """What process groups become. meshes: DeviceMeshes whose groups may be met."""

    def __init__(self, meshes=()):
        self.meshes, self.known = meshes, {}

    def of(self, name):
        """The groups of the kind of a process group's, as the operators of torch_tpu take them."""
        if name not in self.known:
            from torch.distributed import distributed_c10d as c10d

            ranks = c10d.get_process_group_ranks(c10d._resolve_process_group(name))
            world = c10d.get_world_size()
            rows = _of_ranks(ranks, world, self.meshes)
            if sorted(r for row in rows for r in row) != list(range(world)):
                raise NotImplementedError(f"a mesh of other ranks than all {world}")
            self.known[name] = [len(rows), len(rows[0]), *(r for row in rows for r in row)]
        return self.known[name]

    def first(self, name, src):
        """The same, each group turned so that its src-th rank comes first."""
        count, size, *ranks = self.of(name)
        rows = [ranks[i * size : (i + 1) * size] for i in range(count)]
        return [count, size, *(r for row in rows for r in [row[src], *row[:src], *row[src + 1 :]])]


def _all_to_all(graph, groups, x, got, given, name):
    if len({*got, *given}) > 1:
        raise NotImplementedError(
            "all_to_all_single with parts of different sizes: a program's sizes are the same on all devices"
        )
    return graph.call_function(_ops.all_to_all.default, (x, 0, 0, groups.of(name)))


def _broadcast(graph, groups, x, src, name):
    """The first of what all have: libtpu does not implement broadcasts (HLO collective-broadcast)."""
    rows = graph.call_function(torch.ops.aten.unsqueeze.default, (x, 0))
    whole = graph.call_function(_ops.all_gather.default, (rows, groups.first(name, src)))
    return graph.call_function(torch.ops.aten.select.int, (whole, 0, 0))


def _shard_dim(graph, groups, x, gather_dim, shard_dim, name):
    return graph.call_function(_ops.all_to_all.default, (x, shard_dim, gather_dim, groups.of(name)))


# {operator: replacement(graph, groups, x, the other arguments)}, for one operand; coalesced forms have a list of them.
ONE = {
    "_c10d_functional::all_reduce": lambda g, s, x, op, name: g.call_function(
        _ops.all_reduce.default, (x, op, s.of(name))
    ),
    "_c10d_functional::all_gather_into_tensor": lambda g, s, x, n, name: g.call_function(
        _ops.all_gather.default, (x, s.of(name))
    ),
    "_c10d_functional::reduce_scatter_tensor": lambda g, s, x, op, n, name: g.call_function(
        _ops.reduce_scatter.default, (x, op, s.of(name))
    ),
    "_c10d_functional::broadcast": _broadcast,
    "_c10d_functional::all_to_all_single": _all_to_all,
    "_dtensor::shard_dim_alltoall": _shard_dim,
}
COALESCED = {
    "_c10d_functional::all_reduce_coalesced": "all_reduce",
    "_c10d_functional::all_gather_into_tensor_coalesced": "all_gather_into_tensor",
    "_c10d_functional::reduce_scatter_tensor_coalesced": "reduce_scatter_tensor",
}
IN_PLACE = {"_c10d_functional::all_reduce_": "all_reduce", "_c10d_functional::broadcast_": "broadcast"}
WAIT = "_c10d_functional::wait_tensor"


def _arguments(node):
    """The arguments of a call in the order of its schema."""
    schema = node.target._schema.arguments
    return [node.args[i] if i < len(node.args) else node.kwargs[a.name] for i, a in enumerate(schema)]


def replace(module, groups):
    """Replaces the functional collectives of a graph and of the graphs in it. NotImplementedError for what has no such
    form."""
    graph = module.graph
    for part in module.children():
        if isinstance(part, torch.fx.GraphModule):
            replace(part, groups)
    changed = False
    for node in list(graph.nodes):
        if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace not in (
            "_c10d_functional",
            "_dtensor",
            "_c10d_functional_autograd",
        ):
            continue
        name = node.target._schema.name
        x, *others = _arguments(node)
        changed = True

        def become(node, made):
            made.meta.update(node.meta)
            node.replace_all_uses_with(made)

        with graph.inserting_before(node):
            if name == WAIT:
                node.replace_all_uses_with(x)
            elif name in ONE:
                become(node, ONE[name](graph, groups, x, *others))
            elif name in IN_PLACE:
                made = ONE["_c10d_functional::" + IN_PLACE[name]](graph, groups, x, *others)
                become(node, graph.call_function(torch.ops.aten.copy_.default, (x, made)))
            elif name in COALESCED:
                made = [ONE["_c10d_functional::" + COALESCED[name]](graph, groups, each, *others) for each in x]
                for user in list(node.users):
                    if user.target is not operator.getitem:
                        raise NotImplementedError(f"{name} whose list of results is used as a whole")
                    become(user, made[user.args[1]])
                    graph.erase_node(user)
            else:
                raise NotImplementedError(f"{name} has no form in a program for many devices")
        graph.erase_node(node)
    if changed:
        module.recompile()
