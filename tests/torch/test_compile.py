"""torch.compile(backend="tpu"): one program for a graph, and eager's values."""
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.tpu


def test_a_function_is_one_execution(counted):
    f = torch.compile(lambda x, y: ((x @ y).relu() + 1).sum(0).softmax(0), backend="tpu")
    x, y = torch.randn(4, 5, device="tpu"), torch.randn(5, 3, device="tpu")
    f(x, y)
    with counted() as c:
        got = f(x, y)
    assert c.executions == 1 and c.built == 0
    torch.testing.assert_close(got.cpu(), ((x.cpu() @ y.cpu()).relu() + 1).sum(0).softmax(0))


def test_training_in_a_compiled_module():
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).to("tpu")
    c = torch.compile(m, backend="tpu")
    x = torch.randn(5, 3, device="tpu")
    m(x).square().sum().backward()
    want = [p.grad.cpu().clone() for p in m.parameters()]
    m.zero_grad()
    c(x).square().sum().backward()
    for p, w in zip(m.parameters(), want):
        torch.testing.assert_close(p.grad.cpu(), w, rtol=1e-4, atol=1e-5)


def test_mutation_views_and_graph_breaks():
    def f(x, out):
        out[1:].add_(x)
        if x.sum() > 0:  # a graph break
            return out.t() * 2
        return out

    out = torch.zeros(3, 2, device="tpu")
    got = torch.compile(f, backend="tpu")(torch.ones(2, 2, device="tpu"), out)
    assert out.tolist() == [[0, 0], [1, 1], [1, 1]] and got.tolist() == [[0, 2, 2], [0, 2, 2]]


def test_dropout_in_compiled_code():
    f = torch.compile(lambda x: nn.functional.dropout(x, 0.5), backend="tpu")
    x = torch.ones(512, device="tpu")
    torch.manual_seed(1)
    a, b = f(x).cpu(), f(x).cpu()
    torch.manual_seed(1)
    assert torch.equal(a, f(x).cpu()) and not torch.equal(a, b) and 100 < (a == 0).sum() < 400
