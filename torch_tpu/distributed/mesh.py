"""Meshes whose neighbours are neighbours: which device of a slice stands where in a DeviceMesh.

A slice is a grid of chips, of which some axes close to rings. Each axis of the mesh gets factors of the grid's axes
(and of the devices of a chip), and walks through the box that they span as a snake does, so that one step moves one
place along one grid axis. Of all ways to share the factors out that one is taken whose mean steps, over all axes, are
shortest; among equals the one that favours the later axes of the mesh."""
import functools
import itertools
import math

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

# an axis closes to a ring where its length is a multiple of this
WRAPS = {"v4": 4, "v5p": 4, "tpu7x": 4, "v5e": 16, "v6e": 16}
# (v4, v5p, tpu7x: slices of whole 4x4x4 cubes are tori by optical switches; v5e, v6e: only a full axis of 16 is closed)


def _divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def _hops(distance, length, ring):
    return min(distance, length - distance) if ring else distance


def _shares(size, left):
    """All ways to take `size` as a product of a divisor of each number in left."""
    if not left:
        return [()] if size == 1 else []
    return [(d, *rest) for d in _divisors(math.gcd(size, left[0])) for rest in _shares(size // d, left[1:])]


def _walk(factors):
    """Digits of a snake through a box, the last digit fastest: [steps, digits], neighbours in one digit by one."""
    steps, signs = torch.arange(math.prod(factors)), []
    for i, f in enumerate(factors):
        inner = math.prod(factors[i + 1:])
        digit = steps // inner % f
        backwards = steps // (inner * f) % 2 == 1
        signs.append(torch.where(backwards, f - 1 - digit, digit))
    return torch.stack(signs, 1) if factors else torch.zeros(1, 0, dtype=torch.int64)


def _cost(share, strides, grid, rings):
    """Mean hops of a step along a mesh axis that has these factors at these strides, walked cheapest first; and the
    order."""
    hops = [_hops(s, n, r) for s, n, r in zip(strides, grid, rings)]
    order = sorted((p for p, f in enumerate(share) if f > 1), key=lambda p: -hops[p])
    total, outer = 0, 1
    for p in order:
        total += (share[p] - 1) * outer * hops[p]
        outer *= share[p]
    return total / max(1, outer - 1), order


@functools.lru_cache(maxsize=64)
def _plan(shape, grid, rings):
    """For each mesh axis: ((grid axis, factor, stride), ...), slowest first."""
    best = None
    for turns in itertools.permutations(range(len(shape))):
        states = [(grid, (1,) * len(grid), {}, {})]
        for axis in turns:
            grown = []
            for left, taken, plans, costs in states:
                for share in _shares(shape[axis], left):
                    cost, order = _cost(share, taken, grid, rings)
                    plan = tuple((p, share[p], taken[p]) for p in order)
                    grown.append(
                        (
                            tuple(n // f for n, f in zip(left, share)),
                            tuple(t * f for t, f in zip(taken, share)),
                            {**plans, axis: plan},
                            {**costs, axis: cost},
                        )
                    )
            states = sorted(grown, key=lambda s: sum(s[3].values()))[:256]
        for _, _, plans, costs in states:
            far = [costs[a] for a in reversed(range(len(shape)))]
            score = (round(sum(far), 9), [round(c, 9) for c in far])
            if best is None or score < best[0]:
                best = score, [plans[a] for a in range(len(shape))]
    return best and best[1]


def layout(topology, shape, dcn_mesh_shape=None):
    """The ranks of a mesh as an int64 tensor: rank r drives the r-th device of the topology (a name as "v6e:4x4", or a
    Topology).

    shape: of the mesh within one slice. dcn_mesh_shape: how many slices lie along each axis, all of this topology; the
    result has shape[i] * dcn_mesh_shape[i] along axis i, slices outermost, and the k-th slice has the ranks that follow
    those before it."""
    from ..aot.topology import Topology, topology as _topology

    t = topology if isinstance(topology, Topology) else _topology(topology)
    shape = tuple(int(s) for s in shape)
    if math.prod(shape) != len(t.devices):
        raise ValueError(
            f"a mesh of {' x '.join(map(str, shape))} has {math.prod(shape)} devices, {t.name} has {len(t.devices)}"
        )
    cores = len(t.devices) // t.chips
    grid, rings = (*t.shape, cores), (*(n > 2 and n % WRAPS[t.generation] == 0 for n in t.shape), True)
    plan = _plan(shape, grid, tuple(rings))
    if plan is None:
        raise ValueError(f"the axes of {t.name} cannot be shared out to a mesh of {' x '.join(map(str, shape))}")
    at = torch.full(grid, -1)
    for rank, d in enumerate(t.devices):
        at[(*d.coords[:len(t.shape)], d.core)] = rank
    places = torch.zeros(*shape, len(grid), dtype=torch.int64)
    for axis, factors in enumerate(plan):
        steps = _walk([f for _, f, _ in factors])
        view = [1] * len(shape)
        view[axis] = shape[axis]
        for digit, (p, _, stride) in enumerate(factors):
            places[..., p] += (steps[:, digit] * stride).view(view)
    ranks = at[tuple(places.unbind(-1))]
    if dcn_mesh_shape is None:
        return ranks
    if len(dcn_mesh_shape) != len(shape):
        raise ValueError(f"dcn_mesh_shape has {len(dcn_mesh_shape)} axes, the mesh {len(shape)}")
    slices = torch.arange(math.prod(dcn_mesh_shape)).view(*dcn_mesh_shape) * len(t.devices)
    both = slices.view(*itertools.chain(*((n, 1) for n in dcn_mesh_shape))) + ranks.view(
        *itertools.chain(*((1, n) for n in shape))
    )
    return both.reshape([a * b for a, b in zip(dcn_mesh_shape, shape)])


def hops(topology, ranks):
    """Mean hops over ICI of a step along each axis of a mesh of one slice; 0 between the devices of a chip."""
    from ..aot.topology import Topology, topology as _topology

    t = topology if isinstance(topology, Topology) else _topology(topology)
    coords = torch.tensor([d.coords[:len(t.shape)] for d in t.devices])[ranks]
    length = torch.tensor(t.shape)
    ring = torch.tensor([n > 2 and n % WRAPS[t.generation] == 0 for n in t.shape])
    means = []
    for axis in range(ranks.dim()):
        step = (coords.narrow(axis, 1, ranks.shape[axis] - 1) - coords.narrow(axis, 0, ranks.shape[axis] - 1)).abs()
        step = torch.where(ring, torch.minimum(step, length - step), step)
        means.append(step.sum(-1).double().mean().item() if step.numel() else 0.0)
    return means


def topology_aware_mesh(shape, dcn_mesh_shape=None, *, mesh_dim_names=None, topology=None) -> DeviceMesh:
    """A DeviceMesh over all ranks whose axes follow the links between chips.

    topology: what the ranks drive, a name as "v6e:4x4"; not given: a machine that has no such links (a plugin for the
    CPU), and the mesh is in the order of the ranks. dcn_mesh_shape: slices along each axis (see layout)."""
    whole = [a * b for a, b in zip(shape, dcn_mesh_shape or [1] * len(shape))]
    if topology is None:
        return init_device_mesh("tpu", tuple(whole), mesh_dim_names=mesh_dim_names)
    return DeviceMesh("tpu", layout(topology, shape, dcn_mesh_shape), mesh_dim_names=mesh_dim_names)
