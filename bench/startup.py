"""Seconds from nothing to the first training step: a new process each time, with a cache of its own that is empty
(cold) or left by the process before (warm).

First import torch, with torch_tpu loaded and without; then the first step of GPT small and base, in the eager modes and
compiled, with the programs that were compiled for it (warm: none). A first step is counted from the call, when torch is
imported and model and data are on the device, to its loss on the host: what a cache can shorten.

  python bench/startup.py [--rounds 2] [--json FILE]"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import common

STEP = """
import json, sys, time
start = time.perf_counter()
import models, torch, torch_tpu
name, mode = sys.argv[1:]
device = "cpu" if mode == "torch cpu" else "tpu"
if mode == "fuse":
    torch_tpu.set_eager_mode("fuse")
step = models.torch_step(*models.make(name, device), compiler="tpu" if mode == "compiled" else None)
ready = time.perf_counter()
loss = step().item()
first = time.perf_counter()
step().item()
print(json.dumps({"first": first - ready, "second": time.perf_counter() - first, "all": time.perf_counter() - start,
                  "compiles": torch_tpu.counters()["compiles"], "loss": loss}))
"""

BUILD = """
import time, torch
from torch_tpu import _C
from torch_tpu.compile.program import Program
with torch._subclasses.FakeTensorMode():
    value = torch.empty(8, 8, device="tpu")
aten, graph = torch.ops.aten, torch.fx.Graph()
x = h = graph.placeholder("x")
kinds = (aten.add.Tensor, x), (aten.mm.default, x), (aten.tanh.default,), (aten.permute.default, [1, 0]), (aten._softmax.default, 1, False)
for i in range(10000):
    op, *others = kinds[i % 5]
    h = graph.call_function(op, (h, *others))
for node in graph.nodes:
    node.meta["val"] = value
graph.output([h])
program, given = Program(torch.fx.GraphModule(torch.nn.Module(), graph)), torch.ones(8, 8, device="tpu")
_C.show_programs(True)
start = time.perf_counter()
try:
    program([given])
except RuntimeError:
    print(time.perf_counter() - start)  # as asked, it is not compiled
"""


def python(code, *args, **env):
    """(seconds of a process, what it printed last)."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *args],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        cwd=os.path.dirname(os.path.abspath(__file__)),
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return time.perf_counter() - start, (done.stdout.splitlines() or [""])[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json")
    args = parser.parse_args()
    imports = {
        "python": ("pass", "0"),
        "import torch": ("import torch", "0"),
        "and torch_tpu": ("import torch", "1"),
        "and a first operator": ("import torch; torch.ones(2, device='tpu').add(1).tolist()", "1"),
    }
    seconds = {name: [] for name in imports}
    python("import torch")
    for _ in range(args.rounds):
        for name, (code, load) in imports.items():
            seconds[name].append(python(code, TORCH_DEVICE_BACKEND_AUTOLOAD=load)[0])
    rows = [[name, common.number(statistics.median(s))] for name, s in seconds.items()]

    rows.append(["a captured graph of 10,000 operators to StableHLO", common.number(float(python(BUILD)[1]))])

    modes = ["strict", "fuse", "compiled", "torch cpu"]
    steps = []
    for model in ("GPT small", "GPT base"):
        for mode in modes:
            seen = {"cold": [], "warm": []}
            for _ in range(args.rounds):
                with tempfile.TemporaryDirectory() as cache:
                    own = {"TORCH_TPU_CACHE_DIR": cache, "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "torch")}
                    for when in ("cold", "warm"):
                        seen[when].append(json.loads(python(STEP, model, mode, **own)[1]))
            cold, warm = ({k: statistics.median(x[k] for x in seen[w]) for k in seen[w][0]} for w in ("cold", "warm"))
            assert abs(cold["loss"] - warm["loss"]) < 1e-4, (cold, warm)
            steps.append(
                [
                    f"{model}, {mode}",
                    common.number(cold["first"]),
                    int(cold["compiles"]),
                    common.number(warm["first"]),
                    int(warm["compiles"]),
                    common.ratio(warm["first"], cold["first"]),
                    common.number(warm["second"], 3),
                ]
            )
    head = ["", "first step, cold", "compiles", "first step, warm", "compiles", "warm/cold", "second step, warm"]
    common.report(
        args,
        "startup",
        seconds_of_a_process=common.table(["", "seconds"], rows),
        seconds_to_a_loss=common.table(head, steps),
    )


if __name__ == "__main__":
    main()
