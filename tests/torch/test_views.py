"""Views share memory: values, sizes, strides, offsets and version counters equal the CPU's, whatever the chain."""
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import DEVICE as DEV


def same(got, want):
    assert got.shape == want.shape and got.stride() == want.stride() and got.storage_offset() == want.storage_offset()
    assert got._version == want._version
    assert torch.equal(got.cpu(), want)


def step(t, choose, values):
    """One view of t, chosen by the numbers in choose; the same numbers give the same view on any device."""
    kind, a, b, c = choose
    dim = a % max(t.dim(), 1)
    if t.dim() == 0:
        return t.unsqueeze(0)
    n = t.size(dim)
    if kind == 0 and t.dim() > 1:
        return t.transpose(dim, b % t.dim())
    if kind == 1:
        return t.narrow(dim, b % n, 1 + c % (n - b % n)) if n else t
    if kind == 2:
        return t[(slice(None),) * dim + (slice(b % (n + 1), None, 1 + c % 3),)]
    if kind == 3 and n and t.dim() > 1:
        return t.select(dim, b % n)
    if kind == 4:
        return t.unsqueeze(b % (t.dim() + 1))
    if kind == 5 and n and n % 2 == 0:
        return t.unflatten(dim, (2, n // 2))
    if kind == 6 and t.dim() > 1 and t.is_contiguous():
        return t.view(-1)
    if kind == 7 and n >= 2:
        return t.unfold(dim, 2, 1 + b % 2)
    if kind == 8 and t.dim() > 1:
        return t.diagonal(b % 3 - 1, 0, 1)
    return t


def write(t, kind, value):
    if kind == 0:
        t.add_(value)
    elif kind == 1:
        t.mul_(2)
    elif kind == 2:
        t.fill_(value)
    elif kind == 3:
        t.copy_(torch.full(t.shape, float(value), device=t.device))
    elif kind == 4 and t.dim() and t.size(0):
        t[0] = value
    elif kind == 5:
        t.clamp_(min=value)
    elif kind == 6:
        t.zero_()


numbers = st.tuples(st.integers(0, 8), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
chains = st.lists(
    st.tuples(st.lists(numbers, max_size=3), st.integers(0, 6), st.integers(-3, 3)), min_size=1, max_size=4
)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(shape=st.sampled_from([(4, 6), (2, 3, 4), (5,), (6, 1, 2), (3, 5)]), chain=chains)
def test_random_chains_of_views_and_writes(shape, chain):
    n = 1
    for s in shape:
        n *= s
    want = [torch.arange(float(n)).view(shape)]
    got = [torch.arange(float(n)).to(DEV).view(shape)]
    got[0]._version, want[0]._version
    for views, kind, value in chain:
        a, b = want[0], got[0]
        for v in views:
            a, b = step(a, v, value), step(b, v, value)
        if kind in (0, 1, 3, 5) and a.numel() and any(s == 0 for s in a.stride()) and a.dim():
            continue
        overlap = torch._debug_has_internal_overlap(a)
        if overlap or any(v[0] == 7 for v in views):  # unfold overlaps: reading only
            assert torch.equal(a, b.cpu())
            continue
        write(a, kind, value)
        write(b, kind, value)
        want.append(a)
        got.append(b)
    for g, w in zip(got, want):
        assert g.shape == w.shape and g.stride() == w.stride() and g.storage_offset() == w.storage_offset()
        assert torch.equal(g.cpu(), w)
    versions = {w._version - g._version for g, w in zip(got, want)}
    assert len(versions) == 1  # the two began at different counts: the copy to the device made one


def test_all_aliases_see_a_write(dev):
    x = torch.arange(12.0, device=dev).view(3, 4)
    t, row, flat, diagonal = x.t(), x[1], x.view(-1), x.diagonal()
    flat[5] = 100
    assert row[1].item() == 100 and t[1, 1].item() == 100 and diagonal[1].item() == 100
    t.mul_(-1)
    assert flat.tolist() == [-v if v != 5 else -100.0 for v in range(12)]


def test_strided_and_negative_steps(dev):
    x = torch.arange(24.0, device=dev).view(4, 6)
    w = x.cpu()
    for f in (
        lambda t: t[::2, 1::3],
        lambda t: t.flip(0),
        lambda t: t.as_strided((3, 3), (7, 2), 1),
        lambda t: t[1:, :-1].t(),
        lambda t: t.expand(2, 4, 6),
        lambda t: t.movedim(0, 1).unflatten(0, (2, 3)),
        lambda t: t.unfold(1, 3, 2),
        lambda t: t.roll(2, 1),
        lambda t: t.reshape(2, 12),
        lambda t: t.t().reshape(-1),
        lambda t: t.T.contiguous(),
        lambda t: t[:, None],
        lambda t: t.squeeze(),
        lambda t: t[..., 2],
        lambda t: torch.stack(t.unbind(1)),
        lambda t: torch.cat(t.split([1, 3])),
        lambda t: torch.cat(t.chunk(3, 1), 1),
    ):
        g, c = f(x), f(w)
        assert g.stride() == c.stride() and g.storage_offset() == c.storage_offset() and torch.equal(g.cpu(), c)
        assert torch.equal((g + 1).cpu(), c + 1)


def test_view_as_another_dtype(dev):
    x = torch.tensor([1.0, -2.0, 3.5], device=dev)
    assert x.view(torch.int32).tolist() == x.cpu().view(torch.int32).tolist()
    assert x.view(torch.uint8).tolist() == x.cpu().view(torch.uint8).tolist()
    x.view(torch.int32)[0] = 0
    assert x.tolist() == [0.0, -2.0, 3.5]
    c = torch.tensor([1 + 2j, 3 - 1j], device=dev)
    assert (
        torch.view_as_real(c).tolist() == [[1, 2], [3, -1]] and c.real.tolist() == [1, 3] and c.imag.tolist() == [2, -1]
    )
    c.imag.zero_()
    assert c.tolist() == [1 + 0j, 3 + 0j]


def test_resize_and_set(dev):
    x = torch.arange(4.0, device=dev)
    x.resize_(6)
    assert x.shape == (6,) and x[:4].tolist() == [0, 1, 2, 3]
    y = torch.zeros(2, device=dev)
    y.set_(x)
    y[0] = 9
    assert x[0].item() == 9
    z = torch.empty(0, device=dev).set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert z[:1].tolist() == [[1, 2]]


@pytest.mark.tpu
def test_a_moving_offset_compiles_once(counted):
    x = torch.arange(60.0, device="tpu").view(20, 3)
    (x[0] * 2).cpu()
    with counted() as c:
        total = [(x[i] * 2).sum().item() for i in range(20)]
    assert c.built <= 2 and total == [2 * sum(range(3 * i, 3 * i + 3)) for i in range(20)]
    with counted() as c:
        for i in range(20):
            x[i] = i + 0.5  # the number becomes a 0-dim tensor, then a copy writes it: two programs for all i
    assert c.built <= 2 and x[:, 0].tolist() == [i + 0.5 for i in range(20)]


@pytest.mark.tpu
def test_a_changing_factor_compiles_once(counted):
    x = torch.ones(3, device="tpu")
    with counted() as c:
        for i in range(20):
            x * (0.1 * i)
    assert c.built <= 1
