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
        losses = [F.multi_margin_loss(x, t.to(v), p=p, margin=0.7, weight=w, reduction=reduction) for p in (1, 2) for w in (None, weight)]
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
        return [t.float() for t in torch.native_layer_norm(x, [4], *ln, 1e-5)], *torch.native_batch_norm(x, w, b, mean, var, True, 0.1, 1e-5)

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
