"""Histograms and segments against the CPU: edges, weights, densities, values outside; lengths, offsets, gradients,
ties."""
import math

import pytest
import torch


pytestmark = pytest.mark.usefixtures("native")


def to(x, device):
    return [to(t, device) for t in x] if isinstance(x, list) else x.to(device) if isinstance(x, torch.Tensor) else x


def compare(fn, *args, **options):
    want = fn(*args, **options)
    got = fn(*(to(a, "tpu") for a in args), **{k: to(v, "tpu") for k, v in options.items()})
    for g, w in zip(got, want) if isinstance(want, tuple) else ((got, want),):
        if isinstance(w, (tuple, list)):
            for a, b in zip(g, w):
                torch.testing.assert_close(a.cpu(), b)
        else:
            torch.testing.assert_close(g.cpu(), w, equal_nan=True)


def test_histogram():
    x, w = torch.randn(7, 11), torch.rand(7, 11)
    compare(torch.histogram, x, 5)
    compare(torch.histogram, x.double(), 13, range=(-1.0, 0.5), weight=w.double(), density=True)
    compare(torch.histogram, torch.tensor([0.0, 0.25, 0.5, 1, 1.01, -0.01, math.nan]), 4, range=(0.0, 1.0))
    compare(torch.histogram, torch.full((5,), 2.0), 3)
    compare(torch.histogram, torch.empty(0), 3)
    compare(torch.histogram, torch.tensor([1.0, 1, 2]), torch.tensor([1.0, 1, 2, 2]))
    hist, edges = torch.empty(0, device="tpu"), torch.empty(0, device="tpu")
    torch.histogram(x.to("tpu"), 5, out=(hist, edges))
    torch.testing.assert_close(hist.cpu(), torch.histogram(x, 5).hist)


def test_histogram_of_many_dims():
    x, w = torch.randn(4, 9, 2), torch.rand(4, 9)
    compare(torch.histogramdd, x, [3, 4])
    compare(torch.histogramdd, x, [3, 4], weight=w, density=True)
    compare(torch.histogramdd, x, [2, 5], range=[-1.0, 1.0, -0.5, 2.0])
    compare(torch.histogramdd, x, [torch.tensor([-1.0, 0, 2]), torch.linspace(-2, 2, 6)], weight=w)


def test_what_a_histogram_refuses():
    for device in ("cpu", "tpu"):
        x = torch.ones(3, device=device)
        for args, words in [((x, 0), "bins must be > 0"), ((x, 2, (2.0, 1.0)), "min should not exceed max"),
                            ((x, 2, (0.0, math.inf)), "is not finite")]:
            with pytest.raises(RuntimeError, match=words):
                torch.histogram(args[0], args[1], range=args[2] if len(args) > 2 else None)


@pytest.mark.parametrize("how", ["sum", "mean", "max", "min", "prod"])
def test_segments(how):
    x = torch.tensor([2.0, 0, 3, 0, math.nan, 0, -1, 5, 5])
    for data in (x, torch.randn(9, 2, 3)):
        for options in ({"lengths": torch.tensor([3, 0, 1, 2, 1, 2])}, {"offsets": torch.tensor([1, 3, 3, 7])},
                        {"lengths": torch.tensor([3, 1]), "unsafe": True, "initial": 0.5}):
            results = []
            for device in ("cpu", "tpu"):
                leaf = data.detach().to(device).clone().requires_grad_()
                y = torch.segment_reduce(leaf, how, **{k: to(v, device) for k, v in options.items()})
                y.backward(torch.linspace(-1, 2, y.numel(), device=device).view(y.shape))
                results.append((y.detach().cpu(), leaf.grad.cpu()))
            torch.testing.assert_close(results[1][0], results[0][0], equal_nan=True)
            if "offsets" not in options:  # the CPU leaves what no segment holds uninitialised
                torch.testing.assert_close(results[1][1][:4], results[0][1][:4], equal_nan=True)
    compare(torch.segment_reduce, torch.randn(2, 5, 3), how, lengths=torch.tensor([[1, 4, 0], [2, 2, 1]]), axis=1)


