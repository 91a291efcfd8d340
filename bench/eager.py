"""Microseconds for one eager operator on [8, 8]: tpu against plain torch on the CPU, JAX, and the bare PJRT call.

All contestants take turns within every round, in one process, so that what else the machine does hits them alike; the table
holds medians over the rounds, and ratios. Run it on a quiet machine.

  python bench/eager.py [--rounds 30] [--calls 300]"""
import argparse
import os
import statistics
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # jax would try libtpu where it is installed

import torch  # noqa: E402

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None


def torch_cases(device):
    """Name -> a function of no arguments that makes one call (the chain: four operators)."""
    x, y = torch.rand(8, 8, device=device), torch.rand(8, 8, device=device)
    a, b, z = torch.rand(64, 64, device=device), torch.rand(64, 64, device=device), torch.zeros(8, 8, device=device)

    def chain():
        t = x[2:6].t() * 2
        t[0] = 1
        return (t + y[:, :4]).sum(0)

    return {"add": lambda: x + y, "mul": lambda: x * y, "add_": lambda: z.add_(y), "mm 64": lambda: a @ b, "chain": chain}


def jax_cases():
    if jax is None:
        return {}
    x, y = jnp.ones((8, 8)), jnp.ones((8, 8))
    a, b = jnp.ones((64, 64)), jnp.ones((64, 64))
    add, mul, mm = jax.jit(jnp.add), jax.jit(jnp.multiply), jax.jit(jnp.matmul)
    slice_, write, sum_ = jax.jit(lambda x: x[2:6].T * 2), jax.jit(lambda t: t.at[0].set(1)), jax.jit(lambda t, y: (t + y[:, :4]).sum(0))
    return {"add": lambda: add(x, y), "mul": lambda: mul(x, y), "add_": lambda: add(x, y), "mm 64": lambda: mm(a, b),
            "chain": lambda: sum_(write(slice_(x)), y)}


def measure(f, calls, finish):
    start = time.perf_counter_ns()
    for _ in range(calls):
        f()
    submitted = time.perf_counter_ns() - start
    finish()
    return submitted / calls / 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=300)
    args = parser.parse_args()
    import torch_tpu
    from torch_tpu import _C

    torch.set_num_threads(1)
    contestants = {"tpu": (torch_cases("tpu"), torch.tpu.synchronize), "torch cpu": (torch_cases("cpu"), lambda: None)}
    if jax is not None:
        contestants["jax.jit"] = (jax_cases(), lambda: jax.effects_barrier())
    bare = getattr(_C, "bench_execute", None)
    times = {}
    for f, finish in [(f, finish) for cases, finish in contestants.values() for f in cases.values()]:
        measure(f, 50, finish)  # compiles, warms
    if bare:
        bare(100)
    compiles = torch_tpu.counters()["compiles"]
    for _ in range(args.rounds):
        for name in ("add", "mul", "add_", "mm 64", "chain"):
            for who, (cases, finish) in contestants.items():
                times.setdefault((name, who), []).append(measure(cases[name], args.calls, finish))
        if bare:
            times.setdefault(("add", "bare"), []).append(bare(args.calls) / 1e3)
    assert torch_tpu.counters()["compiles"] == compiles, "the loop compiled"
    median = {k: statistics.median(v) for k, v in times.items()}
    floor = median.get(("add", "bare"))
    print(f"us a call, median of {args.rounds} rounds of {args.calls} calls; {os.cpu_count()} cores, plugin {_C.plugin_path().rsplit('/', 1)[-1]}")
    print(f"{'':8}{'tpu':>9}{'torch cpu':>11}{'jax.jit':>9}{'tpu/cpu':>9}{'tpu/jax':>9}{'tpu/bare':>10}")
    for name in ("add", "mul", "add_", "mm 64", "chain"):
        t, c, j = (median.get((name, who)) for who in ("tpu", "torch cpu", "jax.jit"))
        cells = [f"{t:9.2f}", f"{c:11.2f}", f"{j:9.2f}" if j else f"{'-':>9}", f"{t / c:9.2f}", f"{t / j:9.2f}" if j else f"{'-':>9}",
                 f"{t / floor:10.2f}" if floor and name in ("add", "mul", "add_") else f"{'':>10}"]
        print(f"{name:8}" + "".join(cells))
    if floor:
        print(f"bare PJRT call of the add program: {floor:.2f} us")
    else:
        print("bare PJRT call: the extension was built without bench_execute")
    print("chain: x[2:6].t() * 2, a row written, an add with y[:, :4], a sum: 4 device operators here, 3 programs for JAX")


if __name__ == "__main__":
    main()
