"""Ranks that are late, elsewhere, killed or cut off: what the others hear, and how soon. Repeats them all:

  python tests/dist/failures.py [--times 50]"""
import argparse
import collections
import contextlib
import datetime
import os
import subprocess
import sys
import time
import traceback

import torch
import torch.distributed as dist
from world import World

TIMEOUT, SLACK = 5, 5  # seconds: of the group, and until all have heard


def warm(rank):
    (torch.ones(3, device="tpu") + 1).cpu()


def another_collective(rank):
    t = torch.ones(4, 8, device="tpu")
    if rank == 3:
        dist.all_gather([torch.empty_like(t) for _ in range(4)], t)
    else:
        dist.all_reduce(t)


def late(rank):
    if rank == 2:
        time.sleep(TIMEOUT + SLACK + 2)
        return
    t = torch.ones(3, device="tpu") + 1
    try:
        dist.all_reduce(t)
    finally:
        assert t.cpu().shape == (3,)  # its memory has come back


def killed(rank):
    dist.all_reduce(torch.ones(3, device="tpu"))
    if rank == 1:
        os.kill(os.getpid(), 9)
    for _ in range(1000):
        dist.all_reduce(torch.ones(3, device="tpu"))


def cut_off(rank):
    dist.all_reduce(torch.ones(3, device="tpu"))
    if rank == 0:
        subprocess.run(["ip", "link", "set", "tt0", "down"], check=True)
    for _ in range(1000):
        dist.all_reduce(torch.ones(3, device="tpu"))


def waited_for_too_short(rank):
    t = torch.ones(1000, device="tpu") + rank
    if rank == 1:
        time.sleep(2)
    work, late = dist.all_reduce(t, async_op=True), False
    try:
        work.wait(datetime.timedelta(milliseconds=50))
    except Exception:
        late = True
    work.wait()
    assert t[0].item() == 10
    return late


@contextlib.contextmanager
def ranks(**options):
    """Four ranks for one failure."""
    world = World(4, timeout=TIMEOUT, **options)
    try:
        yield world
    finally:
        for process in world.processes:
            process.kill()
            process.join()


def heard(world, function, survivors):
    """The error of each of the survivors, all within the timeout and the slack."""
    world.run(warm)
    start = time.time()
    world.send(function)
    answers = world.answers(survivors)
    seconds = time.time() - start
    assert seconds < TIMEOUT + SLACK, f"{seconds:.1f} s"
    assert not any(worked for worked, _ in answers)
    return [text for _, text in answers]


def in_another_collective():
    with ranks() as world:
        texts = heard(world, another_collective, [0, 1, 2, 3])
    for text in texts:
        assert (
            "rank 3 is at #1 all_gather [4, 8] Float" in text
            and "at #1 all_reduce [4, 8] Float" in text
            and "failures.py" in text
        ), text


def is_late():
    with ranks() as world:
        texts = heard(world, late, [0, 1, 3])
    for text in texts:
        assert "ranks 0, 1, 3 are at #1 all_reduce [3] Float" in text and "rank 2 has begun no collective" in text, text


def is_killed():
    with ranks() as world:
        texts = heard(world, killed, [0, 2, 3])
    for text in texts:
        assert "all_reduce" in text.lower() and "rank 1 gives no answer" in text, text


@contextlib.contextmanager
def two_hosts():
    """Two network namespaces with interfaces tt0 and tt1 at the ends of a link, as two hosts: their names. Wants
    root."""
    names = [f"tt{i}-{os.getpid()}" for i in (0, 1)]
    commands = [f"netns add {name}" for name in names] + [
        f"link add tt0 netns {names[0]} type veth peer name tt1 netns {names[1]}"
    ]
    for i, name in enumerate(names):
        commands += [
            f"-n {name} addr add 10.77.0.{i + 1}/24 dev tt{i}",
            f"-n {name} link set tt{i} up",
            f"-n {name} link set lo up",
        ]
    try:
        for command in commands:
            subprocess.run(["ip", *command.split()], check=True, capture_output=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def loses_its_link():
    """Ranks 0 and 1 on one host, 2 and 3 on another, and the link goes down."""
    with (
        two_hosts() as names,
        ranks(namespaces=[(names[i // 2], f"tt{i // 2}") for i in range(4)], address="10.77.0.1") as world,
    ):
        texts = heard(world, cut_off, [0, 1, 2, 3])
    for rank, text in enumerate(texts):
        assert (
            "ALLREDUCE" in text
            and f"failed on rank {rank}" in text
            and f"rank {rank} is at" in text
            or "ranks 0, 1 are at" in text
        ), text
        assert "cannot be reached" in text and (rank > 1 or "ranks 2, 3 give no answer" in text), text


FAILURES = [in_another_collective, is_late, is_killed, loses_its_link]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--only", action="append", choices=[f.__name__ for f in FAILURES])
    args = parser.parse_args()
    times, counts, chosen = (
        args.times,
        collections.Counter(),
        [f for f in FAILURES if f.__name__ in (args.only or f.__name__)],
    )
    for i in range(times):
        for failure in chosen:
            start = time.time()
            try:
                failure()
                counts[failure.__name__] += 1
                print(i, failure.__name__, f"{time.time() - start:.1f} s", flush=True)
            except Exception:
                print(i, failure.__name__, "WRONG", traceback.format_exc(), flush=True)
    print(", ".join(f"{counts[f.__name__]} of {times} {f.__name__}" for f in chosen))
    return 0 if all(counts[f.__name__] == times for f in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