def test_lengths_that_do_not_fit_are_refused():
    for device in ("cpu", "tpu"):
        for lengths, words in [([1, 2], "sum to data.size"), ([-1, 5], "negative value")]:
            with pytest.raises(RuntimeError, match=words):
                torch.segment_reduce(torch.ones(4, device=device), "sum", lengths=torch.tensor(lengths, device=device))


def test_hashes():
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.bool, torch.int64):
        x = torch.randn(3, 4, 5).mul(50).to(dtype)
        for dim in ((), (1,), (0, 2)):
            want, got = torch.hash_tensor(x, dim), torch.hash_tensor(x.to("tpu"), dim)
            assert got.cpu().view(torch.int64).equal(want.view(torch.int64))


def test_bilinear_and_its_gradients():
    results = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(1)
        layer = torch.nn.Bilinear(3, 4, 5)
        x, y = torch.randn(2, 6, 3), torch.randn(2, 6, 4)
        layer, x, y = layer.to(device), x.to(device).requires_grad_(), y.to(device).requires_grad_()
        z = layer(x, y)
        results.append([t.detach().cpu() for t in (z, *torch.autograd.grad(z.square().sum(), [x, y, layer.weight]))])
    for got, want in zip(results[1], results[0]):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "view", [lambda b: b.view(4, 6), lambda b: b.view(4, 6).t(), lambda b: b[3:].view(3, 7)[:, ::2]]
)
def test_copies_through_strides_of_views(view):
    base = torch.arange(24.0)
    compare(
        lambda b: torch.as_strided_scatter(view(b), torch.full((2, 2), -1.0, device=b.device), (2, 2), (3, 1), 5), base
    )
    compare(lambda b: torch.as_strided_copy(view(b), (2, 3), (1, 2), 4), base)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_histc_rounds_as_the_cpu_does(dtype):
    torch.manual_seed(0)
    x = (torch.randn(400) * 6).to(dtype)
    for bins, low, high in ((100, -10, 0), (100, 0, 10), (37, -3, 8), (7, 0, 0)):
        assert torch.histc(x.to("tpu"), bins, low, high).cpu().equal(torch.histc(x, bins, low, high))


def test_segments_along_another_dim_are_contiguous():
    lengths = torch.tensor([[1, 2, 0, 2], [5, 0, 0, 0]])
    for dims in ((2, 5), (2, 5, 3)):
        x = torch.randn(dims)
        y = torch.segment_reduce(x.to("tpu"), "max", lengths=lengths.to("tpu"), axis=1, initial=0)
        assert y.stride() == torch.segment_reduce(x, "max", lengths=lengths, axis=1, initial=0).stride()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_histc_of_integers_is_that_of_cuda(dtype):
    """As transformers counts tokens of experts on every device but the CPU: (x - min) * bins // (max - min)."""
    x = torch.tensor([0, 1, 1, 2, 7, 7, 5, 100, 3], dtype=dtype)
    for bins, low, high in ((8, 0, 8), (8, 0, 7), (3, 1, 6), (5, 0, 0), (4, 100, 100)):
        got = torch.histc(x.to("tpu"), bins, low, high)
        a, b = (x.min().item(), x.max().item()) if low == high else (low, high)
        a, b = (a - 1, b + 1) if a == b else (a, b)
        places = [min((v - a) * bins // (b - a), bins - 1) for v in x.tolist() if a <= v <= b]
        assert got.dtype == dtype and got.tolist() == [places.count(i) for i in range(bins)]
    with pytest.raises(RuntimeError, match="cannot be converted to type"):
        torch.histc(x.to("tpu"), 4, 0, 2.0**70)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        torch.histc(x.bool().to("tpu"))
