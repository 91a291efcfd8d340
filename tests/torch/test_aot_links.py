"""Collectives in the estimate of time: the links of the axes along which their groups lie."""
import pytest
import torch
from torch_tpu.aot import hlo, links, topology
from torch_tpu.plugin import KNOWN

pytestmark = pytest.mark.skipif(KNOWN["libtpu"]() is None, reason="libtpu knows the slices, and it is not installed")
MB = 1e6


def collective(name, groups):
    text = f"replica_groups = dense<{groups.tolist()}> : tensor<{groups.shape[0]}x{groups.shape[1]}xi64>"
    return hlo.Op(name, ["%1"], ["%0"], [], text, [])


def along(t, *axes):
    """Groups of the devices that differ in these axes of the grid alone, or in which core of a chip they are (-1)."""
    rows = {}
    for d in t.devices:
        where = [*d.coords[: len(t.shape)], d.core]
        key = tuple(x for axis, x in enumerate(where) if axis not in axes and axis - len(where) not in axes)
        rows.setdefault(key, []).append(d.id)
    return torch.tensor([rows[k] for k in sorted(rows)])


def test_an_axis_has_its_own_links_only():
    t = topology("v5p:4x4x4")
    assert len(t.devices) == 64
    link = 100e9  # a v5p has 1200 GB/s in all: six links, both ways
    one, two, three = (links.seconds(collective("all_gather", along(t, *axes)), 300 * MB, t) for axes in ((0,), (0, 1), (0, 1, 2)))
    assert one == pytest.approx(300 * MB / (2 * link)) and two == pytest.approx(one / 2) and three == pytest.approx(one / 3)
    for axis in (1, 2):
        assert links.seconds(collective("all_gather", along(t, axis)), 300 * MB, t) == one


def test_an_axis_that_ends_has_one_way():
    t = topology("v6e:4x4")  # only axes of 16 are closed
    assert links.seconds(collective("all_gather", along(t, 0)), 300 * MB, t) == pytest.approx(300 * MB / 100e9)
    t = topology("v6e:16x16")
    assert links.seconds(collective("all_gather", along(t, 0)), 300 * MB, t) == pytest.approx(300 * MB / 200e9)


def test_devices_of_a_chip_share_its_links():
    t = topology("tpu7x:4x4x4")
    assert len(t.devices) == 128
    alone = links.seconds(collective("all_gather", along(t, 0)), 300 * MB, t)
    assert alone == pytest.approx(300 * MB / (2 * 100e9 * t.share)) and t.share == 0.5
    assert links.seconds(collective("all_gather", along(t, -1)), 300 * MB, t) == pytest.approx(300 * MB / t.ici)


def test_small_collectives_take_the_steps_of_their_ring():
    t = topology("v5p:4x4x8")
    for axes, steps in (((0,), 2), ((2,), 4), ((0, 1, 2), 8)):
        assert links.seconds(collective("all_gather", along(t, *axes)), 8, t) == pytest.approx(steps * 1e-6)
        assert links.seconds(collective("all_reduce", along(t, *axes)), 8, t) == pytest.approx(2 * steps * 1e-6)


def test_all_to_all_is_bound_by_the_middle():
    t = topology("v5p:4x4x8")
    given = 64 * MB  # of each device; it keeps 1/n
    group = along(t, 2)
    assert group.shape[1] == 8
    # four of the ring's chips send half of what they have over two links
    assert links.seconds(collective("all_to_all", group), given * 7 / 8, t) == pytest.approx(4 * given / 2 / (2 * 100e9))


def test_groups_of_every_second_chip_share_the_links():
    t = topology("v5p:4x4x8")
    group = along(t, 2)[:, ::2]
    whole = links.seconds(collective("all_gather", along(t, 2)), 300 * MB, t)
    assert links.seconds(collective("all_gather", group), 300 * MB, t) > 1.9 * whole
