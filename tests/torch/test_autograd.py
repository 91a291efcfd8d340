"""Gradients: those of the CPU, through views, in-place writes, hooks, double backward and functional transforms."""
import torch
from torch.nn import functional as F


def both(dev, f, *inputs):
    """Runs f(*inputs) -> scalar on dev and CPU and compares value and gradients."""
    grads = []
    for d in (dev, "cpu"):
        xs = [x.detach().to(d).requires_grad_() for x in inputs]
        y = f(*xs)
        y.backward()
        grads.append([y.detach().cpu()] + [x.grad.cpu() for x in xs])
    for g, w in zip(*grads):
        torch.testing.assert_close(g, w)


def test_common_functions(dev):
    a, b = torch.randn(4, 5), torch.randn(5, 3)
    both(dev, lambda x, y: (x @ y).tanh().square().sum(), a, b)
    both(dev, lambda x: F.softmax(x, -1).log().mean() + F.gelu(x).sum(), a)
    both(dev, lambda x: x.exp().sum(0).logsumexp(0) + x.std() + x.norm(), a)
    both(dev, lambda x: F.layer_norm(x, (5,)).square().sum() + x.cumsum(1).amax(), a)
    both(dev, lambda x, y: torch.einsum("ij,jk->ik", x, y).abs().sum() + torch.cat([x, y.t()], 0).sigmoid().sum(), a, b)
    both(
        dev,
        lambda x: F.conv2d(x, torch.ones(2, 1, 3, 3, device=x.device), padding=1).relu().sum(),
        torch.randn(2, 1, 5, 5),
    )
    both(dev, lambda x: F.max_pool2d(x, 2).sum() + F.avg_pool2d(x, 2).square().sum(), torch.randn(1, 2, 6, 6))
    both(
        dev,
        lambda x: x[torch.tensor([0, 2, 0], device=x.device)].square().sum()
        + x.gather(1, torch.tensor([[0], [1], [2], [3]], device=x.device)).sum(),
        a,
    )
    both(dev, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear").square().sum(), torch.randn(1, 1, 3, 3))
    both(dev, lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2, 4], device=x.device), label_smoothing=0.1), a)


def test_in_place_on_views(dev):
    def f(x):
        h = x * 2
        h[:, 1:3] = 0
        h.t()[0].mul_(3)
        return h.square().sum()

    both(dev, f, torch.randn(3, 4))


def test_double_backward(dev):
    x = torch.randn(3, device=dev, requires_grad=True)
    (g,) = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
    g.sum().backward()
    torch.testing.assert_close(x.grad, 6 * x.detach())


def test_hooks_retain_and_accumulate(dev):
    x = torch.ones(2, device=dev, requires_grad=True)
    seen = []
    h = x * 3
    h.retain_grad()
    h.register_hook(lambda g: seen.append(g) or g * 2)
    h.sum().backward()
    (x * 1).sum().backward()
    assert x.grad.tolist() == [7, 7] and seen[0].tolist() == [1, 1]


def test_custom_function(dev):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 + 0 * x

    x = torch.ones(3, device=dev, requires_grad=True)
    Twice.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_modes(dev):
    x = torch.ones(2, device=dev, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        y = x * 2
    assert y.is_inference() and y.tolist() == [2, 2]


def test_gradcheck(dev):
    x = torch.randn(3, 2, dtype=torch.float64, device=dev, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: (t.sin() * t.t().reshape(3, 2)).sum(0), (x,))


def test_functional_transforms(dev):
    x = torch.randn(4, 3, device=dev)
    f = lambda r: (r ** 2).sum()  # noqa: E731
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(f))(x), 2 * x)
    torch.testing.assert_close(torch.func.jacrev(torch.sin)(x[0]), torch.diag(x[0].cos()))
    value, tangent = torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))
    torch.testing.assert_close(tangent, x.cos())


def test_in_place_error_wording(dev):
    x = torch.ones(2, device=dev, requires_grad=True)
    y = x.exp()
    y.add_(1)
    try:
        y.sum().backward()
    except RuntimeError as e:
        assert "modified by an inplace operation" in str(e) and "version" in str(e)
    else:
        raise AssertionError("a stale saved tensor was not noticed")
