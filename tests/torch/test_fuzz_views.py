"""Random programs of views and in-place operators over a pool of tensors that share memory: whatever a program does,
the device does as the CPU does, in values, sizes, strides, offsets, version counters and refusals.

TORCH_TPU_FUZZ_PROGRAMS says how many programs are run (50 otherwise)."""
import os

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

DTYPES = [
    torch.float32,
    torch.float32,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.bfloat16,
    torch.float64,
    torch.complex64,
]
SHAPES = [(4, 6), (2, 3, 4), (5,), (6, 1, 2), (3, 5), (), (2, 2, 2, 2), (0, 3)]
STEPS = 20


def made(shape, dtype):
    n = 1
    for s in shape:
        n *= s
    x = torch.arange(n).sub(n // 2)
    if dtype is torch.bool:
        return (x % 3 == 0).reshape(shape)
    if dtype is torch.uint8:
        return x.abs().to(dtype).reshape(shape)
    if dtype is torch.complex64:
        return torch.complex(x.float(), x.flip(0).float() / 2).reshape(shape)
    return x.to(dtype).reshape(shape) if not dtype.is_floating_point else (x / 4).to(dtype).reshape(shape)


# ---- views: of t, by the numbers a, b, c ----
def narrow(t, a, b, c):
    dim = a % t.dim()
    n = t.size(dim)
    return t.narrow(dim, b % (n + 1), c % (n + 1 - b % (n + 1)))


def sliced(t, a, b, c):
    dim = a % t.dim()
    return t[(slice(None),) * dim + (slice(b % (t.size(dim) + 1), None, 1 + c % 3),)]


def as_other_dtype(t, a, b, c):
    return t.view([torch.int32, torch.uint8, torch.int64, torch.int16][a % 4])  # of bits: no NaN is made


def strided(t, a, b, c):
    room = t.untyped_storage().nbytes() // t.element_size()
    rows = 1 + a % 3
    return t.as_strided((rows, 2), (2, 1), b % max(1, room - 2 * rows + 1)) if room >= 2 * rows else t


VIEWS = [
    lambda t, a, b, c: t.transpose(a % t.dim(), b % t.dim()),
    narrow,
    sliced,
    lambda t, a, b, c: t.select(a % t.dim(), b % max(1, t.size(a % t.dim()))),
    lambda t, a, b, c: t.unsqueeze(a % (t.dim() + 1)),
    lambda t, a, b, c: t.squeeze(),
    lambda t, a, b, c: t.unflatten(a % t.dim(), (2, -1)),
    lambda t, a, b, c: t.view(-1),
    lambda t, a, b, c: t.flatten(),
    lambda t, a, b, c: t.diagonal(b % 3 - 1, a % t.dim(), c % t.dim()),
    lambda t, a, b, c: t.movedim(a % t.dim(), b % t.dim()),
    lambda t, a, b, c: t.reshape(t.shape[::-1]),
    lambda t, a, b, c: t.expand(2 + a % 2, *t.shape),
    lambda t, a, b, c: t.chunk(2, a % t.dim())[-1],
    lambda t, a, b, c: torch.view_as_real(t) if t.is_complex() else t.detach(),
    lambda t, a, b, c: t.real if t.is_complex() else t.T if t.dim() < 3 else t.mT,
    lambda t, a, b, c: t.conj() if t.is_complex() else t,
    as_other_dtype,
    strided,
]


# ---- writes: into t, with another tensor u of the pool, or a number ----
def put_row(t, u, a, b):
    t[a % t.size(0)] = b


def put_rows(t, u, a, b):
    t[torch.tensor([a % t.size(0), b % t.size(0)], device=t.device)] = t[
        torch.tensor([b % t.size(0)] * 2, device=t.device)
    ]


def put_where(t, u, a, b):
    t[t != a] = b % 5


def put_slice(t, u, a, b):
    t[..., :: 1 + a % 2] = b % 7


def renamed(t, u, a, b):
    [t.t_, t.squeeze_, lambda: t.unsqueeze_(a % (t.dim() + 1)), lambda: t.transpose_(a % t.dim(), b % t.dim())][b % 4]()


def swapped(t, u, a, b):
    t.set_(u)


WRITES = [
    lambda t, u, a, b: t.add_(a % 5),
    lambda t, u, a, b: t.add_(u),
    lambda t, u, a, b: t.mul_(2),
    lambda t, u, a, b: t.mul_(u),
    lambda t, u, a, b: t.sub_(u, alpha=2),
    lambda t, u, a, b: t.fill_(a % 7),
    lambda t, u, a, b: t.copy_(u),
    lambda t, u, a, b: t.zero_(),
    lambda t, u, a, b: t.clamp_(min=a % 4, max=9),
    lambda t, u, a, b: t.masked_fill_(t == t.flatten()[0], b % 9),
    lambda t, u, a, b: t.neg_(),
    lambda t, u, a, b: t.bitwise_xor_(5),
    lambda t, u, a, b: t.logical_not_(),
    lambda t, u, a, b: t.numel()
    and 0 not in t.stride()
    and t.index_fill_(a % t.dim(), torch.tensor([0], device=t.device), b % 5),
    lambda t, u, a, b: t.index_add_(0, torch.tensor([0, 0], device=t.device), t[:1].clone().expand(2, *t.shape[1:])),
    lambda t, u, a, b: t.scatter_(0, torch.zeros(t.shape, dtype=torch.long, device=t.device)[:1], a % 6),
    lambda t, u, a, b: t.dtype is torch.bool or t.cumsum_(a % t.dim()),
    lambda t, u, a, b: 0 in t.stride() or t.tril_(),
    lambda t, u, a, b: t.resize_(t.shape),
    put_row,
    put_rows,
    put_where,
    put_slice,
    renamed,
    swapped,
]

# ---- fresh tensors ----
COPIES = [
    lambda t, u, a, b: t.clone(),
    lambda t, u, a, b: t.contiguous(),
    lambda t, u, a, b: t + u,
    lambda t, u, a, b: t.to(DTYPES[a % len(DTYPES)]),
    lambda t, u, a, b: torch.where(t == u, t, u),
    lambda t, u, a, b: torch.cat([t, t], a % t.dim()),
    lambda t, u, a, b: t.flip(a % t.dim()),
    lambda t, u, a, b: t.sum(a % t.dim()),
]


def shares_with_itself(t):
    """Two elements at one place: what is left there after a write depends on the order."""
    if t.numel() < 2:
        return False
    places = torch.zeros((), dtype=torch.long)
    for n, stride in zip(t.shape, t.stride()):
        places = places.unsqueeze(-1) + torch.arange(n) * stride
    return places.unique().numel() != t.numel()


def undefined(t, u):
    """Whether what writing t with u leaves depends on the order of the writes, without torch refusing it."""
    apart = t is u or t.untyped_storage().data_ptr() != u.untyped_storage().data_ptr()
    return (shares_with_itself(t) and 0 not in t.stride()) or not apart


def run(program, device):
    """The pool at the end, and what each step did: its error's type, or None."""
    pool = [made(shape, dtype).to(device) for shape, dtype in program[0]]
    did = []
    for kind, index, other, op, a, b, c in program[1]:
        t, u = pool[index % len(pool)], pool[other % len(pool)]
        try:
            if kind < 4:
                pool.append(VIEWS[op % len(VIEWS)](t, a, b, c))
            elif kind < 9:
                if undefined(t, u):
                    continue
                WRITES[op % len(WRITES)](t, u, a, b)
            else:
                pool.append(COPIES[op % len(COPIES)](t, u, a, b))
            did.append(None)
        except (RuntimeError, IndexError, ZeroDivisionError, NotImplementedError, ValueError) as e:
            did.append(type(e))
    return pool, did


number = st.integers(0, 23)
programs = st.tuples(
    st.lists(st.tuples(st.sampled_from(SHAPES), st.sampled_from(DTYPES)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 9), number, number, number, number, number, number), min_size=1, max_size=STEPS))


@pytest.fixture(scope="module", autouse=True)
def no_denormals():
    """Bits read as another dtype make denormal numbers, which XLA takes for zeros: so does the CPU here."""
    torch.set_flush_denormal(True)
    yield
    torch.set_flush_denormal(False)


@settings(
    max_examples=int(os.environ.get("TORCH_TPU_FUZZ_PROGRAMS", 50)),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(programs)
def test_random_programs(program):
    (want, cpu_did), (got, did) = run(program, "cpu"), run(program, "tpu")
    assert did == cpu_did
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape and g.stride() == w.stride()
        assert g.storage_offset() == w.storage_offset() and g._version == w._version and g.is_conj() == w.is_conj()
        assert g.untyped_storage().nbytes() == w.untyped_storage().nbytes()
        torch.testing.assert_close(g.cpu(), w, equal_nan=True)
