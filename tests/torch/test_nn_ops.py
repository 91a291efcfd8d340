"""Operators of neural networks that read, pool, pad or sum where another tensor says: values, gradients and strides as
the CPU's."""
import itertools

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("native")


def both(fn, tensors, dev, grad=True):
    """fn of the tensors on the CPU and on the device, each with its results and the gradients of those that want
    one."""

    def one(device):
        mine = [
            t.to(device).requires_grad_(grad and t.is_floating_point()) if isinstance(t, torch.Tensor) else t
            for t in tensors
        ]
        results = fn(*mine)
        results = [results] if isinstance(results, torch.Tensor) else list(results)
        wanted = [t for t in mine if isinstance(t, torch.Tensor) and t.requires_grad]
        outs = [r for r in results if r.requires_grad]
        if outs and wanted:
            weights = [torch.arange(r.numel(), dtype=r.dtype).reshape(r.shape).sin().to(device) for r in outs]
            results += torch.autograd.grad(outs, wanted, weights, allow_unused=True)
        return results

    return one("cpu"), one(dev)


def agree(fn, *tensors, dev, grad=True, tol=1e-4):
    want, got = both(fn, tensors, dev, grad)
    assert len(want) == len(got)
    for w, g in zip(want, got):
        assert (w is None) == (g is None)
        if w is not None:
            assert (g.dtype, g.shape, g.stride()) == (w.dtype, w.shape, w.stride())
            torch.testing.assert_close(g.cpu(), w, rtol=tol if w.is_floating_point() else 0, atol=tol, equal_nan=True)


# ---- grid_sample ----
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_in_two_and_three_dims(dev, mode, padding, align):
    solid = mode != "bicubic" and (padding == "reflection") == align  # three dims for some
    image, grid = ((1, 2, 4, 5, 3), (1, 2, 3, 4, 3)) if solid else ((2, 3, 5, 4), (2, 3, 6, 2))
    x, g = torch.randn(image), torch.rand(grid) * 3 - 1.5
    agree(lambda x, g: F.grid_sample(x, g, mode, padding, align), x.double(), g.double(), dev=dev, tol=1e-9)


def test_grid_sample_of_nan_halves_and_nothing(dev):
    x, g = torch.randn(2, 3, 5, 4), torch.rand(2, 3, 6, 2) * 2 - 1
    g[0, 0, 0, 0], g[0, 1, 0, 1] = float("nan"), float("inf")
    agree(lambda x, g: F.grid_sample(x, g, "bilinear", "border", False), x, g, dev=dev, grad=False)
    agree(lambda x, g: F.grid_sample(x[:, :, :1], g, "bilinear", "reflection", True), x, g.nan_to_num(), dev=dev)
    agree(
        lambda x, g: F.grid_sample(x, g, align_corners=True), torch.randn(0, 3, 5, 4), torch.randn(0, 3, 6, 2), dev=dev
    )
    agree(
        lambda x, g: F.grid_sample(x, g, align_corners=True),
        x[:, :, ::2, 1:],
        g.transpose(1, 2).clamp(-1, 1).nan_to_num(),
        dev=dev,
    )


# ---- fractional max pooling ----
def test_fractional_max_pool_takes_its_samples(dev):
    for n, shape in ((2, (2, 3)), (3, (3,))):
        x = torch.randn(*shape, *[7, 6, 8][:n])
        x.view(-1)[::11] = float("nan")
        pool = F.fractional_max_pool2d if n == 2 else F.fractional_max_pool3d
        for dtype, out in ((torch.float64, 3), (torch.float32, 1)):
            samples = torch.rand(shape[0] if len(shape) == 2 else 1, 3, n, dtype=dtype)
            agree(
                lambda x: pool(x, 2, [out] * n, return_indices=True, _random_samples=samples.to(x.device)),
                x.to(dtype),
                dev=dev,
            )
    empty = torch.randn(0, 1, 4, 5, 4)
    agree(
        lambda x: F.fractional_max_pool3d(x, 2, 2, _random_samples=torch.rand(0, 1, 3, device=x.device)), empty, dev=dev
    )


def test_adaptive_max_pool_of_dims_that_stay(dev):
    for out in ((3, None), (None, 4), (5, 6), (None, None)):
        agree(lambda x: F.adaptive_max_pool2d(x, out, return_indices=True), torch.randn(2, 3, 5, 6), dev=dev)
    agree(lambda x: F.adaptive_max_pool3d(x, (2, None, None), return_indices=True), torch.randn(2, 5, 4, 3), dev=dev)


# ---- padding ----
@pytest.mark.parametrize("mode", ["replicate", "reflect"])
def test_padding_that_crops(dev, mode):
    for pad in ((-1, 2), (2, -3), (-2, -1), (-4, 3), (-5, 3) if mode == "replicate" else (3, -4)):
        agree(lambda x: F.pad(x, pad, mode), torch.randn(2, 3, 5), dev=dev)
    agree(lambda x: F.pad(x, (1, 0, -2, 1), mode), torch.randn(2, 3, 5, 4), dev=dev)


