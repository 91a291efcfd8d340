"""Special functions against the CPU where they change formula: ends of intervals, large and negative degrees, far
arguments."""
import pytest
import torch

import torch_tpu

pytestmark = pytest.mark.usefixtures("native")

CHEBYSHEV = [f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"]
OTHERS = ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]


@pytest.mark.parametrize("name", CHEBYSHEV + OTHERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_polynomials(name, dtype):
    fn = getattr(torch.special, name)
    x = torch.tensor([-3.0, -1.5, -1, -0.9, -0.3, 0, 0.2, 0.5, 0.97, 1, 1.25, 6], dtype=dtype)
    n = torch.tensor([-2, -0.5, 0, 1, 2, 3, 4.9, 5, 6, 7, 8, 9, 12, 23], dtype=dtype)
    want, got = fn(x[:, None], n), fn(x[:, None].to("tpu"), n.to("tpu"))
    limits = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(got.cpu(), want, **limits)


def test_forms_of_polynomials():
    fn = torch.special.legendre_polynomial_p
    x, degrees = torch.linspace(-2, 2, 12), torch.arange(12)
    torch.testing.assert_close(fn(x.to("tpu"), 5).cpu(), fn(x, 5))
    torch.testing.assert_close(fn(0.3, degrees.to("tpu")).cpu(), fn(0.3, degrees))
    torch.testing.assert_close(fn(x.to("tpu"), degrees.to("tpu")).cpu(), fn(x, degrees))  # integers are promoted
    out = torch.empty(0, device="tpu")
    fn(x.to("tpu"), degrees.to("tpu"), out=out)
    torch.testing.assert_close(out.cpu(), fn(x, degrees))


def test_polynomials_at_the_edge_of_what_they_take():
    far = torch.tensor([0.5, 1.5, -7])
    degree = torch.tensor([float("nan"), float("inf"), 1000])
    for name in ("chebyshev_polynomial_t", "hermite_polynomial_h", "shifted_chebyshev_polynomial_u"):
        fn = getattr(torch.special, name)
        torch.testing.assert_close(fn(far.to("tpu"), degree.to("tpu")).cpu(), fn(far, degree), equal_nan=True)
        assert fn(far.new_empty(0, 3).to("tpu"), 4).shape == (0, 3)


def test_one_program_serves_every_degree():
    x = torch.linspace(-2, 2, 7, device="tpu")
    torch.special.legendre_polynomial_p(x, torch.full((7,), 3.0, device="tpu"))
    before = torch_tpu.counters()["compiles"]
    torch.special.legendre_polynomial_p(x, torch.full((7,), 3.0, device="tpu") * 5)
    assert torch_tpu.counters()["compiles"] <= before + 1  # the multiplication's


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_airy(dtype):
    airy = pytest.importorskip("scipy.special").airy
    near = torch.linspace(-12, 12, 241, dtype=dtype)
    far = torch.tensor(
        [float("inf"), -float("inf"), float("nan"), 103, 104, 30, -40, 2, -2, 2.09, -2.09, 0, -0.0], dtype=dtype
    )
    for x in (near, far):
        want = torch.from_numpy(airy(x.double().numpy())[0])  # torch's own is off by 3e-6 near -2.09
        want[x > 103.892] = 0  # as torch has it
        want[x.isinf()] = float("nan")
        limits = {"rtol": 1e-4, "atol": 2e-6} if dtype == torch.float32 else {"rtol": 1e-11, "atol": 1e-14}
        got = torch.special.airy_ai(x.to("tpu"))
        assert got.dtype == dtype
        torch.testing.assert_close(got.cpu().double(), want, equal_nan=True, **limits)


@pytest.mark.parametrize("name", ["bessel_j0", "bessel_y1"])
def test_bessel_functions_are_those_of_scipy(name):
    scipy = pytest.importorskip("scipy.special")
    x = torch.linspace(0.05, 60, 400, dtype=torch.float64)
    want = torch.from_numpy(getattr(scipy, name.removeprefix("bessel_"))(x.numpy()))
    got = getattr(torch.special, name)(x.to("tpu")).cpu()
    torch.testing.assert_close(got, want, rtol=1e-12, atol=2e-15)
    # torch's own on the CPU, which conformance/reasons.py tells of
    assert (getattr(torch.special, name)(x) - want).abs().max() > 1e-7


def test_running_logsumexp_is_rounded_once():
    torch.manual_seed(0)
    x = torch.randn(3, 200) * 9
    x[0, 7], x[1, :5], x[2, 100] = float("nan"), -float("inf"), float("inf")
    want, got = x.logcumsumexp(1), x.to("tpu").logcumsumexp(1).cpu()
    torch.testing.assert_close(got, want, rtol=1.2e-7, atol=0, equal_nan=True)
    assert (got != want).logical_and(got == got).float().mean() < 0.02
