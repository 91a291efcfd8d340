"""What the CPU refuses and the Meta kernels let pass is refused here too, in the same words."""
import pytest
import torch

C = torch.complex64
ones = torch.ones


def at(v, *dtypes):
    return [ones(4, device=v, dtype=t) for t in dtypes]


CASES = {
    "mul_ of bool by int": lambda v: at(v, torch.bool)[0].mul_(2),
    "mul_ of int by float": lambda v: at(v, torch.int32)[0].mul_(at(v, torch.float32)[0]),
    "addcmul_ of int": lambda v: torch.addcmul(*at(v, torch.int32, torch.float32, torch.float32), out=at(v, torch.int32)[0]),
    "fill_ with a complex number": lambda v: at(v, torch.float32)[0].fill_(1 + 2j),
    "addmm_ of two dtypes": lambda v: ones(2, 2, device=v, dtype=torch.bfloat16).addmm_(ones(2, 2, device=v), ones(2, 2, device=v)),
    "addbmm_ of two dtypes": lambda v: ones(2, 2, device=v).double().addbmm_(ones(1, 2, 2, device=v), ones(1, 2, 2, device=v)),
    "index_add_ of two dtypes": lambda v: at(v, torch.bfloat16)[0].index_add_(0, torch.tensor([0], device=v), ones(1, device=v)),
    "index_reduce_ of two dtypes": lambda v: at(v, torch.bfloat16)[0].index_reduce_(0, torch.tensor([0], device=v), ones(1, device=v), "amax"),
    "lu_factor of int64": lambda v: torch.linalg.lu_factor(torch.eye(3, device=v).long()),
    "adaptive_avg_pool2d of bytes": lambda v: torch.nn.functional.adaptive_avg_pool2d(ones(1, 1, 4, 6, device=v, dtype=torch.uint8), 2),
    "copy_ into a part of itself": lambda v: (lambda x: x[1:].copy_(x[:-1]))(at(v, torch.float32)[0]),
    "copy_ into repeated places": lambda v: ones(1, device=v).expand(3).copy_(ones(3, device=v)),
    **{f"{name} of complex": (lambda fn: lambda v: fn(at(v, C)[0]))(fn) for name, fn in {
        "clamp": lambda x: x.clamp(0, 1), "clamp_max": lambda x: x.clamp_max(1), "atan2": lambda x: torch.atan2(x, x),
        "fmax": lambda x: torch.fmax(x, x), "maximum": lambda x: torch.maximum(x, x), "max": lambda x: x.max(),
        "max along a dim": lambda x: x.max(0), "cummax": lambda x: x.cummax(0), "copysign": lambda x: torch.copysign(x, x),
        "less": lambda x: x < x, "i0": lambda x: torch.special.i0(x), "gcd": lambda x: torch.gcd(x, x),
        "native_batch_norm": lambda x: torch.native_batch_norm(x.reshape(2, 2), None, None, None, None, True, 0.1, 1e-5),
    }.items()},
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
