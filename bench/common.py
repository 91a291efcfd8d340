"""What the scripts of this folder share: contestants that take turns, medians, tables, JAX on our own plugin.

Every side of a comparison runs in one process, on the same number of threads (one for each core), and takes its turn
within every round, so that what else the machine does hits all alike. A turn begins after a short sleep: threads that
one side left spinning have gone to rest when the next side starts."""

import json
import os
import statistics
import time

import torch

CORES = len(os.sched_getaffinity(0))


def jax_on_our_plugin():
    """(jax, what it runs on): the plugin that torch_tpu loads, JAX's own CPU where JAX cannot load that; (None, why)
    where there is no JAX. Call it before anything else imports jax."""
    import torch_tpu.plugin

    path = torch_tpu.plugin.find()
    os.environ["JAX_PLATFORMS"] = "bench,cpu"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import jax
    except ImportError as error:
        return None, str(error)
    try:
        from jax._src import xla_bridge

        xla_bridge.register_plugin("bench", library_path=path, priority=500, options={"cpu_device_count": 1})
        jax.device_put(1.0).block_until_ready()
        return jax, "the same plugin"
    except Exception as error:  # whatever a plugin of another version says
        jax.config.update("jax_platforms", "cpu")
        return jax, f"JAX's own CPU client ({str(error).splitlines()[0][:80]})"


def take_turns(contestants, rounds):
    """{name: microseconds a call, the median over the rounds} of {name: (function, calls in a turn, finish)}.

    finish() waits for what was submitted, and belongs to the time: a side that only queues work gains nothing."""
    times = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, (f, n, finish) in contestants.items():
            time.sleep(0.002)
            start = time.perf_counter_ns()
            for _ in range(n):
                f()
            finish()
            times[name].append((time.perf_counter_ns() - start) / n / 1e3)
    return {name: statistics.median(t) for name, t in times.items()}


def table(head, rows):
    """A Markdown table, aligned; figures are given as text."""
    lines = [head, *rows]
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(head))]
    text = [
        "| "
        + " | ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in enumerate(zip(line, widths)))
        + " |"
        for line in lines
    ]
    text.insert(1, "| " + " | ".join("-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)) + " |")
    return "\n".join(text)


def number(x, digits=2):
    """A figure for a table; "-" for None."""
    return "-" if x is None else f"{x:,.{digits}f}"


def ratio(a, b):
    return "-" if not a or not b else f"{a / b:.2f}"


def counted(f):
    """What the counters did during f(): {name: difference}."""
    import torch_tpu

    torch.tpu.synchronize()
    before = torch_tpu.counters()
    f()
    torch.tpu.synchronize()
    after = torch_tpu.counters()
    return {name: after[name] - before[name] for name in after if isinstance(after[name], int)}


def built(counts):
    """Programs that were not there yet, wherever they came from."""
    return counts["compiles"] + counts["cache_hits_disk"] + counts["cache_hits_memory"]


def warm(*functions, runs=4, most=120.0):
    """Runs all of them in turn, until nothing was built in the last `runs` rounds; waits for what compiles in the
    background, so a round that builds nothing has all its programs."""
    import torch_tpu
    from torch_tpu import _C

    begin, seen, quiet = time.perf_counter(), None, 0
    while quiet < runs:
        if time.perf_counter() - begin > most:
            raise RuntimeError(f"still compiling after {most} seconds")
        for f in functions:
            f()
        torch.tpu.synchronize()
        _C.fuse_wait(False)
        counts = built(torch_tpu.counters())
        quiet = quiet + 1 if counts == seen else 0
        seen = counts


def report(args, name, **figures):
    """Prints the tables of a script and, with --json FILE, leaves them there for bench/run.py."""
    for title, text in figures.items():
        print(f"\n{title.replace('_', ' ')}\n\n{text}", flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"name": name, "tables": figures}, f)
