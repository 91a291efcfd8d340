"""Why programs were compiled: torch_tpu.explain()."""
import collections
import sys

import torch

from . import _C


def _differences(parts, before):
    """What parts of a key are new against another of the same operator."""
    pairs = [line.partition(": ")[::2] for line in parts]
    known = dict(line.partition(": ")[::2] for line in before)
    return [f"{name}: {known.get(name, 'absent')} -> {value}" for name, value in pairs if known.get(name) != value]


def reasons() -> list:
    """What was compiled in this process, in order (the last 2048): dicts of operator, key (a list of its parts), new
    (what of it was new: against the nearest key of the same operator that came before, or [] for the operator's first),
    line, milliseconds."""
    seen, told = collections.defaultdict(list), []
    for operator, parts, line, milliseconds in _C.compiles():
        key = parts.split("\n") if parts else []
        new = min((_differences(key, other) for other in reversed(seen[operator])), key=len, default=[])
        seen[operator].append(key)
        told.append({"operator": operator, "key": key, "new": new, "line": line, "milliseconds": milliseconds})
    return told


def explain(file=None) -> None:
    """Prints, for each program that this process has compiled, which operator asked for it and which part of its key
    was new; then where programs came from, and how DeferAndFuse's windows were flushed. Lines of the user's program are
    told with TORCH_TPU_TRACE_STACKS=1."""
    file = file or sys.stdout
    told = reasons()
    for i, r in enumerate(told):
        what = (
            "a window of calls"
            if r["operator"] == "window"
            else (
                "; ".join(r["new"])
                if r["new"]
                else (
                    "the first of its operator: "
                    + ", ".join(p.partition(": ")[2] for p in r["key"] if p.startswith("argument"))
                    if not any(o["operator"] == r["operator"] for o in told[:i])
                    else "the same key with other overlaps or aliasing"
                )
            )
        )
        at = r["line"].partition(" at ")[2]
        print(f"{r['operator']:<32} {r['milliseconds']:>8.1f} ms  {what}{'  at ' + at if at else ''}", file=file)
    c = _C.counters()
    print(
        f"{len(told)} programs compiled, {sum(r['milliseconds'] for r in told):.0f} ms; calls whose program was known: {c['cache_hits_plan']}; "
        f"from memory {c['cache_hits_memory']}, from disk {c['cache_hits_disk']}",
        file=file,
    )
    names, counts = torch.ops.torch_tpu.attention_choices()
    for name, n in zip(names, counts):
        if n:
            print(f"attention, {name}: {n} calls", file=file)
    f = _C.fuse_counters()
    for reason, n in f["windows"].items():
        if n:
            print(
                f"windows flushed because {_REASONS.get(reason, reason)}: {n}, of {f['records'][reason] / n:.1f} calls each",
                file=file,
            )
    if f["fused"] or f["replayed"]:
        print(f"windows run as one program: {f['fused']}, call by call: {f['replayed']}", file=file)


_REASONS = {
    "read": "a value was asked for",
    "full": "they were full",
    "handed": "another thread went on (forward, backward and the optimizer take turns)",
    "asked": "somebody asked for it (synchronize, a mode's end)",
}
