"""Sparse COO and CSR tensors on the device against the CPU's: layout, entries, values."""
import pytest
import torch

import torch_tpu

torch.manual_seed(0)
A = torch.randn(5, 7) * (torch.rand(5, 7) > 0.5)
B = torch.randn(5, 7) * (torch.rand(5, 7) > 0.5)
D = torch.randn(7, 3)
TWICE = (torch.tensor([[0, 1, 1, 0], [2, 0, 0, 2]]), torch.tensor([1.0, 2, 3, 4]), (2, 3))


def coo(x, v):
    return x.to(v).to_sparse()


def csr(x, v):
    return x.to(v).to_sparse_csr()


CASES = {
    "to_sparse": lambda v: coo(A, v),
    "to_sparse_csr": lambda v: csr(A, v),
    "to_sparse_csc": lambda v: A.to(v).to_sparse_csc(),
    "to_sparse_bsr": lambda v: torch.ones(4, 4, device=v).to_sparse_bsr((2, 2)),
    "coo_to_dense": lambda v: coo(A, v).to_dense(),
    "csr_to_dense": lambda v: csr(A, v).to_dense(),
    "csc_to_dense": lambda v: A.to(v).to_sparse_csc().to_dense(),
    "bsr_to_dense": lambda v: torch.ones(4, 4, device=v).to_sparse_bsr((2, 2)).to_dense(),
    "csr_to_coo": lambda v: csr(A, v).to_sparse(),
    "there_and_back": lambda v: A.to_sparse().to(v).cpu().to(v),
    "csr_from_host": lambda v: A.to_sparse_csr().to(v),
    "made_from_parts": lambda v: torch.sparse_coo_tensor(*TWICE, device=v),
    "coalesce": lambda v: torch.sparse_coo_tensor(*TWICE, device=v).coalesce(),
    "coalesce_bool": lambda v: torch.sparse_coo_tensor(TWICE[0], TWICE[1] > 1, TWICE[2], device=v).coalesce(),
    "coalesce_bool_256_times": lambda v: torch.sparse_coo_tensor(
        torch.zeros(1, 256, dtype=torch.long), torch.ones(256, dtype=torch.bool), (2,), device=v
    ).coalesce(),
    "coalesce_hybrid": lambda v: torch.sparse_coo_tensor(TWICE[0][:1], D[:4], (2, 3), device=v).coalesce(),
    "empty": lambda v: torch.zeros(3, 4, layout=torch.sparse_coo, device=v).coalesce().to_dense(),
    "add": lambda v: coo(A, v) + coo(B, v),
    "add_alpha": lambda v: torch.add(coo(A, v), coo(B, v), alpha=2.5),
    "add_dense": lambda v: B.to(v) + coo(A, v),
    "add_in_place": lambda v: coo(A, v).add_(coo(B, v)),
    "add_csr": lambda v: csr(A, v) + csr(B, v),
    "sub": lambda v: coo(A, v) - coo(B, v),
    "mul": lambda v: coo(A, v) * coo(B, v),
    "mul_dense": lambda v: coo(A, v) * B.to(v),
    "mul_number": lambda v: coo(A, v) * 2.5,
    "mul_csr": lambda v: csr(A, v) * 2,
    "div": lambda v: coo(A, v) / 2,
    "neg": lambda v: -coo(A, v),
    "sin": lambda v: coo(A, v).sin(),
    "relu_in_place": lambda v: coo(A, v).relu_(),
    "sqrt_csr": lambda v: csr(A.abs(), v).sqrt(),
    "to_double": lambda v: coo(A, v).double(),
    "mm": lambda v: torch.sparse.mm(coo(A, v), D.to(v)),
    "mm_csr": lambda v: csr(A, v) @ D.to(v),
    "mm_dense_by_sparse": lambda v: B.t().to(v) @ coo(A, v),
    "mm_sparse_by_sparse": lambda v: torch.sparse.mm(coo(A, v), coo(B.t().contiguous(), v)),
    "addmm": lambda v: torch.sparse.addmm(torch.ones(5, 3, device=v), coo(A, v), D.to(v), beta=0.5, alpha=2),
    "mv": lambda v: coo(A, v) @ D[:, 0].to(v),
    "sampled_addmm": lambda v: torch.sparse.sampled_addmm(
        csr(A, v), torch.ones(5, 2, device=v), torch.ones(2, 7, device=v)
    ),
    "mm_reduce": lambda v: torch.sparse.mm(csr(A, v), D.to(v), "amax"),
    "sum": lambda v: torch.sparse.sum(coo(A, v)),
    "sum_dim": lambda v: torch.sparse.sum(coo(A, v), 0),
    "norm": lambda v: coo(A, v).norm(),
    "softmax": lambda v: torch.sparse.softmax(coo(A, v), 1),
    "log_softmax": lambda v: torch.sparse.log_softmax(coo(A, v), 0),
    "transpose": lambda v: coo(A, v).t().coalesce(),
    "cat": lambda v: torch.cat([coo(A, v), coo(B, v)]),
    "index_select": lambda v: coo(A, v).index_select(0, torch.tensor([2, 0, 2], device=v)).coalesce(),
    "row": lambda v: coo(A, v)[1],
    "sparse_mask": lambda v: B.to(v).sparse_mask(coo(A, v)),
}


