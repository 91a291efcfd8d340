"""What the CPU refuses and the Meta kernels let pass is refused here too, in the same words."""
import os
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

C = torch.complex64
ones = torch.ones


def at(v, *dtypes):
    return [ones(4, device=v, dtype=t) for t in dtypes]


CASES = {
    "mul_ of bool by int": lambda v: at(v, torch.bool)[0].mul_(2),
    "mul_ of int by float": lambda v: at(v, torch.int32)[0].mul_(at(v, torch.float32)[0]),
    "addcmul_ of int": lambda v: torch.addcmul(
        *at(v, torch.int32, torch.float32, torch.float32), out=at(v, torch.int32)[0]
    ),
    "fill_ with a complex number": lambda v: at(v, torch.float32)[0].fill_(1 + 2j),
    "addmm_ of two dtypes": lambda v: ones(2, 2, device=v, dtype=torch.bfloat16).addmm_(
        ones(2, 2, device=v), ones(2, 2, device=v)
    ),
    "addbmm_ of two dtypes": lambda v: ones(2, 2, device=v)
    .double()
    .addbmm_(ones(1, 2, 2, device=v), ones(1, 2, 2, device=v)),
    "index_add_ of two dtypes": lambda v: at(v, torch.bfloat16)[0].index_add_(
        0, torch.tensor([0], device=v), ones(1, device=v)
    ),
    "index_reduce_ of two dtypes": lambda v: at(v, torch.bfloat16)[0].index_reduce_(
        0, torch.tensor([0], device=v), ones(1, device=v), "amax"
    ),
    "lu_factor of int64": lambda v: torch.linalg.lu_factor(torch.eye(3, device=v).long()),
    "adaptive_avg_pool2d of bytes": lambda v: torch.nn.functional.adaptive_avg_pool2d(
        ones(1, 1, 4, 6, device=v, dtype=torch.uint8), 2
    ),
    "copy_ into a part of itself": lambda v: (lambda x: x[1:].copy_(x[:-1]))(at(v, torch.float32)[0]),
    "copy_ into repeated places": lambda v: ones(1, device=v).expand(3).copy_(ones(3, device=v)),
    **{
        f"{name} of {str(t)[6:]}": (lambda fn, t: lambda v: fn(torch.arange(64, device=v).reshape(2, 2, 4, 4).to(t)))(
            fn, t
        )
        for t, name, fn in [
            (t, name, fn)
            for t in (torch.int64, torch.int32, torch.bool)
            for name, fn in {
                "hardshrink": F.hardshrink,
                "hardsigmoid": F.hardsigmoid,
                "hardswish": F.hardswish,
                "gelu": F.gelu,
                "mse_loss": lambda x: F.mse_loss(x, x),
                "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x),
                "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x[0], 2),
                "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 2),
                "interpolate": lambda x: F.interpolate(x, (2, 2), mode="area"),
                "layer_norm": lambda x: F.layer_norm(x, (4,)),
                "var": torch.var,
                "std": torch.std,
                "multinomial": lambda x: torch.multinomial(x[0, 0], 2),
                "qr": torch.linalg.qr,
                "lu_factor": torch.linalg.lu_factor,
                "svdvals": torch.linalg.svdvals,
                "glu": F.glu,
                "softplus": F.softplus,
            }.items()
        ]
    },
    "fake_quantize beyond its range": lambda v: torch.fake_quantize_per_tensor_affine(
        ones(2, device=v), 0.1, 300, 0, 255
    ),
    "fake_quantize of no range": lambda v: torch.fake_quantize_per_tensor_affine(ones(2, device=v), 0.1, 0, 255, 0),
    "fake_quantize of channels, no range": lambda v: torch.fake_quantize_per_channel_affine(
        ones(2, 2, device=v), ones(2, device=v), torch.zeros(2, dtype=torch.int32, device=v), 0, 255, 0
    ),
    "grid_sample of nothing": lambda v: F.grid_sample(
        ones(1, 1, 0, 3, device=v), ones(1, 2, 2, 2, device=v), align_corners=False
    ),
    "grid_sample of two dtypes": lambda v: F.grid_sample(
        ones(1, 1, 3, 3, device=v), ones(1, 2, 2, 2, device=v).double(), align_corners=False
    ),
    "avg_pool2d of int32": lambda v: F.avg_pool2d(ones(1, 1, 4, 4, device=v, dtype=torch.int32), 2),
    "max_pool2d of bool": lambda v: F.max_pool2d(ones(1, 1, 4, 4, device=v, dtype=torch.bool), 2),
    "lcm of float32": lambda v: torch.lcm(*at(v, torch.float32, torch.float32)),
    "topk of bool": lambda v: at(v, torch.bool)[0].topk(2),
    "multinomial of no samples": lambda v: torch.multinomial(ones(3, device=v), 0),
    **{
        f"{name} of {str(t)[6:]} by {number}": (lambda fn, t, number: lambda v: fn(v, at(v, t)[0], number))(
            fn, t, number
        )
        for t, number in (
            (torch.int64, float("nan")),
            (torch.int32, 1e30),
            (torch.uint8, 300),
            (torch.float16, 1e30),
            (torch.int64, 2**63),
        )
        for name, fn in {
            "fill_": lambda v, x, n: x.fill_(n),
            "masked_fill_": lambda v, x, n: x.masked_fill_(x > 0, n),
            "full": lambda v, x, n: torch.full_like(x, n),
            "index_fill": lambda v, x, n: x.index_fill_(0, torch.tensor([0], device=v), n),
            "scatter": lambda v, x, n: x.scatter_(0, torch.tensor([0], device=v), n),
            "pad": lambda v, x, n: F.pad(x, (1, 1), value=n),
        }.items()
        if number != 2**63 or name != "pad"
    },
    **{
        f"{name} of complex": (lambda fn: lambda v: fn(at(v, C)[0]))(fn)
        for name, fn in {
            "clamp": lambda x: x.clamp(0, 1),
            "clamp_max": lambda x: x.clamp_max(1),
            "atan2": lambda x: torch.atan2(x, x),
            "fmax": lambda x: torch.fmax(x, x),
            "maximum": lambda x: torch.maximum(x, x),
            "max": lambda x: x.max(),
            "max along a dim": lambda x: x.max(0),
            "cummax": lambda x: x.cummax(0),
            "copysign": lambda x: torch.copysign(x, x),
            "less": lambda x: x < x,
            "i0": lambda x: torch.special.i0(x),
            "gcd": lambda x: torch.gcd(x, x),
            "native_batch_norm": lambda x: torch.native_batch_norm(
                x.reshape(2, 2), None, None, None, None, True, 0.1, 1e-5
            ),
        }.items()
    },
}