# ---- embedding bags ----
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(dev, mode):
    indices = torch.tensor([1, 2, 2, 5, 0, 2, 1])
    for last, padding, weighted, n in itertools.product((False, True), (None, 2), {False, mode == "sum"}, (0, 7)):
        if n == 0 and (last or padding):
            continue
        offsets = torch.tensor([0, 3, 3, 4] if n else [0, 0])
        if last:
            offsets = torch.cat([offsets, torch.tensor([n])])

        def bag(w, i, o, *p):
            return F.embedding_bag(
                i,
                w,
                o,
                mode=mode,
                include_last_offset=last,
                padding_idx=padding,
                per_sample_weights=p[0] if p else None,
            )

        extra = [torch.rand(n)] if weighted else []
        agree(bag, torch.randn(6, 4), indices[:n], offsets, *extra, dev=dev)
    agree(
        lambda w, i: F.embedding_bag(i, w, mode=mode),
        torch.randn(6, 4),
        torch.tensor([[1, 2], [2, 2], [0, 5]], dtype=torch.int32),
        dev=dev,
    )


def test_embedding_bag_scales_gradients_by_frequency(dev):
    indices, weight = torch.tensor([[1, 2], [2, 2], [0, 5]]), torch.randn(6, 4)
    on = weight.to(dev).requires_grad_()
    F.embedding_bag(indices.to(dev), on, mode="sum", scale_grad_by_freq=True).sum().backward()
    plain = weight.clone().requires_grad_()
    F.embedding(indices, plain, scale_grad_by_freq=True).sum().backward()
    torch.testing.assert_close(on.grad.cpu(), plain.grad)


def test_embedding_renormalizes_rows_it_reads(dev):
    weight, indices = torch.randn(6, 4) * 3, torch.tensor([[1, 2], [2, 5]])
    other = weight.clone().to(dev)
    F.embedding(indices, weight, max_norm=1.5, norm_type=1.0)
    F.embedding(indices.to(dev), other, max_norm=1.5, norm_type=1.0)
    torch.testing.assert_close(other.cpu(), weight)


# ---- ctc_loss ----
@pytest.mark.parametrize("flat", [False, True])
def test_ctc_loss_of_unreachable_repeated_and_empty_targets(dev, flat):
    x = torch.randn(6, 4, 5, dtype=torch.float64).log_softmax(2)
    inputs, lengths = [6, 4, 2, 5], [3, 2, 3, 0]
    targets = torch.randint(1, 5, (4, 3))
    targets[0] = 2  # repeated labels need blanks between them
    if flat:
        targets = torch.cat([targets[b, :n] for b, n in enumerate(lengths)])
    for reduction, zero in (("none", False), ("mean", True)):  # the third sample has no path
        agree(lambda x, t: F.ctc_loss(x, t, inputs, lengths, 0, reduction, zero), x, targets, dev=dev, tol=1e-9)
    agree(
        lambda x, t, i, n: F.ctc_loss(x, t, i, n, 4),
        x,
        targets % 4,
        torch.tensor(inputs),
        torch.tensor(lengths),
        dev=dev,
        grad=False,
    )


@pytest.mark.tpu
def test_ctc_loss_compiles_once_for_all_lengths(dev, counted):
    def loss(k):
        x = torch.randn(12, 2, 5).log_softmax(2).to(dev).requires_grad_()
        F.ctc_loss(x, torch.randint(1, 5, (2, 4)).to(dev), [12 - k, 9], [4, 3 - k]).backward()

    loss(0)
    with counted() as c:
        loss(1)
        loss(2)
    assert c.built == 0


def test_ctc_loss_refuses_lengths_beyond_its_operands(dev):
    x, t = torch.randn(5, 2, 4).to(dev), torch.ones(2, 2, dtype=torch.long).to(dev)
    with pytest.raises(RuntimeError, match="Expected input_lengths to have value at most 5, but got value 6"):
        F.ctc_loss(x, t, [6, 5], [2, 2])


def test_grid_places_are_rounded_as_the_cpu_does(dev):
    """No compiler may round a product and a sum once: of 20 elements with 11 channels the gradient would show it."""
    from torch_tpu._grid import _taps
    torch.manual_seed(0)
    x = torch.rand(20000) * 2 - 1
    for size in (11, 13):
        fn = lambda x: _taps(x, size, 0, 2, False, size - 1).weight
        assert torch.compile(fn, backend="tpu")(x.to(dev)).cpu().equal(fn(x))


@pytest.mark.parametrize("kind", ["rows", "columns", "inner", "batch"])
def test_grouped_products_are_those_of_each_group(kind):
    """Groups of no rows, and infinities that belong to another group."""
    groups, m, k, n = 4, 24, 16, 32
    offs = (
        None
        if kind == "batch"
        else torch.tensor([7, 7, 20, {"rows": m, "columns": n, "inner": k + 8}[kind]], dtype=torch.int32)
    )
    torch.manual_seed(0)
    k = 24 if kind == "inner" else k
    a = torch.randn(*((m, k) if kind in ("rows", "inner") else (groups, m, k))).bfloat16()
    b = torch.randn(*((k, n) if kind in ("columns", "inner") else (groups, k, n))).bfloat16()
    if kind == "rows":
        b[2, 0, 0] = float("inf")
    results = []
    for device in ("cpu", "tpu"):
        x, y = (t.detach().to(device).requires_grad_() for t in (a, b))
        out = torch._grouped_mm(x, y, offs=None if offs is None else offs.to(device))
        out.float().nan_to_num(0, 0, 0).square().sum().backward()
        results.append([t.detach().cpu() for t in (out, x.grad, y.grad)])
    for mine, theirs in zip(results[1], results[0]):
        torch.testing.assert_close(mine, theirs, equal_nan=True)
