"""Ahead-of-time compilation for real TPUs, with no TPU: does it compile, does it fit, how fast could it be.

    with torch_tpu.aot.fake():                      # parameters without memory: any size of model
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters())
        tokens = torch.zeros(8, 1024, dtype=torch.long)

    def step(tokens):
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    compiled = torch_tpu.aot.compile(step, (tokens,), topology="v6e:2x2")
    print(compiled)                                  # memory, cost, estimate

The function is traced on fake tensors (trace.py), lowered through the table of every program, and compiled by libtpu.
Costs are counted from the program's text (count.py), times estimated from that and from what libtpu expects
(estimate.py)."""
import dataclasses
import pathlib
import re

from .. import _C
from ..step import Step
from . import bundle, count, estimate as _estimate, sharded as _sharded, trace
from .bundle import fill
from .sharded import mesh, shard
from .._internal.utils.hardware import made_for
from .topology import CHIPS, GIB, Topology, libtpu, topology as _topology
from .trace import fake

topology = _topology
__all__ = ["CHIPS", "Compiled", "Memory", "OutOfMemory", "Topology", "compile", "fake", "fill", "mesh", "shard", "topology"]


class OutOfMemory(MemoryError):
    """A program needs more HBM than a device has. needed, available: bytes."""

    def __init__(self, message, needed, available):
        super().__init__(message)
        self.needed, self.available = needed, available


@dataclasses.dataclass
class Memory:
    """Bytes of one device's HBM. arguments: parameters of the program; outputs: its results, less those in the memory
    of arguments; temporaries; code; available: what the device has."""

    arguments: int
    outputs: int
    temporaries: int
    code: int
    available: int

    @property
    def total(self):
        return self.arguments + self.outputs + self.temporaries + self.code


class Compiled:
    """A program compiled for a topology.

    topology, devices (how many the program is for, each its own arguments), program (StableHLO text), inputs
    (trace.Program: which tensor each parameter is), memory (Memory), cost (count.Cost), estimate (estimate.Estimate),
    plugin_cost: libtpu's own analysis, which counts a loop's body once and leaves transfers out."""

    def __init__(self, handle, traced, where, devices=1, asked=False):
        self.asked = asked  # whether processes ask for this very text
        self._handle, self.inputs, self.topology, self.program, self.devices = (
            handle,
            traced,
            where,
            traced.text,
            devices,
        )
        self.counter = count.Counter(traced.text)
        self.cost = self.counter.cost
        m = _C.aot_memory(handle)
        self.memory = Memory(m["argument"], m["output"] - m["alias"], m["temporary"], m["code"], where.memory)
        self.plugin_cost = _C.aot_costs(handle)
        self.estimate = _estimate.estimate(self.counter, where, self.optimized())

    def optimized(self):
        """The program as libtpu runs it: a serialized HloModuleProtoWithConfig."""
        return _C.aot_optimized(self._handle)[0]

    def serialize(self):
        """The executable as bytes, which libtpu of the same version loads on such a machine."""
        return _C.aot_serialize(self._handle)

    def fill(self):
        """Puts the executable into the cache folder of this process, where a process on such a machine that calls the
        same compile_step function looks for it. Returns its name there. ValueError: nobody would look for it, as it is
        for several devices, or was traced here from a plain function."""
        if self.devices > 1 or not self.asked:
            raise ValueError(
                "no process asks for this program: "
                + (
                    f"it is for {self.devices} devices"
                    if self.devices > 1
                    else "give aot.compile what torch_tpu.compile_step returned"
                )
            )
        return _C.aot_fill(self._handle, self.program)

    def save(self, path):
        pathlib.Path(path).write_bytes(self.serialize())

    def __str__(self):
        from .report import table

        return table(self)


def _out_of_memory(error, where, traced):
    """libtpu's refusal with what a user can do about it."""
    found = re.search(r"\(([\d.]+)([KMGT])\) exceeds available HBM \(([\d.]+)([KMGT])\)", str(error))
    if not found:
        return None
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    needed = int(float(found.group(1)) * units[found.group(2)])
    held = sum(t.numel() * t.element_size() for _, t in traced.written + traced.read)
    fits = [name for name, chip in CHIPS.items() if chip.usable > needed]
    return OutOfMemory(
        f"the program does not fit {where.name}: it needs {needed / GIB:.2f} GiB of a device's HBM, {held / GIB:.2f} of them for its arguments, and "
        f"{where.memory / GIB:.2f} are there: {(needed - where.memory) / GIB:.2f} too many. "
        + (f"A device of {', '.join(fits)} has room for it" if fits else "No device has room for it")
        + "; smaller batches, checkpointing or parameters sharded over devices take less.",
        needed,
        where.memory,
    )


def compile(fn, args=(), *, topology, mesh=None, options=None):
    """Compiles one call fn(*args), of a module or a function of tensors, a whole training step included, for a
    topology.

    The program is for one device, or, in a world of several ranks (aot.mesh makes one), for each of them: what this
    rank does to its parts of DTensors, with collectives between all. mesh: the DeviceMesh, where its groups are not
    those of plain axes.

    fn: what modules and optimizers it uses is found by what it does; tensors that it writes (parameters, optimizer
    state, buffers) are given their new values in place. Of what torch_tpu.compile_step returned the program is the one
    that its call asks for, which Compiled.fill() keeps for processes on such machines. They, and args, may be of any device, or made under fake(),
    which takes no memory; only their sizes and dtypes count. topology: a name or a Topology. options: {"xla_...":
    value} for XLA. Returns Compiled. Raises ValueError (unknown topology, unknown option), OutOfMemory,
    NotImplementedError (what it does is not one program: it reads values, or its sizes depend on data)."""
    where = topology if isinstance(topology, Topology) else _topology(topology)
    devices = _sharded.world_size()
    if devices > len(where.devices):
        raise ValueError(f"the world has {devices} ranks, and {where.name} only {len(where.devices)} devices")
    asked = isinstance(fn, Step) and devices == 1
    with made_for(where.kind):
        if asked:
            traced = bundle.traced(fn, args)
        else:
            traced = trace.lower(trace.record(fn, tuple(args), [mesh] if mesh is not None else []))
    text = ",".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in (options or {}).items())
    try:
        handle = _C.aot_compile(libtpu(), where.name, traced.text, devices, text or None)
    except MemoryError as e:
        raise _out_of_memory(e, where, traced) or e from None
    return Compiled(handle, traced, where, devices, asked)
