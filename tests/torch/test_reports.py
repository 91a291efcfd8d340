"""What users of other accelerator backends reported as broken: each a few lines that must be right here."""
import pytest
import torch
from torch import nn
from torch.nn import functional as F


def backend(dev):
    return "tpu" if dev == "tpu" else "aot_eager"


def test_new_data_leaves_old_views_alone(dev):
    x = torch.arange(4.0, device=dev)
    old = x[1:3]
    x.data.mul_(2)
    assert old.tolist() == [2, 4]
    x.data = torch.zeros(4, device=dev)
    x.fill_(7)
    assert old.tolist() == [2, 4] and x.tolist() == [7] * 4


def test_gradient_stops_under_a_written_slice(dev):
    w = torch.ones(3, 4, device=dev, requires_grad=True)
    h = w * torch.e  # a product keeps nothing of its own result for the gradient
    h[1:, ::2] = 5
    h.sum().backward()
    want = torch.full((3, 4), torch.e)
    want[1:, ::2] = 0
    torch.testing.assert_close(w.grad.cpu(), want)


def test_out_writes_through_a_view(dev):
    base = torch.zeros(3, 6, device=dev)
    target = base[:, 1:5].t()[1:3]
    back = torch.add(torch.ones(2, 3, device=dev), torch.full((2, 3), 2.0, device=dev), out=target)
    assert back.data_ptr() == target.data_ptr() and base.sum().item() == 18 and base[:, 2:4].sum().item() == 18
    flat = torch.zeros(6, device=dev)
    torch.index_select(
        torch.arange(9.0, device=dev).view(3, 3), 1, torch.tensor([2, 1], device=dev), out=flat.view(3, 2)
    )
    assert flat.tolist() == [2, 1, 5, 4, 8, 7]


def test_an_int32_tensor_stays_int32_with_zero_dim_int64(dev):
    x = torch.tensor([2, 3], dtype=torch.int32, device=dev)
    for k in (5, torch.tensor(5), torch.tensor(5, device=dev)):
        for f in (
            (torch.add, torch.mul, torch.maximum)
            if isinstance(k, torch.Tensor) and k.device == x.device
            else (torch.add, torch.mul)
        ):
            y = f(x, k)
            assert (
                y.dtype == torch.int32
                and y.long().tolist() == f(x.cpu(), k.cpu() if isinstance(k, torch.Tensor) else k).tolist()
            )


def test_forked_generators_come_back(dev):
    kw = {} if dev == "cpu" else {"devices": [0], "device_type": dev}
    torch.manual_seed(17)
    inside = []
    for _ in range(2):
        with torch.random.fork_rng(**kw):
            inside.append(torch.randn(6, device=dev).tolist())
    assert inside[0] == inside[1] == torch.randn(6, device=dev).tolist() != torch.randn(6, device=dev).tolist()


def test_thousands_of_writes_through_aliases(dev):
    x = torch.zeros(4, 4, device=dev)
    diagonal, row = x.diagonal(), x.view(16)[4:8]
    for _ in range(600):
        diagonal += 1
        row -= 1
        x[0, 0] += 1
    assert x.diagonal().tolist() == [1200, 0, 600, 600] and x[1].tolist() == [-600, 0, -600, -600]


def test_ties_and_identity_survive_a_move(dev):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.Linear(3, 3)
            self.b.weight = self.a.weight

    net = Net()
    held = net.a.weight
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    net.to(dev)
    assert net.a.weight is net.b.weight is held and len(list(net.parameters())) == 3
    value = held.detach().cpu().clone()
    net.b(net.a(torch.ones(1, 3, device=dev))).sum().backward()
    optimizer.step()
    assert not torch.equal(held.detach().cpu(), value) and net.a.weight.data_ptr() == held.data_ptr()
    held.data = held.data.cpu()
    assert held.device.type == "cpu"


def test_updates_of_transposed_tensors(dev):
    x, s = torch.arange(8.0).view(2, 4), torch.full((4, 2), 4.0)
    got, want = x.to(dev).t(), x.clone().t()
    for t, d in ((got, dev), (want, "cpu")):
        t.lerp_(s.to(d), 0.5).addcmul_(s.to(d), t, value=0.5).sqrt_().clamp_(max=3)
    assert got.stride() == want.stride() == (1, 4)
    torch.testing.assert_close(got.cpu(), want)


def test_filling_bool_views_with_offsets(dev):
    x = torch.zeros(3, 7, dtype=torch.bool, device=dev)
    x[1, 2:].fill_(True)
    x[:, 5] = True
    x.view(-1)[8:12:3] = True
    x[2, 5:6].logical_not_()
    want = torch.zeros(3, 7, dtype=torch.bool)
    want[1, 2:] = True
    want[:, 5] = True
    want.view(-1)[8:12:3] = True
    want[2, 5] = False
    assert torch.equal(x.cpu(), want)


def test_device_values_land_in_host_slices(dev):
    host = torch.zeros(2, 3, 4)
    for i in range(2):
        host[i, :, 1] = torch.arange(3, device=dev) + 10 * i
        host[i, 2, 2:] = torch.tensor([7.0, 8.0], device=dev)
    assert (
        host[:, :, 1].tolist() == [[0, 1, 2], [10, 11, 12]]
        and host[:, 2, 2:].tolist() == [[7, 8]] * 2
        and host[:, :2, 2:].eq(0).all()
    )


