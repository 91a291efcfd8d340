"""What the others hear when a rank is late, elsewhere or gone."""
import os
import time

import pytest
import torch
import torch.distributed as dist
from world import World


def another_collective(rank):
    t = torch.ones(4, 8, device="tpu")
    if rank == 3:
        dist.all_gather([torch.empty_like(t) for _ in range(4)], t)
    else:
        dist.all_reduce(t)


def late(rank):
    if rank == 2:
        time.sleep(12)
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


def waited_for_too_short(rank):
    import datetime
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


@pytest.fixture
def fresh():
    world = World(4, timeout=5)
    yield world
    for process in world.processes:
        process.kill()


def test_a_rank_in_another_collective(fresh):
    start = time.time()
    fresh.send(another_collective)
    texts = [text for worked, text in fresh.answers() if not worked]
    assert texts and time.time() - start < 5 + 5 + 5
    assert any("rank 3 is at #1 all_gather [4, 8] Float" in t and "at #1 all_reduce [4, 8] Float" in t and "test_failures.py" in t for t in texts), texts


def test_a_late_rank(fresh):
    fresh.send(late)
    for worked, text in fresh.answers(ranks=[0, 1, 3]):
        assert not worked and "ranks 0, 1, 3 are at #1 all_reduce [3] Float" in text, text
        assert "rank 2 has begun no collective" in text, text


def test_a_killed_rank(fresh):
    start = time.time()
    fresh.send(killed)
    for worked, text in fresh.answers(ranks=[0, 2, 3]):
        assert not worked and "all_reduce" in text.lower() and "rank 1 gives no answer" in text, text
    assert time.time() - start < 5 + 5 + 5


def test_who_waited_for_too_short_may_wait_again(fresh):
    assert fresh.run(waited_for_too_short)[0]
