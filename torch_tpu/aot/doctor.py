"""What would keep a function or module from running well on a TPU, each with the user's line.

A call is traced without memory and lowered node by node; where that fails, what failed and where is the finding. What
cannot be part of a program is not the end in eager mode: it runs on the host, and the program is cut there."""
import collections
import dataclasses
import re
import traceback

import torch

from .._internal.places import is_users
from . import trace

@dataclasses.dataclass
class Finding:
    """kind: "value" (a value is read on the host), "size" (a result's size depends on values), "unsupported" (an
    operator that has no lowering, and runs on the CPU), "error" (the call itself fails). place: FILE:LINE of the user's
    code, "" if unknown."""

    kind: str
    what: str
    place: str


@dataclasses.dataclass
class Diagnosis:
    """findings; operators: {name: how often} of what was traced; program: the trace.Program, None where there is
    none."""

    findings: list
    operators: collections.Counter
    program: object

    @property
    def verdict(self):
        return "one program" if self.program is not None else "not one program"

    def __str__(self):
        lines = [f"{self.verdict}: {sum(self.operators.values())} calls of {len(self.operators)} operators"]
        return "\n".join(lines + [f"  {f.place or '(unknown line)'}: {f.kind}: {f.what}" for f in self.findings])


def _place_of(error):
    """The innermost line outside of torch in an exception's traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_users(f.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _kind(error):
    from torch._subclasses import fake_tensor

    if isinstance(error, fake_tensor.DataDependentOutputException):
        return "value", f"{error.func} reads a value on the host"
    if isinstance(error, fake_tensor.DynamicOutputShapeException):
        return "size", f"the size of {error.func}'s result depends on values"
    return "error", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _culprit(record, error):
    """The node at which lowering failed: the first whose graph, up to it, fails too."""
    nodes = [n for n in record.module.graph.nodes if n.op == "call_function"]
    low, high = 0, len(nodes) - 1
    while low < high:
        middle = (low + high) // 2
        if _lowers(record, nodes[: middle + 1]):
            low = middle + 1
        else:
            high = middle
    return nodes[high] if nodes else None


def _lowers(record, nodes):
    graph, same = torch.fx.Graph(), {}
    for n in record.module.graph.nodes:
        if n.op != "output" and (n.op != "call_function" or n in nodes):
            same[n] = graph.node_copy(n, lambda x: same[x])
    last = next((same[n] for n in reversed(nodes) if isinstance(n.meta.get("val"), torch.Tensor)), None)
    graph.output([last] if last is not None else [])
    part = trace.Record(torch.fx.GraphModule(record.module, graph), record.tensors, record.names)
    try:
        trace.lower(part)
    except NotImplementedError:
        return False
    return True


def diagnose(fn, args=()):
    """The Diagnosis of one call fn(*args)."""
    try:
        record = trace.record(fn, tuple(args))
    except Exception as e:  # whatever the user's code raises is a finding
        return Diagnosis([Finding(*_kind(e), _place_of(e))], collections.Counter(), None)
    operators = collections.Counter(str(n.target) for n in record.module.graph.nodes if n.op == "call_function")
    try:
        return Diagnosis([], operators, trace.lower(record))
    except NotImplementedError as e:
        node = _culprit(record, e)
        why = re.sub(r"\s*\(torch_tpu::graph_call\)$", "", str(e).splitlines()[0])
        return Diagnosis([Finding("unsupported", f"{node.target}: {why}", node.stack_trace or "")], operators, None)
