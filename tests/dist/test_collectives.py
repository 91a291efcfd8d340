"""Collectives of the backend tpu_dist, over 4 processes."""
import collectives
import pytest

CASES = [
    collectives.all_reduce_dtypes,
    collectives.all_reduce_operations,
    collectives.refusals,
    collectives.views,
    collectives.moves,
    collectives.all_to_all,
    collectives.one_to_one,
    collectives.asynchronous,
    collectives.objects,
    collectives.groups,
    collectives.sparse,
    collectives.monitored,
]


@pytest.mark.parametrize("mode", ["strict", "fuse"])
@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)
def test_collective(world, case, mode):
    world.run(case, mode=mode)


def test_all_reduce_copies_nothing(world):
    assert world.run(collectives.copies) == 4 * [{"bytes_to_device": 0, "bytes_from_device": 0, "executions": 0}]
