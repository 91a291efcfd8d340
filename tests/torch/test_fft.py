"""Fourier transforms against the CPU: lengths, dims, norms, gradients, short-time transforms."""
import itertools

import pytest
import torch


pytestmark = pytest.mark.usefixtures("native")

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def tolerance(dtype):
    return {"rtol": 1e-4, "atol": 1e-4} if dtype in (torch.float32, torch.complex64) else {"rtol": 1e-11, "atol": 1e-11}


def compare(fn, *tensors):
    want, got = fn(*tensors), fn(*(t.to("tpu") for t in tensors))
    assert got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want, **tolerance(want.dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 7, 16, 101, 1009])
def test_lengths_odd_even_prime_and_one(dtype, n):
    x = torch.randn(3, n, dtype=dtype)
    compare(torch.fft.fft, x)
    compare(torch.fft.ifft, x)
    if not dtype.is_complex:
        compare(torch.fft.rfft, x)
        compare(lambda t: torch.fft.irfft(t, n=n), torch.fft.rfft(x))


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_norms_of_every_transform(norm):
    x = torch.randn(4, 5, 6)
    z = torch.randn(4, 5, 6, dtype=torch.complex64)
    for name in ("fft", "fft2", "fftn", "rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn"):
        compare(lambda t: getattr(torch.fft, name)(t, norm=norm), x)
    for name in ("fft", "ifft", "fft2", "ifftn", "hfft", "hfftn", "irfft", "irfft2", "irfftn"):
        compare(lambda t: getattr(torch.fft, name)(t, norm=norm), z)


def test_dims_in_any_order_and_more_than_three():
    x = torch.randn(2, 3, 4, 5, 6)
    for dims in itertools.permutations(range(5), 2):
        compare(lambda t: torch.fft.rfftn(t, dim=dims), x)
    compare(torch.fft.fftn, x.to(torch.complex128))
    compare(torch.fft.rfftn, x.double())
    compare(lambda t: torch.fft.irfftn(t, s=x.shape), torch.fft.rfftn(x.double()))
    compare(lambda t: torch.fft.fft(t.transpose(0, 3), dim=1), x)


def test_zero_points_are_refused_and_empty_batches_are_not():
    x = torch.randn(0, 5, device="tpu")  # which MKL fails on
    assert torch.fft.rfft(x).shape == (0, 3) and torch.fft.fft(x).shape == (0, 5)
    assert torch.fft.irfft(x.to(torch.complex64)).shape == (0, 8) and torch.fft.ifft(x).shape == (0, 5)
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match="Invalid number of data points"):
            torch.fft.fft(torch.randn(5, 0, device=device))
        with pytest.raises(RuntimeError, match="Unsupported dtype"):
            torch.fft.fft(torch.randn(5, device=device).half())


def test_real_transform_ignores_what_a_real_signal_cannot_have():
    z = torch.randn(3, 5, dtype=torch.complex128)  # imaginary parts at frequencies 0 and n / 2
    compare(lambda t: torch.fft.irfft(t, n=8), z)
    compare(lambda t: torch.fft.irfft(t, n=9), z)
    compare(lambda t: torch.fft.irfftn(t, s=(3, 8)), z)


def test_gradients():
    for fn, dtype in [
        (torch.fft.rfftn, torch.float64),
        (torch.fft.fft, torch.float64),
        (torch.fft.ifft2, torch.complex128),
        (torch.fft.irfft, torch.complex128),
        (torch.fft.hfft, torch.complex128),
    ]:
        x = torch.randn(4, 6, dtype=dtype)
        grads = []
        for device in ("cpu", "tpu"):
            leaf = x.to(device).clone().requires_grad_()
            y = fn(leaf)
            (
                y * torch.linspace(0, 1, y.numel(), dtype=torch.float64, device=device).view(y.shape)
            ).abs().sum().backward()
            grads.append(leaf.grad.cpu())
        torch.testing.assert_close(grads[1], grads[0])


def test_short_time_transforms():
    x, window = torch.randn(2, 400), torch.hann_window(64)
    compare(lambda a, w: torch.stft(a, 64, 16, window=w, return_complex=True), x, window)
    s = torch.stft(x, 64, 16, window=window, return_complex=True)
    compare(lambda a, w: torch.istft(a, 64, 16, window=w, length=400), s, window)
    compare(lambda a, w: torch.stft(a, 64, 16, window=w, return_complex=True, onesided=False), x, window)
