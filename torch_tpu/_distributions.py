"""Decompositions for torch.distributions: Dirichlet samples, and how gamma and beta samples move with their parameters.

A sample x of a distribution function F(x; a) moves by -(dF/da) / (dF/dx) when its uniform number is held (implicit
reparameterization, Figurnov et al. 2018). F is an integral of the density p, so dF/da is the integral of p(t) (log t -
E log t) from the end of the range to x, or its negative from x to the other end. Taken on the side of x that is away
from the density's peak nothing cancels, and in the logarithm of t (of its odds, for beta) the integrand is exp of a
concave function that falls from 0: double exponential quadrature with a fixed number of nodes is exact to rounding.
Where x lies closer to an end of the range than the quadrature's scale, a power series stands in."""
import torch

from ._registry import decomposes, wide


def _integral(f, scale):
    """The integral of f(w) over w > 0, for f that falls over about scale; nodes are w = scale exp(s - exp(-s)), s at
    equal steps (Takahasi and Mori 1974)."""
    step, nodes, first = (0.11, 72, -3.9) if scale.dtype == torch.float64 else (0.2, 32, -3.1)
    s = torch.arange(nodes, device=scale.device, dtype=scale.dtype) * step + first
    s = s.reshape(-1, *[1] * scale.dim())
    w = (s - (-s).exp()).exp()
    return (f(w * scale) * (w * (1 + (-s).exp()) * step)).sum(0) * scale


def _terms(x):
    return 48 if x.dtype == torch.float64 else 24


def _exp_beyond_linear(z):
    """exp(z) - 1 - z."""
    small = torch.full_like(z, 1 / 13)
    for k in range(12, 2, -1):
        small = (1 + z * small) / k
    return torch.where(z.abs() < 0.5, z * z * 0.5 * (1 + z * small), z.expm1() - z)


# ---- gamma ----
@decomposes("_standard_gamma_grad")
def standard_gamma_grad(alpha, sample):
    a, x = wide(alpha), wide(sample)
    log_x, mean = x.log(), torch.digamma(a)
    # x < 1: the sum over n of t_n (digamma(a + n + 1) - log x), where t_n = x^(n+1) gamma(a) / gamma(a + n + 1).
    t, lead = x / a, mean + 1 / a - log_x
    series = t * lead
    for n in range(1, _terms(x) // 2):
        t = t * (x / (a + n))
        lead = lead + 1 / (a + n)
        series = series + t * lead
    sign = torch.where(x > a, 1.0, -1.0).to(x.dtype)
    apart = (x - a).abs()

    def f(w):
        return (-apart * w - x * _exp_beyond_linear(sign * w)).exp() * (sign * (log_x - mean) + w)

    grad = torch.where(x < 1, series, x * _integral(f, 1 / (apart + x.sqrt())))
    return torch.where(x == 0, 0.0, grad).to(alpha.dtype)


# ---- Dirichlet: each element of a sample is beta distributed ----
@decomposes("_sample_dirichlet")
def sample_dirichlet(alpha, generator=None):
    """Gamma samples divided by their sum; as logarithms, since those of small alpha underflow: gamma(a) = gamma(a + 1)
    u^(1/a)."""
    a = wide(alpha)
    u = torch.rand(a.shape, generator=generator, dtype=a.dtype, device=a.device)
    log_gamma = torch._standard_gamma(a + 1, generator).log() + (1 - u).log() / a
    info = torch.finfo(alpha.dtype)
    return log_gamma.softmax(-1).to(alpha.dtype).clamp(info.tiny, 1 - info.eps / 2)


def _near_zero(x, rest, a, b, mean):
    """(1 - t)^(b-1) as a power series, times t^(a-1) (mean - log t), integrated from 0 to x."""
    lead, power, total = mean - x.log(), torch.ones_like(x), torch.zeros_like(x)
    for n in range(_terms(x)):
        total = total + power * (lead + 1 / (a + n)) / (a + n)
        power = power * ((n + 1 - b) / (n + 1) * x)
    return x * (-b * torch.log1p(-x)).exp() * total


def _near_one(x, rest, a, b, mean):
    """t^(a-1) (log t - mean) as a power series in 1 - t, times (1 - t)^(b-1), integrated from x to 1."""
    power, slope, total = torch.ones_like(x), torch.zeros_like(x), torch.zeros_like(x)
    for n in range(_terms(x)):
        total = total + (slope - mean * power) / (b + n)
        power, slope = power * ((n + 1 - a) / (n + 1) * rest), (slope * (n + 1 - a) - power) / (n + 1) * rest
    return ((1 - a) * x.log()).exp() * total


@decomposes("_dirichlet_grad")
def dirichlet_grad(x, alpha, total):
    """The derivative of x by alpha, over 1 - x; x is beta(alpha, total - alpha)."""
    dtype, x, a, total = x.dtype, wide(x), wide(alpha), wide(total)
    b, rest, log_x = total - a, 1 - x, x.log()
    mean = torch.digamma(a) - torch.digamma(total)
    up = x * total > a  # the side that is integrated over
    p, power = torch.where(up, rest, x), torch.where(up, b, a)

    def f(w):
        away = torch.log1p(p * torch.expm1(-w))
        log_t = torch.where(up, log_x - away, log_x - w - away)
        return (-power * w - total * away).exp() * torch.where(up, log_t - mean, mean - log_t)

    grad = x * _integral(f, 1 / ((power - total * p).abs() + (total * x * rest).sqrt()))
    grad = torch.where((x <= 0.5) & (total * x <= 1), _near_zero(x, rest, a, b, mean), grad)
    return torch.where((x > 0.5) & (total * rest <= 1), _near_one(x, rest, a, b, mean), grad).to(dtype)
