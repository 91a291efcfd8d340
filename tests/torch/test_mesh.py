"""Meshes that follow the links of a slice, beside JAX's on the same coordinates."""
import math

import pytest
import torch
from torch_tpu.distributed.mesh import hops, layout

SHAPES = {
    "v5e:4x8": [(32,), (4, 8), (8, 4), (2, 16)],
    "v5e:16x16": [(256,), (16, 16), (8, 32), (4, 4, 16)],
    "v6e:8x16": [(128,), (8, 16), (16, 8), (4, 32), (2, 8, 8)],
    "v5p:4x4x8": [(128,), (16, 8), (4, 32), (4, 4, 8)],
    "v5p:8x8x16": [(1024,), (64, 16), (8, 128), (4, 16, 16)],
    "tpu7x:16x16x32": [(16384,), (64, 256), (8, 16, 128)],
}


class Device:
    """What JAX looks at."""

    def __init__(self, d, kind):
        (
            self.id,
            self.coords,
            self.core_on_chip,
            self.process_index,
            self.device_kind,
            self.platform,
            self.slice_index,
        ) = (d.id, d.coords, d.core, d.process, kind, "tpu", 0)


def jax_layout(t, shape):
    """JAX's mesh as ranks; None if it makes none."""
    mesh_utils = pytest.importorskip("jax.experimental.mesh_utils")
    rank = {d.id: r for r, d in enumerate(t.devices)}
    for split in (False, True):
        try:
            devices = mesh_utils.create_device_mesh(
                shape, [Device(d, t.kind) for d in t.devices], allow_split_physical_axes=split
            )
            return torch.tensor([rank[d.id] for d in devices.flat]).view(shape)
        except (NotImplementedError, ValueError, AssertionError):
            continue
    return None


@pytest.mark.parametrize("name", SHAPES)
def test_steps_are_as_short_as_jax_makes_them(name):
    from torch_tpu.aot import topology
    t = topology(name)
    for shape in SHAPES[name]:
        ranks = layout(t, shape)
        assert sorted(ranks.flatten().tolist()) == list(range(len(t.devices)))
        ours, theirs = hops(t, ranks), jax_layout(t, shape)
        if theirs is not None:
            assert sum(ours) <= sum(hops(t, theirs)) + 1e-9, shape
        if len(shape) == 1 or shape == t.shape:
            assert max(ours) <= 1


def test_slices_are_outermost():
    one = layout("v5e:2x2", (2, 2))
    two = layout("v5e:2x2", (2, 2), (2, 1))
    assert two.shape == (4, 2) and torch.equal(two[:2], one) and torch.equal(two[2:], one + 4)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="has 6 devices, v5e:2x2 has 4"):
        layout("v5e:2x2", (2, 3))
    with pytest.raises(ValueError, match="dcn_mesh_shape has 1 axes"):
        layout("v5e:2x2", (2, 2), (2,))
    assert math.prod(layout("v5e:2x2", (4, 1)).shape) == 4


def test_hosts_as_the_machine_names_them():
    arguments = torch.tpu.distributed.launch_arguments(
        {"TPU_WORKER_HOSTNAMES": "a.svc,b.svc", "TPU_WORKER_ID": "1", "TPU_CHIPS_PER_HOST_BOUNDS": "2,2,1"}
    )
    assert arguments == [
        "--nnodes=2",
        "--node-rank=1",
        "--nproc-per-node=4",
        "--master-addr=a.svc",
        "--master-port=29400",
    ]
    assert "--nnodes=1" in torch.tpu.distributed.launch_arguments({})
    with pytest.raises(ValueError, match="TPU_WORKER_ID is 2"):
        torch.tpu.distributed.launch_arguments({"TPU_WORKER_HOSTNAMES": "a,b", "TPU_WORKER_ID": "2"})
