"""Microseconds for one eager operator on [8, 8], and for chains of them: the eager modes against torch on the CPU,
JAX, and the bare PJRT call.

"jax.jit" is a call of a function that jax.jit has compiled, the best a JAX user can do for a single operator; "jax
eager" is the operator itself. The mixed chain is relu, views, a matrix product and a sum; 1,000 is an elementwise
chain, in microseconds for all of it.

  python bench/eager.py [--rounds 30] [--calls 300] [--json FILE]"""

import argparse
import functools
import statistics

import common
import torch

CHAIN = 1000


def torch_cases(device):
    """{name: (a function of no arguments that makes one call, calls in a turn as a part of --calls)}."""
    x, y = torch.rand(8, 8, device=device), torch.rand(8, 8, device=device)
    a, b, z = torch.rand(64, 64, device=device), torch.rand(64, 64, device=device), torch.zeros(8, 8, device=device)

    def written():
        t = x[2:6].t() * 2
        t[0] = 1
        return (t + y[:, :4]).sum(0)

    def mixed():
        t = torch.relu(x - 0.5)
        return (t.t()[2:6] @ y.view(8, 8)).sum()

    def elementwise():
        t = x
        for _ in range(CHAIN // 4):
            t = torch.sin(t * y) + x - 1
        return t

    return {
        "add": (lambda: x + y, 1),
        "mul": (lambda: x * y, 1),
        "add_": (lambda: z.add_(y), 1),
        "mm 64": (lambda: a @ b, 1),
        "x[i] * 2": (lambda: x[3] * 2, 1),
        "written": (written, 4),
        "mixed": (mixed, 4),
        "1,000": (elementwise, CHAIN),
    }


def jax_cases(jax):
    """({name: function}, {name: function}): compiled operator by operator, and eager."""
    np = jax.numpy
    x, y, a, b = np.ones((8, 8)), np.ones((8, 8)), np.ones((64, 64)), np.ones((64, 64))
    add, mul, mm = jax.jit(np.add), jax.jit(np.multiply), jax.jit(np.matmul)
    row, sin, less = jax.jit(lambda x: x[3] * 2), jax.jit(np.sin), jax.jit(lambda x: x - 1)
    slice_, write = jax.jit(lambda x: x[2:6].T * 2), jax.jit(lambda t: t.at[0].set(1))
    sum_ = jax.jit(lambda t, y: (t + y[:, :4]).sum(0))
    relu, product, total = jax.jit(lambda x: jax.nn.relu(x - 0.5)), jax.jit(lambda t, y: t.T[2:6] @ y), jax.jit(np.sum)

    def jitted_chain():
        t = x
        for _ in range(CHAIN // 4):
            t = less(add(sin(mul(t, y)), x))
        return t

    def chain():
        t = x
        for _ in range(CHAIN // 4):
            t = np.sin(t * y) + x - 1
        return t

    def written():
        return ((x[2:6].T * 2).at[0].set(1) + y[:, :4]).sum(0)

    return (
        {
            "add": lambda: add(x, y),
            "mul": lambda: mul(x, y),
            "add_": lambda: add(x, y),
            "mm 64": lambda: mm(a, b),
            "x[i] * 2": lambda: row(x),
            "written": lambda: sum_(write(slice_(x)), y),
            "mixed": lambda: total(product(relu(x), y)),
            "1,000": jitted_chain,
        },
        {
            "add": lambda: x + y,
            "mul": lambda: x * y,
            "add_": lambda: x + y,
            "mm 64": lambda: a @ b,
            "x[i] * 2": lambda: x[3] * 2,
            "written": written,
            "mixed": lambda: (jax.nn.relu(x - 0.5).T[2:6] @ y.reshape(8, 8)).sum(),
            "1,000": chain,
        },
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(common.CORES)
    jax, where = common.jax_on_our_plugin()
    import torch_tpu
    from torch_tpu import _C

    modes = ["strict", "fuse", "debug"]
    sides = {m: (torch_cases("tpu"), torch.tpu.synchronize) for m in modes}
    sides["torch cpu"] = (torch_cases("cpu"), lambda: None)
    if jax:
        for who, cases in zip(("jax.jit", "jax eager"), jax_cases(jax)):
            sides[who] = ({name: (f, 1) for name, f in cases.items()}, jax.effects_barrier)

    # A mode is entered for a turn, not for a call. Results live until all are there: what nobody holds may be left out.
    def turn(who, name, calls):
        cases, finish = sides[who]
        f = cases[name][0]

        def run():
            kept = [f() for _ in range(calls)]
            finish()
            return len(kept)

        def run_in_mode():
            with torch_tpu.set_eager_mode(who):
                return run()

        return run_in_mode if who in modes else run

    order = [*modes, "torch cpu", "jax.jit", "jax eager"]
    t, executions, bare = {}, {}, []
    for name, (_, cost) in torch_cases("cpu").items():
        calls = max(1, args.calls // cost)
        contestants = {who: (turn(who, name, calls), 1, lambda: None) for who in sides}
        common.warm(*(f for f, _, _ in contestants.values()))
        for mode in modes:
            executions[mode, name] = common.counted(turn(mode, name, calls))["executions"] / calls
        if name == "add":
            floor = functools.partial(_C.bench_execute, calls)  # compiles, and times itself
            contestants["bare"] = (lambda: bare.append(floor() / 1e3), 1, lambda: None)
        before = torch_tpu.counters()["compiles"]
        medians = common.take_turns(contestants, args.rounds)
        if torch_tpu.counters()["compiles"] != before:
            print(f"{name}: compiled after warm-up", flush=True)
        t.update({(name, who): us / calls for who, us in medians.items()})
    rows = []
    for name in torch_cases("cpu"):
        of = {who: t.get((name, who)) for who in order}
        rows.append(
            [
                name,
                *(common.number(of[who]) for who in order),
                common.ratio(of["strict"], of["jax.jit"]),
                common.ratio(of["strict"], of["jax eager"]),
                common.ratio(of["fuse"], of["strict"]),
                common.ratio(of["debug"], of["strict"]),
                *(f"{executions[mode, name]:.4g}" for mode in modes),
            ]
        )
    print(
        f"\n{common.CORES} cores and threads each, medians of {args.rounds} rounds, plugin {_C.plugin_path()}, "
        f"JAX on {where}; the bare PJRT call of the add program: {statistics.median(bare):.2f} us"
    )
    head = [
        "",
        *order,
        "strict/jax.jit",
        "strict/jax eager",
        "fuse/strict",
        "debug/strict",
        *(f"executions {m}" for m in modes),
    ]
    common.report(args, "eager", **{"us a call": common.table(head, rows)})


if __name__ == "__main__":
    main()
