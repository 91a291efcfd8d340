"""Results whose size depends on data: as CPU's in values, sizes, strides and bytes, and not a program for each size."""
import pytest
import torch

pytestmark = pytest.mark.usefixtures("native")

pytestmark = pytest.mark.tpu
DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.float64, torch.complex64]


def same(fn, *args, storage=True):
    """fn on the device gives what it gives on the CPU, laid out as there; returns what the device gave."""
    wanted = fn(*args)
    got = fn(*[a.to("tpu") if isinstance(a, torch.Tensor) else a for a in args])
    for w, g in zip(*[x if isinstance(x, (tuple, list)) else [x] for x in (wanted, got)], strict=True):
        assert g.device.type == "tpu" and g.dtype == w.dtype
        assert g.shape == w.shape and g.stride() == w.stride() and g.storage_offset() == w.storage_offset()
        if storage:
            assert g.untyped_storage().nbytes() == w.untyped_storage().nbytes()
        torch.testing.assert_close(g.cpu(), w, rtol=0, atol=0, equal_nan=True)
    return got


def refused_alike(fn, *args):
    words = []
    for device in ("cpu", "tpu"):
        with pytest.raises(Exception) as caught:
            fn(*[a.to(device) if isinstance(a, torch.Tensor) else a for a in args])
        words.append((type(caught.value), str(caught.value)))
    assert words[0] == words[1]


def values(shape, dtype=torch.float32):
    return torch.randint(-2, 3, shape).abs().to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero(dtype):
    for shape in [(), (7,), (3, 5), (2, 3, 4), (0, 3), (1, 1), (40, 130)]:
        same(torch.nonzero, values(shape, dtype))
    same(torch.nonzero, torch.zeros(3, 4, dtype=dtype))
    same(torch.nonzero, torch.ones(3, 4, dtype=dtype))


def test_nonzero_in_other_forms():
    x = values((4, 6))
    x[0, 0] = float("nan")
    same(lambda x: torch.where(x > 1), x)
    same(torch.argwhere, x)
    same(lambda x: torch.nonzero(x.t()), x)
    same(lambda x: torch.nonzero(x[:, ::2]), x)
    same(lambda x: torch.nonzero(x, as_tuple=True), x)
    same(lambda x: torch.nonzero(torch.complex(torch.zeros_like(x), x)), x)
    same(lambda x: torch.nonzero(x, out=torch.empty(0, dtype=torch.int64, device=x.device)), x, storage=False)
    refused_alike(lambda x: torch.nonzero(x, out=torch.empty(0, device=x.device)), x)


