"""Autocast and gradient scaling."""
import pytest
import torch
from torch import nn
from torch.nn import functional as F


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_what_runs_in_which_dtype(dev, dtype):
    m, x = nn.Linear(3, 3).to(dev), torch.ones(2, 3, device=dev)
    with torch.autocast(dev, dtype=dtype):
        h = m(x)
        assert h.dtype == dtype and (x @ x.t()).dtype == dtype and torch.bmm(x[None], x.t()[None]).dtype == dtype
        assert (h + x).dtype == torch.float32 and F.mse_loss(h, x).dtype == torch.float32
        assert F.conv1d(x[None], torch.ones(1, 2, 1, device=dev)).dtype == dtype
        with torch.autocast(dev, enabled=False):
            assert (x @ x.t()).dtype == torch.float32
    assert m(x).dtype == torch.float32
    h.float().sum().backward()
    assert m.weight.grad.dtype == torch.float32


@pytest.mark.tpu
def test_policies_that_keep_float32():
    x = torch.ones(2, 3, device="tpu", dtype=torch.bfloat16)
    with torch.autocast("tpu", dtype=torch.bfloat16):
        assert F.cross_entropy(x, torch.tensor([0, 1], device="tpu")).dtype == torch.float32
        assert F.layer_norm(x.float(), (3,)).dtype == torch.float32
        assert x.exp().dtype == torch.float32 or x.exp().dtype == torch.bfloat16


@pytest.mark.tpu
def test_state_queries():
    assert torch.get_autocast_dtype("tpu") in (torch.bfloat16, torch.float16)
    assert torch.amp.is_autocast_available("tpu") and torch.bfloat16 in torch.tpu.get_amp_supported_dtype()
    with torch.autocast("tpu", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("tpu")
    assert not torch.is_autocast_enabled("tpu")


def test_scaler_skips_infinite_steps(dev):
    m = nn.Linear(2, 1, bias=False).to(dev)
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(dev, init_scale=8.0, growth_interval=2)
    before = m.weight.detach().cpu().clone()
    scaler.scale(m(torch.full((1, 2), float("inf"), device=dev)).sum()).backward()
    scaler.step(o)
    scaler.update()
    assert torch.equal(m.weight.detach().cpu(), before) and scaler.get_scale() == 4.0
    for _ in range(2):
        o.zero_grad()
        scaler.scale(m(torch.ones(1, 2, device=dev)).sum()).backward()
        scaler.unscale_(o)
        assert m.weight.grad.tolist() == [[1.0, 1.0]]
        scaler.step(o)
        scaler.update()
    assert scaler.get_scale() == 8.0
    torch.testing.assert_close(m.weight.detach().cpu(), before - 0.2)
    other = torch.amp.GradScaler(dev)
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8.0


def test_custom_functions_in_autocast(dev):
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=dev)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type=dev)
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g @ b.t(), a.t() @ g

    a = torch.ones(2, 2, device=dev, requires_grad=True)
    with torch.autocast(dev, dtype=torch.bfloat16):
        y = Product.apply(a, a)
    y.float().sum().backward()
    assert y.dtype == torch.bfloat16 and a.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]
