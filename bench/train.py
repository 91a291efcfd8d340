"""Milliseconds for a full training step: forward, loss, backward, AdamW, and the loss read on the host.

In GPT small dispatch dominates, in GPT base matrix products do; ViT, a ResNet block and MiniLM's encoder beside them.
Contestants: the eager modes, torch.compile(backend="tpu"), torch_tpu.compile_step ("one program"), plain torch on the
CPU and under Inductor (which compiles C++ for a minute or so of each model), and jax.jit of the same model, optimizer,
weights and data, on the same plugin where JAX can load it. Each one's first losses must be torch CPU's.

  python bench/train.py [--models "GPT small,ViT"] [--only strict,jax.jit] [--rounds 11] [--json FILE]"""

import argparse
import time
import warnings

import common
import models
import torch
import torch_tpu

CHECKED = 5  # steps whose losses are compared
TURN = 0.1  # seconds of one turn, about


def eager(name, mode):
    step = models.torch_step(*models.make(name, "tpu"))

    def run():
        with torch_tpu.set_eager_mode(mode):
            return step().item()

    return run


def on_torch(name, device, compiler=None):
    step = models.torch_step(*models.make(name, device), compiler=compiler)
    return lambda: step().item()


def on_jax(name, jax):
    step = models.jax_step(jax, name, *models.make(name))
    return lambda: float(step())


def contestants(jax):
    """{name: a function of a model's name that makes its step}, for what is there."""
    found = {"torch cpu": lambda name: on_torch(name, "cpu")}
    for mode in ("strict", "fuse"):
        found[mode] = lambda name, mode=mode: eager(name, mode)
    found["compiled"] = lambda name: on_torch(name, "tpu", "tpu")
    found["one program"] = lambda name: on_torch(name, "tpu", "whole")
    found["inductor"] = lambda name: on_torch(name, "cpu", "inductor")
    if jax:
        found["jax.jit"] = lambda name: on_jax(name, jax)
    return found


def checked_steps(name, makers):
    """{contestant: step} of those whose first losses are torch CPU's; says of the others why not."""
    steps, want = {}, None
    for who, make in makers.items():
        torch._dynamo.reset()
        try:
            step = make(name)
            losses = torch.tensor([step() for _ in range(CHECKED)])
        except Exception as error:
            print(f"{name}: {who} does not run: {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
            continue
        want = losses if want is None else want
        if torch.allclose(losses, want, rtol=1e-3, atol=1e-4):
            steps[who] = step
        else:
            print(f"{name}: {who} DIFFERS: losses {losses.tolist()}, torch CPU's {want.tolist()}", flush=True)
    return steps


def aten_calls(step):
    """(operators called on the device in a step, how many of them make views)."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        calls = views = 0

        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            self.calls += 1
            self.views += op.is_view
            return op(*args, **(kwargs or {}))

    with Count() as seen:
        step()
    return seen.calls, seen.views


def counts_of(who, name, step):
    """A row of the table of counts: what one step does, once warm. The peak is above what is alive between steps."""
    torch.tpu.synchronize()
    torch.tpu.reset_peak_memory_stats()
    before = torch_tpu.counters()["live_bytes"]
    c = common.counted(step)
    peak = (torch_tpu.counters()["peak_bytes"] - before) / 2**20
    calls, views = aten_calls(step) if who == "strict" else ("", "")
    sent = [c["scalar_uploads"], c["bytes_to_device"], c["bytes_from_device"]]
    return [f"{name}, {who}", calls, views, c["executions"], common.built(c), *sent, common.number(peak)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join(models.MODELS))
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(common.CORES)
    jax, where = common.jax_on_our_plugin()
    makers = contestants(jax)
    wanted = args.only.split(",") if args.only else list(makers)
    makers = {who: m for who, m in makers.items() if who in wanted or who == "torch cpu"}
    order = ["strict", "fuse", "compiled", "one program", "jax.jit", "torch cpu", "inductor"]
    rows, counts = [], []
    for name in args.models.split(","):
        steps = checked_steps(name, makers)
        turns = {}
        common.warm(*steps.values())
        for who, step in steps.items():
            start = time.perf_counter()
            step()
            calls = max(2, int(TURN / (time.perf_counter() - start)))
            turns[who] = (step, calls, torch.tpu.synchronize)  # the loss may be there before the update is
        t = {}
        late = common.built(common.counted(lambda: t.update(common.take_turns(turns, args.rounds))))
        if late:
            print(f"{name}: {late} programs were built after warm-up", flush=True)
        t = {who: us / 1e3 for who, us in t.items()}
        rows.append(
            [
                name,
                *(common.number(t.get(who)) for who in order),
                common.ratio(t.get("fuse"), t.get("strict")),
                common.ratio(t.get("fuse"), t.get("jax.jit")),
                common.ratio(t.get("compiled"), t.get("jax.jit")),
                common.ratio(t.get("one program"), t.get("jax.jit")),
            ]
        )
        counts += [
            counts_of(who, name, steps[who]) for who in ("strict", "fuse", "compiled", "one program") if who in steps
        ]
    print(f"\n{common.CORES} cores and threads each, plugin {torch.tpu.get_device_properties().plugin}, JAX on {where}")
    figures = {
        "ms a training step": common.table(["", *order, "fuse/strict", "fuse/jax", "compiled/jax", "one/jax"], rows)
    }
    if counts:
        head = [
            "",
            "aten calls",
            "views",
            "executions",
            "built",
            "scalars sent",
            "bytes sent",
            "bytes read",
            "MB at peak",
        ]
        figures["a step"] = common.table(head, counts)
    common.report(args, "train", **figures)


if __name__ == "__main__":
    main()
