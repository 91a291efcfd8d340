"""torch_tpu.explain(fn, *args): what torch.compile makes of a call."""

import collections
import dataclasses
import operator

import torch

from .. import _C
from .._internal.execution_mode import unfused


@dataclasses.dataclass
class Graph:
    """One captured graph."""

    operators: collections.Counter  # name -> how often
    programs: list  # StableHLO text of what ran, in order
    host: list  # names of operators that run on the host side, between programs
    refused: str | None  # why it runs operator by operator, if it does
    exact: str | None  # why each combination of its sizes, which vary, is a program of its own, if it is
    flops: int  # of products and convolutions, as torch.utils.flop_counter counts
    bytes: int  # of its inputs and results

    def __str__(self):
        lines = [
            f"{sum(self.operators.values())} operators, {len(self.programs)} programs, {self.flops:,} flops, {self.bytes:,} bytes in and out"
        ]
        lines += ["  " + ", ".join(f"{name} x{n}" if n > 1 else name for name, n in self.operators.most_common())]
        if self.host:
            lines.append("  on the host: " + ", ".join(self.host))
        if self.refused:
            lines.append("  operator by operator, since: " + self.refused)
        if self.exact:
            lines.append("  a program for each combination of sizes, since: " + self.exact)
        return "\n".join(lines)


@dataclasses.dataclass
class Explanation:
    """What a call was compiled to. str() is a report; graphs[i].programs are the programs' texts."""

    graphs: list
    breaks: list  # (reason, file:line) of each graph break
    recompiles: list  # reasons
    fallbacks: dict  # operator -> calls that ran on the CPU

    def __str__(self):
        lines = [f"{len(self.graphs)} graphs, {len(self.breaks)} graph breaks, {len(self.recompiles)} recompilations"]
        lines += [f"graph {i}: {g}" for i, g in enumerate(self.graphs)]
        lines += [f"graph break at {place}: {reason}" for reason, place in self.breaks]
        lines += [f"recompiled: {reason}" for reason in self.recompiles]
        lines += [f"on the CPU: {name}, {n} calls" for name, n in self.fallbacks.items()]
        return "\n".join(lines)


def _break(module):
    """(reason, file:line) of the graph break that a Dynamo graph ends at, or None."""
    why = getattr(module, "compile_subgraph_reason", None)
    if why is None or not why.graph_break:
        return None
    place = f"{why.user_stack[-1].filename}:{why.user_stack[-1].lineno}" if why.user_stack else "?"
    return why.reason.strip().split("\n")[0], place


def _flops(module):
    from torch.utils.flop_counter import flop_registry

    total = 0
    for node in module.graph.nodes:
        count = flop_registry.get(getattr(node.target, "overloadpacket", None))
        if count is not None:
            fake = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            total += int(count(*fake[0], **fake[1], out_val=node.meta["val"]))
    return total


def _bytes(module):
    nodes = [n for n in module.graph.nodes if n.op == "placeholder"]
    nodes += [n for n in module.graph.find_nodes(op="output")[0].args[0] if isinstance(n, torch.fx.Node)]
    values = [n.meta.get("val") for n in dict.fromkeys(nodes)]
    return sum(int(v.numel()) * v.element_size() for v in values if isinstance(v, torch.Tensor))


def _graph(module):
    from .parts import levels

    nodes = [n for n in module.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
    level = levels(module.graph) or {}
    return Graph(
        collections.Counter(str(n.target).removeprefix("aten.") for n in nodes),
        [],
        [str(n.target).removeprefix("aten.") for n in nodes if level.get(n, 1) % 2 == 0],
        None,
        None,
        _flops(module),
        _bytes(module),
    )


def explain(fn, *args, **kwargs) -> Explanation:
    """Compiles fn for these arguments, from the start, and calls it once. The texts of programs are those of the call:
    a training step has to call backward() in fn for its backward graphs' programs to be among them."""
    from torch._dynamo.utils import get_compilation_metrics

    from .. import counters
    from . import cache, tpu

    found, breaks = [], []

    class Told(cache.Compiled):
        """Notes what it compiles and what runs."""

        def _load(self, module):
            self._graph = _graph(module)
            found.append(self._graph)
            super()._load(module)

        def __call__(self, inputs):
            _C.show_programs(False)
            try:
                return super().__call__(inputs)
            finally:
                self._graph.programs += _C.shown_programs()
                self._graph.refused = getattr(self._function, "refused", None)
                self._graph.exact = getattr(self._function, "exact", None)

    def backend(module, inputs):
        from torch._functorch import config

        breaks.append(_break(module))
        with config.patch(enable_autograd_cache=False):
            return tpu(module, inputs, _made=Told)

    torch._dynamo.reset()
    before, metrics = counters()["fallbacks"], len(get_compilation_metrics())
    try:
        with unfused():
            torch.compile(fn, backend=backend)(*args, **kwargs)
    finally:
        torch._dynamo.reset()
    recompiles = [m.recompile_reason for m in get_compilation_metrics()[metrics:] if m.recompile_reason]
    after = counters()["fallbacks"]
    return Explanation(
        found,
        [b for b in breaks if b],
        recompiles,
        {k: n - before.get(k, 0) for k, n in after.items() if n != before.get(k, 0)},
    )
