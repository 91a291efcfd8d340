"""Channels last: results and gradients have the strides that the CPU gives them."""
import itertools

import pytest
import torch
import torch.nn.functional as F

LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def strides(fn, tensors, device):
    mine = [t.to(device).requires_grad_() for t in tensors]
    y = fn(*mine)
    return [y.stride()] + [
        None if g is None else g.stride() for g in torch.autograd.grad(y, mine, torch.ones_like(y), allow_unused=True)
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dims,transposed", itertools.product((2, 3), (False, True)))
def test_convolution(dev, dims, transposed, dtype):
    name = f"conv{'_transpose' if transposed else ''}{dims}d"
    for batch, x_last, w_last in ((2, True, False), (2, False, True), (1, True, True), (2, False, False)):
        x, w = torch.randn(batch, 4, *[5] * dims, dtype=dtype), torch.randn(4, 4, *[3] * dims, dtype=dtype)
        if x_last:
            x = x.contiguous(memory_format=LAST[dims + 2])
        if w_last:
            w = w.contiguous(memory_format=LAST[dims + 2])
        got, want = (strides(getattr(F, name), [x, w], d) for d in (dev, "cpu"))
        # for volumes the CPU asks how many threads it has, and autograd's threads may have others
        n = 1 if dims == 3 else 3
        assert got[:n] == want[:n], (batch, x_last, w_last)


def test_what_follows_convolutions(dev):
    x = torch.randn(2, 4, 6, 6).contiguous(memory_format=torch.channels_last)
    for fn in (
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 3, 1),
        lambda x: F.adaptive_avg_pool2d(x, 3),
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: F.interpolate(x, (5, 7), mode="bilinear"),
        lambda x: torch.cat([x, x], 1),
        lambda x: x.relu() + 1,
        lambda x: F.silu(x).clone(),
    ):
        assert strides(fn, [x], dev) == strides(fn, [x], "cpu")


def test_unpooling(dev):
    x = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    y, places = F.max_pool2d(x, 2, return_indices=True)
    assert F.max_unpool2d(y.to(dev), places.to(dev), 2).stride() == F.max_unpool2d(y, places, 2).stride()


def test_cat_and_conjugates_into_outs_that_grow(dev):
    x = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    for fn, t in (
        (lambda t, out: torch.cat([t, t], 1, out=out), x),
        (lambda t, out: torch.conj_physical(t, out=out), x.to(torch.complex64)),
    ):
        outs = [torch.empty(0, dtype=t.dtype, device=device) for device in ("cpu", dev)]
        for out in outs:
            fn(t.to(out.device), out)
        assert outs[0].stride() == outs[1].stride()


def test_gradients_of_group_norm(dev):
    """As the operator gives them: what autograd hands it on other devices than the CPU is contiguous already."""
    x = torch.randn(2, 4, 3, 3).contiguous(memory_format=torch.channels_last)

    def gradients(device):
        args = (
            x.to(device),
            x.to(device),
            torch.zeros(2, 2, device=device),
            torch.ones(2, 2, device=device),
            torch.ones(4, device=device),
        )
        return [g.stride() for g in torch.ops.aten.native_group_norm_backward(*args, 2, 4, 9, 2, [True, True, True])]

    assert gradients(dev) == gradients("cpu")
