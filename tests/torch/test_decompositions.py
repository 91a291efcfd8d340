"""Operators that are lowered by decompositions of ours, and results whose dtypes the Meta kernels do not tell."""
import pytest
import torch
from torch.nn import functional as F

import torch_tpu


def both(fn):
    want, got = fn("cpu"), fn("tpu")
    before = torch_tpu.counters()["fallbacks"]
    got = fn("tpu")
    assert torch_tpu.counters()["fallbacks"] == before
    for g, w in zip(got, want):
        assert g.dtype == w.dtype and g.stride() == w.stride()
        torch.testing.assert_close(g.cpu(), w)


@pytest.mark.parametrize("norm_type", [1.0, 2.0])
def test_embedding_renorms_rows_in_place(norm_type):
    def run(v):
        w = torch.linspace(-3, 3, 20).reshape(5, 4).to(v)
        return F.embedding(torch.tensor([[1, 4], [1, 0]], device=v), w, max_norm=1.0, norm_type=norm_type), w

    both(run)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("batch", [True, False])
def test_margin_losses_backward(reduction, batch):
    def run(v):
        x = torch.linspace(-1, 1, 15).reshape(3, 5).sin()
        t, many = torch.tensor([1, 0, 4]), torch.tensor([[1, 3, -1, 2, 0], [0, 1, 2, 3, 4], [-1, 0, 0, 0, 0]])
        x, t, many = (x, t, many) if batch else (x[0], t[0], many[0])
        x = x.to(v).requires_grad_()
        weight = torch.linspace(0.5, 2, 5).to(v)
        losses = [
            F.multi_margin_loss(x, t.to(v), p=p, margin=0.7, weight=w, reduction=reduction)
            for p in (1, 2)
            for w in (None, weight)
        ]
        losses.append(F.multilabel_margin_loss(x, many.to(v), reduction=reduction))
        return [torch.autograd.grad(loss.sum(), x)[0] for loss in losses]

    both(run)


def test_zero_gradients_without_memory():
    def run(v):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).to(v).requires_grad_()
        return torch.autograd.grad(x.sgn().sum(), x)

    both(run)


@pytest.mark.parametrize("parameters", [torch.bfloat16, torch.float32])
def test_saved_statistics_have_the_cpu_dtype(parameters):
    def run(v):
        x = torch.linspace(-2, 2, 24).reshape(2, 3, 4).to(v, torch.bfloat16)
        w, b, mean, var = (torch.ones(3, device=v, dtype=parameters) for _ in range(4))
        ln = [torch.ones(4, device=v, dtype=parameters) for _ in range(2)]
        return [t.float() for t in torch.native_layer_norm(x, [4], *ln, 1e-5)], *torch.native_batch_norm(
            x, w, b, mean, var, True, 0.1, 1e-5
        )

    def dtypes(v):
        out = run(v)
        return [t.dtype for t in out[1:]]

    assert dtypes("tpu") == dtypes("cpu")


def test_out_lists_are_written():
    def run(v):
        x = torch.arange(10.0, device=v).reshape(5, 2)
        parts = [torch.empty(0, device=v) for _ in range(3)], [torch.empty(2, device=v) for _ in range(5)]
        torch.split_with_sizes_copy(x, (1, 3, 1), out=parts[0])
        torch.unbind_copy(x, out=parts[1])
        return *parts[0], *parts[1]

    both(run)


aten = torch.ops.aten


@pytest.mark.parametrize("mask_type", [0, 1, 2])
def test_masked_softmax(mask_type):
    def run(v):
        x = torch.linspace(-2, 3, 36).sin().reshape(2, 2, 3, 3).to(v)
        mask = torch.arange(36, device=v).reshape(2, 2, 3, 3) % 3 == 1
        y = torch._masked_softmax(x, (mask[0, 0], mask[:, 0, 0], mask)[mask_type], -1, mask_type)
        return y, aten._masked_softmax_backward(x, x.softmax(-1), mask)

    both(run)
    with pytest.raises(RuntimeError, match="Mask should be a boolean tensor"):
        torch._masked_softmax(torch.ones(2, 2, device="tpu"), torch.ones(2, 2, device="tpu"), 1, 2)


