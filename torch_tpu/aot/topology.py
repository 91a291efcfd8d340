"""TPU machines by name: what libtpu knows of their devices, and what is documented of their chips."""
import dataclasses
import difflib
import functools
import math
import re

from .. import _C
from ..plugin import KNOWN

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
    """Facts of one chip, from the page `source`.

    peak: {StableHLO dtype: operations a second} of matrix products (f32 products are made of bf16 ones). memory: bytes
    of HBM. bandwidth: of HBM, bytes a second. ici: bytes a second to and from all neighbours together. dcn: bytes a
    second to the data center's network. axes: of its torus. usable: bytes of HBM that programs of one device have, as
    libtpu 0.0.52 tells when one needs more. cycle: operations of bf16 products in one cycle of a device, which is the
    unit of libtpu's estimated_cycles: of a product of two [8192, 8192] matrices its estimate comes to 70% to 90% of
    that."""

    peak: dict
    memory: int
    bandwidth: float
    ici: float
    dcn: float
    axes: int
    usable: int
    cycle: int
    shapes: tuple
    source: str


def _chip(bf16, others, memory, bandwidth, ici, dcn, axes, usable, cycle, shapes, page):
    peak = {"bf16": bf16 * 1e12, **{dtype: n * 1e12 for dtype, n in others.items()}}
    return Chip(
        peak,
        memory * GIB,
        bandwidth * 1e9,
        ici * 1e9,
        dcn * 1e9 / 8,
        axes,
        int(usable * GIB),
        2**cycle,
        tuple(shapes.split()),
        f"https://docs.cloud.google.com/tpu/docs/{page}",
    )


FLAT = "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16"
CUBES = "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 8x8x8 8x8x16 8x16x16 16x16x16 16x16x24"
CHIPS = {
    "v4": _chip(275, {"i8": 275}, 32, 1200, 600, 25, 3, 15.25, 17, CUBES, "v4"),
    "v5e": _chip(197, {"i8": 393}, 16, 819, 400, 25, 2, 15.75, 17, FLAT, "v5e"),
    "v5p": _chip(459, {"i8": 918}, 95, 2765, 1200, 50, 3, 95.73, 18, CUBES, "v5p"),
    "v6e": _chip(918, {"i8": 1836}, 32, 1638, 800, 100, 2, 31.24, 19, FLAT, "v6e"),
    "tpu7x": _chip(
        2307, {"f8E4M3FN": 4614, "f8E5M2": 4614}, 192, 7380, 1200, 100, 3, 94.74, 19, CUBES + " 16x16x32", "tpu7x"
    ),
}


@dataclasses.dataclass(frozen=True)
class Device:
    """id: its number in programs; process: the host that drives it; coords: of its chip; core: which device of its chip
    it is."""

    id: int
    process: int
    coords: tuple
    core: int


class Topology:
    """A slice of a pod. What is of a device is a share of its chip's.

    name, generation, chip (Chip), kind ("TPU v6 lite"), devices (in the order of their ids), shape (chips along each
    axis)."""

    def __init__(self, name):
        match = re.fullmatch(r"(\w+):(\d+(?:x\d+)*)", name)
        generation = match.group(1) if match else name.partition(":")[0]
        if generation not in CHIPS:
            near = difflib.get_close_matches(generation, CHIPS, 1, 0.3)
            raise ValueError(
                f"unknown topology {name!r}: expected GENERATION:AxB or GENERATION:AxBxC with one of {', '.join(CHIPS)}"
                + (f"; did you mean {near[0]}:{CHIPS[near[0]].shapes[1]}?" if near else "")
            )
        self.name, self.generation, self.chip = name, generation, CHIPS[generation]
        dims = [int(n) for n in match.group(2).split("x")] if match else []
        if len(dims) != self.chip.axes or 0 in dims:
            raise ValueError(
                f"unknown topology {name!r}: a slice of {generation} has {self.chip.axes} axes, such as {self._near(dims)}"
            )
        try:
            rows = _C.topology_devices(libtpu(), name)
        except ValueError as e:
            raise ValueError(
                f"unknown topology {name!r}: libtpu does not make it ({_short(e)}); near ones are {self._near(dims)}"
            ) from None
        self.kind = rows[0][5]
        self.devices = [Device(*row[:4]) for row in sorted(rows)]
        self.shape = tuple(max(d.coords[axis] for d in self.devices) + 1 for axis in range(3))[: self.chip.axes]
        self.chips = len({d.coords for d in self.devices})
        self.share = self.chips / len(self.devices)  # of a chip, which a device is

    def _near(self, dims):
        """The usual shapes with about as many chips."""
        wanted = math.prod(dims) or 1
        shapes = sorted(self.chip.shapes, key=lambda s: abs(math.log(math.prod(map(int, s.split("x"))) / wanted)))
        return ", ".join(f"{self.generation}:{s}" for s in shapes[:3])

    @property
    def memory(self):
        """Bytes of HBM that a program of one device can have."""
        return self.chip.usable

    @property
    def bandwidth(self):
        """Bytes a second between one device and its HBM."""
        return self.chip.bandwidth * self.share

    @property
    def ici(self):
        """Bytes a second that one device can send to its neighbours, all of them together."""
        return self.chip.ici / 2 * self.share

    def peak(self, dtype="bf16"):
        """Operations a second of one device in matrix products of a dtype; of those that it has no units for, as
        bf16."""
        return self.chip.peak.get(dtype, self.chip.peak["bf16"]) * self.share

    @property
    def clock(self):
        """Cycles a second, as libtpu counts them (Chip.cycle)."""
        return self.peak() / self.chip.cycle

    def __repr__(self):
        return f"<{self.name}: {self.chips} chips, {len(self.devices)} devices of {self.memory / GIB:.2f} GiB>"


def _short(error):
    return str(error).removeprefix("PJRT_TopologyDescription_Create: ").splitlines()[0][:200]


def libtpu():
    """The path of libtpu. RuntimeError, saying what to install, where there is none."""
    path = KNOWN["libtpu"]()
    if path is None:
        raise RuntimeError(
            "libtpu is what compiles for TPUs, and it is not installed: pip install libtpu (no TPU is needed)"
        )
    return path


@functools.lru_cache(maxsize=None)
def topology(name):
    """The Topology of a name such as "v5e:2x2", "v6e:16x16" or "tpu7x:16x16x32". ValueError, naming near ones, if there
    is none."""
    return Topology(name)
