"""How long a program would take on a TPU: two estimates that know nothing of each other.

roofline: each operation, what is fused into it included, takes as long as its matrix products at peak speed or its
bytes at HBM's bandwidth, whichever is longer (S. Williams et al., "Roofline", CACM 52(4), 2009); transfers between
chips (links.py) are added. It is a lower bound but for what overlaps. cycles: what libtpu's own
compiler expects of each fusion it has made, times how often it runs; it leaves out what it says nothing of (custom
calls, transfers between chips). Neither knows of waiting for the host. Vector units are not modelled: random numbers
and transcendental functions of large tensors may cost more than either says."""
import dataclasses

from . import links, optimized


@dataclasses.dataclass
class Estimate:
    """Seconds of one run by both methods; mfu: model FLOPs utilization, matrix operations (an f32 product's counted
    once) over what the device could do in bf16 in `roofline` seconds; bound: what most of that time waits for."""

    roofline: float
    cycles: float
    mfu: float
    bound: str


def seconds(kernel, topology):
    """{"compute", "memory", "links"}: seconds that one run of a kernel takes of each."""
    cost = kernel.cost
    compute = sum(n / topology.peak(dtype) for dtype, n in cost.passes.items())
    return {
        "compute": compute,
        "memory": cost.bytes / topology.bandwidth,
        "links": links.seconds(kernel.op, cost.sent, topology),
    }


def estimate(counter, topology, optimized_program):
    waits = dict.fromkeys(("compute", "memory", "links"), 0.0)
    for kernel in counter.kernels:
        parts = seconds(kernel, topology)
        longest = max(("compute", "memory"), key=parts.get)
        waits[longest] += parts[longest] * kernel.times
        waits["links"] += parts["links"] * kernel.times
    total = sum(waits.values())
    cycles = sum(i.cycles * i.times for i in optimized.instructions(optimized_program)) / topology.clock
    matrix = sum(counter.cost.matrix.values())
    return Estimate(total, cycles, matrix / topology.peak() / total if total else 0.0, max(waits, key=waits.get))