@pytest.mark.parametrize("name", CASES)
def test_refused_as_on_cpu(name):
    with pytest.raises(Exception) as want:
        CASES[name]("cpu")
    with pytest.raises(type(want.value)) as got:
        CASES[name]("tpu")
    assert str(got.value).splitlines()[0] == str(want.value).splitlines()[0]


def test_floats_become_bytes_by_way_of_int64():
    x = torch.tensor([-1.0, 255.9, 256.0, -300.5, 3e9, 1e20, float("nan")])
    for t in (torch.float32, torch.float64, torch.bfloat16):
        assert x[:5].to(t).to("tpu").to(torch.uint8).tolist() == x[:5].to(t).to(torch.uint8).tolist()


def test_numbers_above_int64():
    for t in (torch.float32, torch.float64, torch.uint64):
        x = torch.full((3,), 2 ** 63 + 2 ** 11, dtype=t, device="tpu")
        assert x.tolist() == torch.full((3,), 2 ** 63 + 2 ** 11, dtype=t).tolist()
    x = torch.tensor([1.0, 2.0 ** 63])
    assert torch.equal((x.to("tpu") == 2**63).cpu(), x == 2**63) and torch.equal(
        (x.to("tpu") + (2**64 - 1)).cpu(), x + (2**64 - 1)
    )


def test_a_dtype_that_is_asked_for_is_taken():
    assert torch.ones(3, dtype=torch.int64, device="tpu").mean(dtype=torch.float32).item() == 1
    assert torch.ones(3, dtype=torch.int64, device="tpu").softmax(0, dtype=torch.float32).sum().item() == pytest.approx(
        1
    )
    assert torch.ones(3, dtype=torch.bool, device="tpu").floor_divide(2).tolist() == [0, 0, 0]


def test_refusals_are_those_of_this_torch():
    """The header is measured; here for a few operators again."""
    tool = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "refusals.py")
    names = "^(nn.functional.(hardshrink|gelu|avg_pool2d|glu)|lcm|var|topk|multinomial|mean|linalg.qr)$"
    done = subprocess.run([sys.executable, tool, "check", names], capture_output=True, text=True,
                          env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0, done.stderr