def test_nan_wins(dev):
    nan = float("nan")
    x = torch.tensor([[3.0, nan, 1.0, nan], [0.0, -1.0, 2.0, 5.0]], device=dev)
    assert (
        x.argmax(1).tolist() == [1, 3]
        and x.argmin(1).tolist() == [1, 1]
        and x.max(0).values.isnan().tolist() == [False, True, False, True]
    )
    assert x.amax().isnan() and x.amin(1).isnan().tolist() == [True, False] and torch.aminmax(x[0]).min.isnan()
    assert (
        torch.maximum(x[0], x[1]).isnan().tolist()
        == torch.minimum(x[1], x[0]).isnan().tolist()
        == [False, True, False, True]
    )
    assert x.clamp(0, 2).isnan().tolist() == x.isnan().tolist() and F.relu(x).isnan().sum().item() == 2
    assert (
        set(x.topk(2, 1).indices[0].tolist()) == {1, 3}
        and x.sort(1).values[0, 2:].isnan().all()
        and x.median(1).values[0].isnan()
    )
    assert torch.fmax(x[0], x[1]).tolist() == [3, -1, 2, 5] and F.max_pool1d(x, 2)[0].isnan().all()


def test_repeated_indices_all_add(dev):
    x = torch.zeros(2, 3, device=dev)
    rows, columns = torch.tensor([1, 1, 0, 1], device=dev), torch.tensor([2, 2, 0, 2], device=dev)
    x.index_put_((rows, columns), torch.tensor(2.0, device=dev), accumulate=True)
    assert x.tolist() == [[2, 0, 0], [0, 0, 6]]
    y = torch.zeros(3, 2, dtype=torch.int64, device=dev).index_put_(
        (torch.tensor([-1, 0, -1], device=dev),), torch.tensor([1, 10], device=dev), accumulate=True
    )
    assert y.tolist() == [[1, 10], [0, 0], [2, 20]]


def test_repeated_rows_add_eager_and_compiled(dev):
    which = torch.tensor([3, 0, 3, 3], device=dev)
    rows = torch.arange(8.0, device=dev).view(4, 2)
    add = lambda t: t.index_add(0, which, rows, alpha=2)  # noqa: E731
    scatter = lambda t: t.scatter_add(0, which[:, None].expand(4, 2), rows)  # noqa: E731
    for f, k in ((add, 2), (scatter, 1)):
        for g in (f, torch.compile(f, backend=backend(dev))):
            assert g(torch.zeros(4, 2, device=dev)).tolist() == [[2 * k, 3 * k], [0, 0], [0, 0], [10 * k, 13 * k]]


def test_compiled_functions_take_strided_views(dev):
    x = torch.arange(48.0).view(8, 6).to(dev)
    f = torch.compile(lambda t: t * 2 + 1, backend=backend(dev))
    inside = torch.compile(lambda t: t[1::3, 2:].t() - 1, backend=backend(dev))
    for view in (x[3::2], x[:, 1::2], x.t()[2:], x[5]):
        assert torch.equal(f(view).cpu(), view.cpu() * 2 + 1)
    assert torch.equal(inside(x).cpu(), x.cpu()[1::3, 2:].t() - 1)


def test_compiled_modules_update_their_buffers(dev):
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, at, value):
            self.seen.index_copy_(0, at, value)
            return self.seen.sum() * 1

    m = Running().to(dev)
    f = torch.compile(m, backend=backend(dev))
    totals = [f(torch.tensor([k], device=dev), torch.tensor([k + 1.0], device=dev)).item() for k in range(4)]
    assert totals == [1, 3, 6, 10] and m.seen.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_dropout_is_the_same(dev, reentrant):
    from torch.utils.checkpoint import checkpoint_sequential

    m = nn.Sequential(nn.Dropout(0.4), nn.Identity(), nn.Dropout(0.2), nn.Identity()).to(dev)
    x = torch.full((128,), 2.0, device=dev, requires_grad=True)
    y = checkpoint_sequential(m, 2, x, use_reentrant=reentrant)
    y.sum().backward()
    torch.testing.assert_close(y.detach(), x.grad * 2)


def test_a_loop_without_any_sync_call_trains(dev):
    m = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to(dev)
    optimizer = torch.optim.Adam(m.parameters(), lr=0.05)
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], device=dev)
    y = torch.tensor([[0.0], [1.0], [1.0], [0.0]], device=dev)
    for _ in range(200):
        optimizer.zero_grad()
        loss = F.mse_loss(m(x), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_autocast_decides_per_operator(dev):
    m, x = nn.Conv1d(2, 3, 1).to(dev), torch.ones(1, 2, 4, device=dev)
    with torch.autocast(dev, dtype=torch.bfloat16):
        y = m(x)
        loss = F.smooth_l1_loss(y, torch.zeros_like(y))
        with torch.autocast(dev, enabled=False):
            z = m(x)
    loss.backward()
    assert [t.dtype for t in (y, loss, z, m.weight.grad)] == [torch.bfloat16] + [torch.float32] * 3


def test_tensors_without_elements(dev):
    e, i = torch.zeros(3, 0, 2, device=dev), torch.zeros(0, dtype=torch.int64, device=dev)
    x = torch.arange(4.0, device=dev).view(2, 2)
    assert (
        e.stride() == torch.zeros(3, 0, 2).stride()
        and e.sum().item() == 0
        and e.prod().item() == 1
        and e.sum(1).tolist() == [[0, 0]] * 3
    )
    assert (
        x[i].shape == (0, 2) and x.index_select(1, i).shape == (2, 0) and torch.cat([x[:0], x]).tolist() == x.tolist()
    )
    assert (
        (x[:, :0] @ x[:0]).tolist() == [[0, 0]] * 2
        and x[x > 9].shape == (0,)
        and x.gather(0, i.view(0, 1)).shape == (0, 1)
    )
    assert torch.nonzero(x < 0).shape == (0, 2) and (e + 1).shape == e.shape and e.mean().isnan()
    with pytest.raises((RuntimeError, IndexError)):
        e.max()
