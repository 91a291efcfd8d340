"""Functional collectives inside torch.compile's graphs: the graph is cut there, and goes on meanwhile."""
import compiled
import pytest
from world import World


@pytest.mark.parametrize("mode", ["strict", "fuse"])
def test_values_are_those_of_eager_mode(world, mode):
    for programs in world.run(compiled.values, mode=mode):
        assert programs <= 5  # of 12 operators


def test_gradients_are_those_of_eager_mode(world):
    world.run(compiled.gradients)


def test_a_graph_from_the_cache_names_this_process_groups():
    for others in (0, 3):  # the same graph, whose group has another name; and the mesh is the ranks' first use of tpu
        world = World(4, timeout=20)
        try:
            for compiled_, eager in world.run(compiled.along_an_axis, others):
                assert compiled_.equal(eager)
        finally:
            world.close()


def test_what_does_not_need_the_result_runs_meanwhile(two):
    (meanwhile, whole), _ = two.run(compiled.overlaps)
    assert meanwhile < 0.7 and whole > 0.9  # the other rank sleeps for a second


def test_collectives_keep_their_order(two):
    for levels in two.run(compiled.in_order):
        assert len(levels) == 2 and levels == sorted(levels) and levels[0] >= 2
