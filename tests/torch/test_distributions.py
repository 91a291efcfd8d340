"""torch.distributions: samples have the CPU's moments, their gradients its values, and nothing runs on the CPU."""
import pytest
import torch
from torch import distributions as D

pytestmark = pytest.mark.usefixtures("native")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_of_gamma_samples(dev, dtype):
    alpha = torch.cat([torch.rand(300) * 3 + 1e-2, torch.rand(300) * 20, 10 ** (torch.rand(300) * 4)]).to(dtype)
    x = torch._standard_gamma(alpha)
    y = torch._standard_gamma_grad(alpha.to(dev), x.to(dev)).cpu()
    # the CPU's formula is good for that
    torch.testing.assert_close(y, torch._standard_gamma_grad(alpha, x), rtol=1e-3, atol=1e-6)
    assert torch._standard_gamma_grad(alpha.to(dev), torch.zeros_like(x).to(dev)).eq(0).all()


def test_gradient_of_gamma_samples_in_double_precision(dev):
    """Against differences of the inverse distribution function, by SciPy: closer than the CPU's formula is."""
    special = pytest.importorskip("scipy.special")
    alpha = torch.linspace(0.3, 12, 200, dtype=torch.float64)
    x = torch._standard_gamma(alpha)
    a, step = alpha.numpy(), 1e-5 * alpha.numpy()
    u = special.gammainc(a, x.numpy())
    expected = torch.from_numpy((special.gammaincinv(a + step, u) - special.gammaincinv(a - step, u)) / (2 * step))
    torch.testing.assert_close(
        torch._standard_gamma_grad(alpha.to(dev), x.to(dev)).cpu(), expected, rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_of_dirichlet_samples(dev, dtype):
    a, b = (10 ** (torch.rand(600, dtype=torch.float64) * 4 - 1.5) for _ in range(2))
    x = D.Beta(a, b).sample()
    kept = (x > 1e-12) & (x < 0.999)
    x, a, total = x[kept].to(dtype), a[kept].to(dtype), (a + b)[kept].to(dtype)
    y = torch._dirichlet_grad(x.to(dev), a.to(dev), total.to(dev)).cpu()
    torch.testing.assert_close(y, torch._dirichlet_grad(x, a, total), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: D.Gamma(p, 2 * torch.ones_like(p)),
        lambda p: D.Beta(p, torch.ones_like(p)),
        lambda p: D.Dirichlet(p.reshape(-1, 4)),
        lambda p: D.StudentT(p + 4),
        lambda p: D.VonMises(p, p),
    ],
    ids=["gamma", "beta", "dirichlet", "t", "von_mises"],
)
def test_samples_have_the_means_of_the_cpu(dev, make):
    means = []
    for device in ("cpu", dev):
        p = torch.full((4000,), 1.5, device=device, requires_grad=True)
        d = make(p)
        x = d.rsample() if d.has_rsample else d.sample()
        gradient = torch.autograd.grad(x.square().sum(), p)[0] if d.has_rsample else torch.zeros_like(x)
        means.append(torch.stack([x.detach().mean(), gradient.mean()]).cpu())
        assert d.log_prob(x.detach()).isfinite().all()
    torch.testing.assert_close(means[1], means[0], rtol=0.15, atol=0.1)


def test_dirichlet_of_small_concentrations(dev):
    x = torch._sample_dirichlet(torch.full((50, 4), 1e-4, device=dev))
    torch.testing.assert_close(x.sum(-1).cpu(), torch.ones(50))
    g = torch.Generator(dev).manual_seed(3)
    alpha = torch.rand(3, 4, device=dev)
    first = torch._sample_dirichlet(alpha, generator=g)
    assert not torch.equal(first, torch._sample_dirichlet(alpha, generator=g))
    assert torch.equal(first, torch._sample_dirichlet(alpha, generator=g.manual_seed(3)))
