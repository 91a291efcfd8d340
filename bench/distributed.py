"""Milliseconds of an all-reduce over processes of this machine: tensors on tpu against Gloo on the CPU's, in turns.

  python bench/distributed.py [--ranks 2] [--rounds 20] [--mb 1 64]"""

import argparse
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "dist"))


def turn(tensor, group):
    import torch.distributed as dist
    dist.barrier(group=group)
    start = time.perf_counter()
    dist.all_reduce(tensor, group=group)
    return (time.perf_counter() - start) * 1e3


def measure(rank, rounds, mb):
    import torch
    import torch.distributed as dist
    gloo = dist.new_group(backend="gloo")
    n = mb * (1 << 18)
    here, there = torch.ones(n), torch.ones(n, device="tpu")
    times = {"gloo": [], "tpu": []}
    for _ in range(rounds + 2):
        times["gloo"].append(turn(here, gloo))
        times["tpu"].append(turn(there, None))
        here.fill_(1)
        there.fill_(1)
        torch.tpu.synchronize()
    return {name: statistics.median(t[2:]) for name, t in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--mb", type=int, nargs="+", default=[1, 64])
    args = parser.parse_args()
    # ranks import what they are sent
    os.environ["PYTHONPATH"] = os.pathsep.join([sys.path[0], os.environ.get("PYTHONPATH", "")])
    from world import World

    import distributed  # this file, by the name that ranks import it by
    world = World(args.ranks)
    for mb in args.mb:
        got = world.run(distributed.measure, args.rounds, mb)
        gloo, tpu = (max(r[name] for r in got) for name in ("gloo", "tpu"))
        print(f"all-reduce of {mb} MB over {args.ranks} ranks: tpu {tpu:.2f} ms, Gloo {gloo:.2f} ms: {tpu / gloo:.2f}x")
    world.close()


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    main()