def assert_same(got, want):
    assert got.device.type == "tpu" and got.layout == want.layout and got.dtype == want.dtype
    if want.layout is torch.sparse_coo:
        assert got.is_coalesced() == want.is_coalesced() and got._nnz() == want._nnz()
    if want.layout is not torch.strided:
        got, want = got.to_dense(), want.to_dense()
    torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("name", CASES)
def test_equals_cpu(name):
    assert_same(CASES[name]("tpu"), CASES[name]("cpu"))


def test_gradients():
    def run(v):
        a, d = coo(A, v).requires_grad_(), D.clone().to(v).requires_grad_()
        x = A.clone().to(v).requires_grad_()
        (
            torch.sparse.mm(a, d).sum()
            + (x.to_sparse().to_dense() * B.to(v)).sum()
            + torch.sparse.softmax(a, 1).to_dense()[0].sum()
        ).backward()
        return a.grad.coalesce(), d.grad, x.grad

    for got, want in zip(run("tpu"), run("cpu")):
        assert_same(got, want)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.SparseAdam, torch.optim.Adagrad])
def test_sparse_embedding_trains(optimizer):
    def run(v):
        torch.manual_seed(1)
        e = torch.nn.Embedding(10, 3, sparse=True).to(v)
        step = optimizer(list(e.parameters()), lr=0.1)
        for _ in range(3):
            step.zero_grad()
            e(torch.tensor([[1, 2], [1, 5]], device=v)).pow(2).sum().backward()
            step.step()
        return e.weight.detach()

    assert_same(run("tpu"), run("cpu"))


def test_refusals_are_torchs():
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
        coo(A, "tpu") + B.to("tpu")
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        torch.tensor([0, 3], device="tpu").to_sparse().div_(2)
    with pytest.raises(RuntimeError, match="expected"):
        torch.sparse.mm(coo(A, "tpu"), D.to("tpu").double())
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.sparse.mm(coo(A, "tpu"), A.to("tpu"))


def _refusals(v):
    x = (torch.eye(3) + torch.eye(3).roll(1, 0) * 2).to(v)
    coo, csr = x.to_sparse(), x.to_sparse_csr()
    hybrid = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.ones(2, 3), (3, 3)).to(v)
    return {
        "add a number": lambda: coo + 1,
        "number first": lambda: 1 + coo,
        "subtract a number": lambda: coo - 1,
        "hybrid": lambda: hybrid @ x,
        "dtypes": lambda: coo @ x.double(),
        "dtypes of ints": lambda: coo.to(torch.int64) @ x,
        "ints": lambda: coo.long() @ coo.long(),
        "div_ of ints": lambda: coo.long().div_(3),
        "mul_ of bool": lambda: coo.bool().mul_(3),
        "bools": lambda: coo.bool() + coo.bool(),
        "into real": lambda: torch.ones(3, 3, device=v).add_(coo.to(torch.complex64)),
        "minus of bools": lambda: coo.bool() - coo.bool(),
        "index": lambda: coo.index_select(0, torch.tensor([7], device=v)),
        "columns": lambda: x.to_sparse_csc() + csr.to_sparse_csc(),
        "diagonals": lambda: torch.sparse.spdiags(
            torch.ones(2, 3, device=v), torch.zeros(2, dtype=torch.int64, device=v), (3, 3)
        ),
    }


@pytest.mark.parametrize("name", _refusals("cpu"))
def test_refused_as_on_cpu(name):
    with pytest.raises(Exception) as want:
        _refusals("cpu")[name]()
    with pytest.raises(type(want.value)) as got:
        _refusals("tpu")[name]()
    assert str(got.value).splitlines()[0] == str(want.value).splitlines()[0]


def _compressed(v):
    x = (torch.eye(3) + torch.eye(3).roll(1, 0) * 2).to(v)
    csr, csc, other = x.to_sparse_csr(), x.to_sparse_csc(), (x.t() * 3).contiguous()
    yield from (
        csr.to_sparse_csc(),
        csc.to_sparse_csr(),
        csr[1],
        csr[:, 1],
        csr[1, 0],
        csr + other,
        other + csr,
        torch.add(other, csr, alpha=2),
    )
    yield from (
        x.to_sparse_csr().add_(other.to_sparse_csr()),
        x.clone().add_(csr),
        csc * 2,
        csc @ csr,
        csr @ csc,
        csc @ csc,
        csr @ x[0],
    )
    yield from (x.to_sparse().index_select(0, torch.tensor([-1, 1], device=v)),)
    diagonals, offsets = torch.arange(9.0, device=v).reshape(3, 3) + 1, torch.tensor([0, -1, 2], device=v)
    yield from (
        torch.sparse.spdiags(diagonals, offsets, (3, 4)),
        torch.sparse.spdiags(diagonals, offsets, (3, 4), torch.sparse_csr),
    )


def test_compressed_layouts_equal_the_cpu():
    before = torch_tpu.counters()["fallbacks"]
    for got, want in zip(_compressed("tpu"), _compressed("cpu"), strict=True):
        assert (got.layout, got.dtype, got.shape) == (want.layout, want.dtype, want.shape)
        dense = [t.to_dense() if t.layout is not torch.strided else t for t in (got.cpu(), want)]
        torch.testing.assert_close(*dense)
    assert torch_tpu.counters()["fallbacks"] == before
