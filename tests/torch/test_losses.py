"""Margin losses, and modules in the forms that torch's own Meta kernels get wrong: no fallback, the CPU's results."""
import copy

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("native")


def same_gradients(dev, loss, x, *args):
    for weight in (1.0, -2.0):
        inputs = [x.clone().to(d).requires_grad_() for d in ("cpu", dev)]
        results = [loss(i, *(a.to(i.device) if isinstance(a, torch.Tensor) else a for a in args)) for i in inputs]
        torch.testing.assert_close(results[1].cpu(), results[0])
        gradients = [torch.autograd.grad((r * weight).sum(), i)[0] for r, i in zip(results, inputs)]
        torch.testing.assert_close(gradients[1].cpu(), gradients[0])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(5, 7), (7,), (1, 1)])
def test_multilabel_margin_loss(dev, shape, reduction):
    def loss(x, t):
        return nn.functional.multilabel_margin_loss(x, t, reduction=reduction)

    targets = torch.tensor(
        [
            [3, 0, -1, 5, 1, 2, 0],
            [-1, 1, 2, 3, 4, 5, 6],
            [6, 6, 2, -1, 2, -1, 0],
            [0, 1, 2, 3, 4, 5, 6],
            [4, 4, 4, -1, 0, 0, 0],
        ]
    )
    t = targets if shape == (5, 7) else targets[0] if shape == (7,) else torch.zeros(1, 1, dtype=torch.int64)
    same_gradients(dev, loss, torch.randn(shape), t)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin_loss(dev, p, reduction):
    def loss(x, t, w):
        return nn.functional.multi_margin_loss(x, t, p=p, margin=0.7, weight=w, reduction=reduction)

    same_gradients(dev, loss, torch.randn(4, 5), torch.tensor([0, 4, 2, 2]), None)
    same_gradients(dev, loss, torch.randn(4, 5), torch.tensor([0, 4, 2, 2]), torch.rand(5))
    same_gradients(dev, loss, torch.randn(5), torch.tensor(3), None)


def test_lstm_without_biases(dev):
    m = nn.LSTM(2, 3, 2, bias=False)
    x = torch.randn(4, 2)
    want, got = m(x), copy.deepcopy(m).to(dev)(x.to(dev))
    for w, g in zip((want[0], *want[1]), (got[0], *got[1])):
        torch.testing.assert_close(g.cpu(), w, rtol=1e-4, atol=1e-5)


def test_attention_whose_weights_nobody_wants(dev):
    m = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        want, got = m(x, x, x, need_weights=False), copy.deepcopy(m).to(dev)(*[x.to(dev)] * 3, need_weights=False)
    torch.testing.assert_close(got[0].cpu(), want[0], rtol=1e-4, atol=1e-5)
    assert got[1] is None and want[1] is None