def test_nonzero_static():
    for shape in [(), (6,), (3, 4)]:
        for size in (0, 2, 30):
            same(lambda x: torch.nonzero_static(x, size=size, fill_value=7), values(shape))
    refused_alike(lambda x: torch.nonzero_static(x, size=-1), values((3,)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_select(dtype):
    x = values((6, 5, 4), dtype)
    for mask in (
        torch.rand(6) > 0.5,
        torch.rand(6, 5) > 0.5,
        torch.rand(6, 5, 4) > 0.5,
        torch.zeros(6) > 0,
        torch.ones(6) > 0,
    ):
        same(lambda x, mask: x[mask], x, mask)
    for mask in (torch.rand(5) > 0.5, torch.rand(5, 4) > 0.5, torch.zeros(5) > 0):
        same(lambda x, mask: x[:, mask], x, mask)
    same(torch.masked_select, x, torch.rand(6, 5, 4) > 0.3)
    same(torch.masked_select, x, torch.rand(5, 1) > 0.3)
    same(torch.masked_select, x[:, :1], torch.rand(6, 5, 4) > 0.3)
    same(torch.masked_select, x[0, 0, 0], torch.tensor(True))


def test_masks_over_views():
    x, mask = torch.randn(4, 6, 5), torch.tensor([True, False, True, True, False, True])
    for view in (lambda x: x.permute(1, 0, 2), lambda x: x.permute(1, 2, 0), lambda x: x.transpose(0, 1)[:, :, ::2],
                 lambda x: x.permute(1, 2, 0)[:, :1], lambda x: x[:1].expand(4, 6, 5).transpose(0, 1)):
        for m in (mask, torch.arange(6) == 2, mask | True):
            same(lambda x, m: view(x)[m], x, m)
    for view in (lambda x: x.transpose(0, 2), lambda x: x[::2], lambda x: x[:, :, 1:], lambda x: x[:, :, :1]):
        for m in (mask, torch.arange(6) == 2, mask | True):
            same(lambda x, m: view(x)[:, m], x, m)
    same(lambda x, m: x.permute(1, 2, 0)[m], x, mask & False)


def test_masks_with_other_indices():
    x, i = torch.randn(4, 6, 5), torch.tensor([0, 2])
    row, column = torch.tensor([True, False, True, False]), torch.tensor([True, False, True, True, False, True])
    same(lambda x, row: x[row, 1], x, row)
    same(lambda x, row, i: x[row, i], x, row, i)
    same(lambda x, row, i: x[row, :, i], x, row, i)
    same(lambda x, row, column: x[row, column[:4].nonzero()[:2, 0]], x, row, column)
    same(lambda x, row: x[row, None, ..., 0], x, row)
    same(lambda x: x[torch.tensor(True, device=x.device)], x)
    same(lambda x: x[x > 0], x)
    with pytest.warns(UserWarning, match="uint8"):
        assert x.to("tpu")[row.to("tpu", torch.uint8)].cpu().equal(x[row])
    assert x.to("tpu")[row].cpu().equal(x[row])  # a mask on the host

    def put(x, row, i):
        x = x.clone()
        x[row, i] = 7
        x[row] += 1
        x.index_put_((row, i), x.new_ones(2, 5), accumulate=True)
        return x

    same(put, x, row, i)
    out = torch.empty(0, device="tpu")
    torch.ops.aten.index.Tensor_out(x.to("tpu"), [row.to("tpu")], out=out)
    assert out.cpu().equal(x[row])


def test_masks_are_refused_as_on_the_cpu():
    x = torch.randn(3, 4)
    refused_alike(lambda x, m: x[m], x, torch.ones(4) > 0)
    refused_alike(lambda x, m: x[m], x, torch.ones(3, 4, 1) > 0)
    refused_alike(lambda x, m: x[:, m], x, torch.ones(3) > 0)
    refused_alike(torch.masked_select, x, torch.ones(3) > 0)
    refused_alike(torch.masked_select, x, torch.ones(3, 4))
    refused_alike(
        lambda x, m: torch.masked_select(x, m, out=torch.empty(0, dtype=torch.int32, device=x.device)), x, x > 0
    )


@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_unique(dtype):
    for shape in [(), (1,), (9,), (4, 6), (0, 3), (60, 50)]:
        x = values(shape, dtype)
        same(torch.unique, x)
        same(lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)
        same(lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), x)
        same(lambda x: torch._unique2(x, True, True), x)
        same(lambda x: torch._unique(x, True, False), x)
        for dim in range(len(shape) if 0 not in shape else 1):
            same(lambda x: torch.unique(x, dim=dim, return_inverse=True, return_counts=True), x)
            same(lambda x: torch.unique_consecutive(x, dim=dim, return_inverse=True, return_counts=True), x)


def test_unique_of_slices():
    x = torch.randint(0, 2, (3, 40, 2, 2))
    same(lambda x: torch.unique(x, dim=1, return_inverse=True, return_counts=True), x)
    same(lambda x: torch.unique(x.transpose(0, 1), dim=-4), x)
    same(lambda x: torch.unique(x, dim=-1, sorted=False), x)
    nan = float("nan")
    same(
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        torch.tensor([nan, 1, nan, -0.0, 0.0, 1, -1]),
    )
    same(lambda x: torch.unique_consecutive(x, return_counts=True), torch.tensor([nan, nan, 1, 1, 0.0, -0.0]))
    refused_alike(torch.unique, torch.ones(3, dtype=torch.complex64))
    refused_alike(lambda x: torch.unique(x, dim=0), torch.ones(3, dtype=torch.complex64))
    refused_alike(lambda x: torch.unique(x, dim=1), torch.ones(0, 3))
    refused_alike(lambda x: torch.unique(x, dim=0), torch.ones(0, 0))
    refused_alike(lambda x: torch.unique(x, dim=2), torch.ones(2, 3))


def test_repeat_interleave():
    repeats = torch.tensor([2, 0, 3, 1])
    same(torch.repeat_interleave, repeats)
    same(torch.repeat_interleave, repeats.int())
    same(torch.repeat_interleave, repeats[:0])
    same(torch.repeat_interleave, repeats * 0)
    same(lambda r: torch.repeat_interleave(r, output_size=6), repeats)
    for dim in (0, 1):
        same(lambda x, r: torch.repeat_interleave(x, r, dim), torch.randn(4, 4), repeats)
    same(lambda x: torch.repeat_interleave(x, 3), torch.randn(2, 2))
    refused_alike(torch.repeat_interleave, -repeats)
    refused_alike(torch.repeat_interleave, repeats.float())
    refused_alike(torch.repeat_interleave, repeats[None])
    refused_alike(lambda r: torch.repeat_interleave(r, output_size=5), repeats)
    refused_alike(torch.repeat_interleave, torch.randn(3), repeats)


def test_bincount():
    x = torch.tensor([1, 5, 1, 0])
    for t in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        same(torch.bincount, x.to(t))
    same(lambda x: torch.bincount(x, minlength=9), x)
    same(lambda x: torch.bincount(x, minlength=3), x[:0])
    for t in (torch.float32, torch.float64, torch.int32, torch.float16):
        same(torch.bincount, x, torch.tensor([1, 2, 3, 4]).to(t))
    refused_alike(torch.bincount, -x)
    refused_alike(torch.bincount, x.float())
    refused_alike(torch.bincount, x > 0)
    refused_alike(torch.bincount, x[None])
    refused_alike(lambda x: torch.bincount(x, minlength=-1), x)
    refused_alike(torch.bincount, x, torch.ones(2))


def test_gradients():
    def gradients(device):
        x = torch.arange(24.0, device=device).reshape(4, 6).requires_grad_()
        mask = (torch.arange(24) % 3 == 1).reshape(4, 6).to(device)
        repeats = torch.tensor([2, 0, 1, 3], device=device)
        y = (x[mask] ** 2).sum() + (x[:, mask[0]] ** 3).sum() + (x.masked_select(mask) * 5).sum()
        y = y + (x.repeat_interleave(repeats, 0) ** 2).sum() + (x[x > 7] * 2).sum()
        y = y + (torch.unique(x.detach()) * 2).sum() + x[mask.nonzero(as_tuple=True)].sum()
        y.backward()
        return x.grad.cpu()

    torch.testing.assert_close(gradients("tpu"), gradients("cpu"))


def test_what_is_selected_is_a_tensor_like_any_other():
    def use(x):
        y = x[x > 0]
        z = y.clone()
        y.add_(1)
        y[2:5] = -1
        y[0] = 9
        w = y.view(torch.int32)[1:3]
        v = y.flip(0)[:4]
        u = torch.empty_like(y).copy_(y)
        u.resize_(3)
        y.detach().resize_(y.numel() + 2)
        return [y, z, w, v, u, y.sum(), y.reshape(1, -1) @ y.reshape(-1, 1), torch.cat([y, z])]

    same(use, torch.arange(-300.0, 200.0), storage=False)
    x = torch.randn(5000)
    y = x.to("tpu")[x.to("tpu") > 1]
    assert y.tolist() == x[x > 1].tolist() and y.untyped_storage().nbytes() == x[x > 1].untyped_storage().nbytes()
    assert y.untyped_storage().cpu().tolist() == x[x > 1].untyped_storage().tolist()
    assert y.deepcopy().cpu().equal(x[x > 1]) if hasattr(y, "deepcopy") else True


def densities(n, shape):
    return [torch.rand(shape) < (i + 0.5) / n for i in range(n)]


@pytest.mark.parametrize("shape", [(64, 64), (200, 300), (1000,)])
@pytest.mark.parametrize("what", ["nonzero", "masked_select", "index", "index of columns"])
def test_fifty_masks_cost_at_most_eight_compiles(counted, what, shape):
    x = torch.randn(shape)
    on = x.to("tpu")
    fns = {"nonzero": lambda x, m: m.nonzero(), "masked_select": torch.masked_select, "index": lambda x, m: x[m],
           "index of columns": lambda x, m: x[..., m if m.dim() == 1 else m[0]]}
    with counted() as c:
        for mask in densities(50, shape):
            there = mask.to("tpu")
            got = fns[what](on, there if what != "index of columns" or mask.dim() == 1 else there[0])
            assert got.cpu().equal(fns[what](x, mask if what != "index of columns" or mask.dim() == 1 else mask[0]))
    assert c.built <= 8, c.built


def test_fifty_others_cost_at_most_eight_compiles_each(counted):
    for fn, make in [(torch.unique, lambda i: torch.randint(0, 10 * i + 1, (50, 80))),
                     (lambda x: torch.unique(x, dim=0), lambda i: torch.randint(0, i + 1, (600, 2))),
                     (torch.unique_consecutive, lambda i: torch.randint(0, i + 2, (900,))),
                     (torch.repeat_interleave, lambda i: torch.randint(0, i + 1, (30,))),
                     (torch.bincount, lambda i: torch.randint(0, 20 * i + 1, (300,)))]:
        with counted() as c:
            for i in range(50):
                x = make(i)
                assert fn(x.to("tpu")).cpu().equal(fn(x))
        assert c.built <= 8, (fn, c.built)


def test_compiled_functions_with_sizes_that_data_tell():
    for fn in (lambda x: x[x > 0] * 2, lambda x: x.nonzero().sum(0)):
        compiled = torch.compile(fn, backend="tpu", fullgraph=True)
        for x in (torch.randn(5), torch.randn(5), torch.ones(5), torch.zeros(5)):
            torch.testing.assert_close(compiled(x.to("tpu")).cpu(), fn(x))