@pytest.mark.parametrize("dim", [0, 1])
def test_weight_norm_and_its_gradient(dim):
    def run(v):
        w = torch.linspace(-1, 2, 12).reshape(4, 3).to(v)
        g = (w[:, :1] if dim == 0 else w[:1]).contiguous()
        y, norms = aten._weight_norm_interface(w, g, dim)
        layer = torch.nn.utils.weight_norm(torch.nn.Linear(3, 4, device=v), dim=dim)
        with torch.no_grad():
            layer.weight_v.copy_(w)
            layer.weight_g.copy_(g)
            layer.bias.zero_()
        layer(torch.ones(2, 3, device=v)).square().sum().backward()
        return (
            y,
            norms,
            *aten._weight_norm_interface_backward(w.cos(), w, g, norms, dim),
            layer.weight_v.grad,
            layer.weight_g.grad,
        )

    both(run)


def test_forward_mode_of_glu():
    def run(v):
        x, dx, g = (torch.linspace(-1, k, 24).reshape(4, 6).to(v) for k in (1, 2, 3))
        y = torch.func.jvp(lambda t: F.glu(t, 1), (x,), (dx,))
        return *y, aten.glu_backward_jvp(aten.glu_backward(g[:, :3], x, 1), g[:, :3], x, dx[:, :3], dx, 1)

    both(run)


def test_fused_by_hand():
    def run(v):
        x, y = torch.linspace(-1, 1, 12).reshape(3, 4).to(v), torch.linspace(1, -2, 12).reshape(3, 4).to(v)
        weight = torch.arange(-10, 10, device=v).to(torch.int8).reshape(5, 4)
        qkv = aten._transform_bias_rescale_qkv(
            torch.linspace(-1, 1, 48).reshape(2, 2, 12).to(v), torch.ones(12, device=v), 2
        )
        return (
            torch._add_relu(x, y, alpha=2),
            aten._add_relu.Scalar(x, 0.5),
            aten._add_relu.out(x, y, out=torch.empty(0, device=v)),
            *qkv,
            aten._weight_int8pack_mm(x, weight, torch.ones(5, device=v)),
            aten._compute_linear_combination(x, y[:, :3]),
        )

    both(run)


def test_convolutions_by_name():
    def run(v):
        x, w, b = (torch.linspace(-1, 1, n).sin().to(v) for n in (3 * 6 * 5 * 4, 4 * 3 * 27, 4))
        plane, volume, w2, w3 = (
            x[:90].reshape(1, 3, 6, 5),
            x.reshape(1, 3, 6, 5, 4),
            w[:108].reshape(4, 3, 3, 3),
            w.reshape(4, 3, 3, 3, 3),
        )
        return (
            aten._slow_conv2d_forward(plane, w2, [3, 3], b, [2, 1], [1, 0]),
            aten.slow_conv3d_forward(volume, w3, [3, 3, 3], b, [1, 1, 1], [1, 1, 1]),
            aten.slow_conv_dilated2d(plane, w2, [3, 3], b, [1, 1], [2, 1], [2, 2]),
            aten.slow_conv_dilated3d(volume, w3, [3, 3, 3], b),
            aten.slow_conv_transpose3d(volume, w3.transpose(0, 1).contiguous(), [3, 3, 3], None, [2, 2, 2]),
        )

    both(run)


def test_batch_statistics_are_updated():
    def run(v):
        x, mean, var = (
            torch.linspace(-1, 2, 60).reshape(5, 3, 4).to(v),
            torch.ones(3, device=v),
            torch.ones(3, device=v),
        )
        return *aten.batch_norm_update_stats(x, mean, var, 0.1), mean, var

    both(run)


def test_assertions_read_their_value():
    torch._assert_async(torch.tensor(1, device="tpu"))
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value, but got zero"):
        torch._assert_async(torch.tensor(0, device="tpu"))
    with pytest.raises(RuntimeError, match="said so"):
        torch._assert_async(torch.tensor(0, device="tpu"), "said so")
