"""What a compiled graph returns: views in other dtypes, lazy conjugates, and who shares memory with whom."""
import pytest
import torch

pytestmark = [pytest.mark.tpu, pytest.mark.usefixtures("fresh_dynamo")]
Z, X = torch.randn(3, 4, dtype=torch.complex64), torch.randn(4, 6)

VIEWS = {  # y and views of it
    "as real": (lambda y: [torch.view_as_real(y)[1:]], Z),
    "as complex": (lambda y: [torch.view_as_complex(y.view(4, 3, 2))], X),
    "real and imaginary": (lambda y: [y.real, y.imag[1:]], Z),
    "conjugate": (lambda y: [y.conj(), y.mH, y.conj()[1:].imag], Z),
    "bits": (lambda y: [y.view(torch.int32), y.view(torch.int16).split(2)[1], y.view(torch.float64)], X),
    "slices": (lambda y: [y[1:], y.t()], X),
}


def compiled(f, **kwargs):
    return torch.compile(f, backend="tpu", fullgraph=True, **kwargs)


def same(got, want):
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    torch.testing.assert_close(
        got.cpu().resolve_conj().resolve_neg(), want.resolve_conj().resolve_neg(), equal_nan=True
    )


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory_with_what_they_view(name):
    views, x = VIEWS[name]

    def f(x):
        y = x * 2
        return [y, *views(y)]

    got, want = compiled(f)(x.to("tpu")), f(x)
    for g, w in zip(got, want, strict=True):
        same(g, w)
    for y in (got[0], want[0]):
        y.fill_(3)
    for g, w in zip(got, want, strict=True):
        same(g, w)


def test_a_view_alone_has_its_own_dtype_and_conjugates_are_resolved():
    for f, x in (
        (lambda x: (x * 2).view(torch.int32), X),
        (lambda z: (z * 2).conj(), Z),
        (lambda z: (z * 2j).conj().imag, Z),
        (torch.fft.ifft, X),
        (lambda x: torch.fft.ihfft2(x, dim=0) if x.dim() == 1 else torch.fft.ihfftn(x), X),
    ):
        torch._dynamo.reset()
        same(compiled(f)(x.to("tpu")), f(x))


def test_views_in_other_dtypes_of_varying_sizes():
    c = compiled(
        lambda x: [x * 2, (x * 2).view(torch.int32), *((y := x + 1), y.view(torch.int32).flatten()[2:].view(2, -1))],
        dynamic=True,
    )
    for n in (4, 6, 8):
        x = torch.randn(n, n)
        for g, w in zip(
            c(x.to("tpu")),
            [x * 2, (x * 2).view(torch.int32), x + 1, (x + 1).view(torch.int32).flatten()[2:].view(2, -1)],
        ):
            same(g, w)


def test_istft():
    z = torch.randn(10, 10, 6, dtype=torch.complex64)
    same(compiled(lambda z: torch.istft(z, n_fft=10, center=True))(z.to("tpu")), torch.istft(z, n_fft=10, center=True))
    for x, sizes, *rest in ((torch.randn(1, 6, 10), [10, 20], 1, 10, 2), (torch.randn(3, 1, 4, 2), [3, 5, 9], 2, 2, 2)):
        same(torch.ops.aten.unfold_backward(x.to("tpu"), sizes, *rest), torch.ops.aten.unfold_backward(x, sizes, *rest))
