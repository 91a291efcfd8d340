"""How long collectives take on the links between chips: which axes of the slice their groups lie along decides how many
links they have.

A chip has one link each way along each axis of the grid, so an axis gives a group both of its directions where it
closes to a ring, one where it ends (a ring that goes there and back). A group that spans several axes uses the links of
all; one that takes every second chip shares them with the group between. A ring's step costs a microsecond (J. Austin
et al., "How to Scale Your Model", 2025, part 3, which has these formulas too), and an all-to-all is bound by what
crosses the middle of the longest axis. Left out: what else is on the links at the time, and the wires inside a chip,
which count as its links do."""
import functools
import math
import re

from ..distributed.mesh import WRAPS

HOP = 1e-6  # seconds, of one step to the next chip


def group_of(op):
    """The replicas of an operation's first group; () where it names none."""
    first = re.search(r"replica_groups = dense<\[+([\d, ]*)\]", op.text)
    if first is None:  # all the same number: one replica
        return ()
    return tuple(int(x) for x in first.group(1).split(","))


@functools.lru_cache(maxsize=1024)
def _span(topology, group):
    """[(chips of the group along the axis, whether they are a ring, share of each link that is the group's)] of the axes
    along which it lies."""
    coords = [topology.devices[r].coords for r in group]
    found = []
    for axis, length in enumerate(topology.shape):
        at = sorted({c[axis] for c in coords})
        if len(at) > 1:
            ring = len(at) == length > 2 and length % WRAPS[topology.generation] == 0
            reach = length if len(at) * (at[1] - at[0]) == length else at[-1] - at[0] + 1
            found.append((len(at), ring, len(at) / reach))
    return found


def seconds(op, sent, topology):
    """Of a collective, in which a device sends so many bytes. The replicas are the topology's first devices, in the
    order of their numbers."""
    if not sent:
        return 0.0
    link = topology.ici / len(topology.shape) / 2  # bytes a second of one device's share of one link, one way
    axes = _span(topology, group_of(op))
    if not axes:  # in one chip, or from one device to another
        return max(sent / (topology.ici if op.name != "collective_permute" else link), HOP)
    ways = [(2 if ring else 1) * share * link for _, ring, share in axes]
    hops = sum(n // 2 if ring else n - 1 for n, ring, _ in axes)
    if op.name == "all_to_all":
        # of n chips in a row n/2 send half of what they have over the link in the middle; a ring has two middles
        n_devices = len(group_of(op))
        whole = sent * n_devices / (n_devices - 1)
        return max(max(n * whole / (4 * w) for (n, _, _), w in zip(axes, ways)), hops * HOP)
    return max(sent / math.fsum(ways), (2 if op.name == "all_reduce" else 1) * hops * HOP)
