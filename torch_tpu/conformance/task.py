"""Runs one task: each case on the CPU, then on tpu, and what came of it."""
import collections
import contextlib
import random
import time

import torch
from torch.utils import _pytree as pytree

from . import captured, compare
from .place import Place

# From best to worst; a task's status is its worst case's. skip: nothing to compare, or the CPU itself refuses.
STATUSES = ["skip", "pass", "unsupported", "fail", "wrong", "timeout", "crash"]
Task = collections.namedtuple("Task", "database entry variant dtype")


class Case:
    """One comparison. run(place) computes on place.device, from copies that place makes, and returns a tree of
    results."""

    def __init__(self, run, describe="", rules=None):
        self.run, self.describe, self.rules = run, describe, rules or compare.Rules()


class Nothing(Exception):
    """A case has nothing to compare: no output that can be differentiated, say."""


def seed(n):
    torch.manual_seed(n)
    random.seed(n)
    with contextlib.suppress(ImportError):
        import numpy
        numpy.random.seed(n)


def on_cpu(case, n):
    """(place, results, whether they depend on nothing but the inputs)."""
    seed(n)
    state = torch.get_rng_state()
    place = Place("cpu")
    want = case.run(place)
    if torch.equal(state, torch.get_rng_state()):
        return place, want, True
    # it drew random numbers: do they matter?
    return place, want, all(_same_results(want, case, n + k) for k in range(1, 20))


def _same_results(want, case, n):
    seed(n)
    other = pytree.tree_leaves(case.run(Place("cpu")))
    return all(
        compare.same_values(a, b) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(pytree.tree_leaves(want), other)
    )


def written(place):
    """What a case changed of its inputs in place: [(position, tensor)]."""
    return [(i, copy) for i, (original, copy) in enumerate(place.pairs()) if copy._version and not copy.requires_grad]


def untraceable(case, n):
    """Why Dynamo does not trace a case on the CPU; None where it does."""
    try:
        seed(n)
        case.run(Place("cpu", backend="eager"))
    except Exception as e:
        return compare.one_line(f"Dynamo does not trace it: {type(e).__name__}: {e}", 200)
    return None


def run_case(case, n=0, compiled=False):
    """(status, message, in how many results the strides differ)."""
    try:
        cpu, want, fixed = on_cpu(case, n)
    except Exception as e:
        return "skip", compare.one_line(f"CPU refuses: {type(e).__name__}: {e}", 200), 0
    rules = compare.Rules(case.rules.values and fixed, case.rules.chosen, case.rules.spare)

    def wide():
        seed(n)
        return case.run(Place("cpu", wide=True))

    tpu = Place("tpu", backend=captured.backend if compiled else None)
    try:
        seed(n)
        got = case.run(tpu)
        strides = compare.results(got, want, tpu, cpu, rules, wide)
        for i, copy in written(cpu):
            if i >= len(tpu.pairs()):
                continue
            left = tpu.pairs()[i][1]
            if left.shape != copy.shape:
                raise compare.Mismatch(f"input {i} afterwards: shape {list(left.shape)}, expected {list(copy.shape)}")
            if rules.values:
                difference = compare.values(left, copy, rules, lambda: None)
                if difference:
                    raise compare.Mismatch(f"input {i} afterwards: {difference}")
        return "pass", "", strides
    except compare.Mismatch as e:
        return "wrong", compare.one_line(e), 0
    except Exception as e:
        untraced = untraceable(case, n) if compiled else None
        if untraced:
            return "skip", untraced, 0
        return (
            "unsupported" if isinstance(e, NotImplementedError) else "fail",
            compare.one_line(f"{type(e).__name__}: {e}"),
            0,
        )


def fallbacks():
    import torch_tpu
    return collections.Counter(torch_tpu.counters()["fallbacks"])


def run(cases, at=lambda i: None, n=0, compiled=False):
    """Runs a task's cases with seed n, under torch.compile if compiled; at(i) is called before each. The result as JSON
    has it."""
    seed(n)
    start, before = time.time(), fallbacks()
    result = {"status": "skip", "cases": 0, "passed": 0}
    skipped = ""
    try:
        cases = list(cases)
    except Exception as e:
        cases, skipped = [], compare.one_line(f"no samples: {type(e).__name__}: {e}", 200)
    for i, case in enumerate(cases):
        at(i)
        status, message, strides = run_case(case, n, compiled)
        if status == "skip":
            skipped = skipped or message
            continue
        result["cases"] += 1
        result["passed"] += status == "pass"
        result["strides"] = result.get("strides", 0) + strides
        if STATUSES.index(status) > STATUSES.index(result["status"]):
            result["status"] = status
            if message:
                result.update(message=message, case=case.describe)
    if result["status"] == "skip":
        result["message"] = skipped or "no cases"
    on_host = fallbacks() - before
    result["native"] = not on_host
    if on_host:
        result["fallbacks"] = dict(on_host)
    refused = captured.refusals()
    if refused:
        result["refused"] = refused
    result["seconds"] = round(time.time() - start, 3)
    return result
