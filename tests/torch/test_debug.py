"""Debug mode: values that the CPU refuses are refused, in its words, and nothing has changed; Strict mode pays nothing."""
import pytest
import torch
import torch_tpu
from torch.nn import functional as F

pytestmark = pytest.mark.tpu

x = torch.arange(12.0).reshape(3, 4)
row = torch.tensor([0, 7, -9])
cell = torch.tensor([[0, 7], [0, 0]])
whole = torch.tensor([1, 0])
ones = torch.ones(3, 4)

REFUSED = {
    "index": (lambda x, i: x[i], x, row),
    "index of columns": (lambda x, i: x[:, i], x, torch.tensor([1, -5])),
    "index by two": (lambda x, i, j: x[i, j], x, torch.tensor([0]), torch.tensor([9])),
    "index_put": (lambda x, i: x.index_put((i,), x.new_ones(1)), x, row),
    "index_put accumulate": (lambda x, i: x.index_put((i,), x.new_ones(1), accumulate=True), x, row),
    "index_select": (lambda x, i: x.index_select(0, i), x, row),
    "index_select negative": (lambda x, i: x.index_select(0, i), x, torch.tensor([0, -1])),
    "index_select columns": (lambda x, i: x.index_select(1, i), x, row),
    "index_add": (lambda x, i, y: x.index_add(0, i, y), x, row, ones),
    "index_add vector": (lambda x, i: x[0].index_add(0, i, x.new_ones(3)), x, row),
    "index_copy": (lambda x, i, y: x.index_copy(0, i, y), x, row, ones),
    "index_fill": (lambda x, i: x.index_fill(0, i, 1), x, row),
    "index_reduce": (lambda x, i, y: x.index_reduce(0, i, y, "amax"), x, row, ones),
    "gather": (lambda x, i: x.gather(1, i), x, cell),
    "gather negative": (lambda x, i: x.gather(1, i), x, -cell),
    "scatter": (lambda x, i: x.scatter(1, i, x.new_ones(2, 2)), x, cell),
    "scatter value": (lambda x, i: x.scatter(1, i, 1.0), x, cell),
    "scatter_add": (lambda x, i: x.scatter_add(0, i, x.new_ones(2, 2)), x, cell),
    "scatter_reduce": (lambda x, i: x.scatter_reduce(1, i, x.new_ones(2, 2), "amax"), x, cell),
    "take": (torch.take, x, torch.tensor([0, 12])),
    "take negative": (torch.take, x, torch.tensor([-13])),
    "put": (lambda x, i: x.put(i, x.new_ones(2)), x, torch.tensor([0, 12])),
    "embedding": (lambda x, i: F.embedding(i, x), x, row),
    "nll_loss": (lambda x, t: F.nll_loss(x, t), x, torch.tensor([0, 1, 7])),
    "nll_loss negative": (lambda x, t: F.nll_loss(x, t), x, torch.tensor([0, -7, 1])),
    "nll_loss of pictures": (lambda x, t: F.nll_loss(x, t), torch.zeros(1, 3, 2, 2), torch.full((1, 2, 2), 5)),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t, reduction="none"), x, torch.tensor([0, 1, 7])),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 3, y), x, torch.ones(2)),
    "bernoulli": (torch.bernoulli, torch.tensor([0.5, 1.5])),
    "bernoulli of nan": (torch.bernoulli, torch.tensor([float("nan")])),
    "multinomial": (lambda p: p.multinomial(1), torch.tensor([-1.0, 1])),
    "multinomial of nan": (lambda p: p.multinomial(1), torch.tensor([float("nan"), 1])),
    "multinomial of zeros": (lambda p: p.multinomial(1), torch.tensor([[0.0, 0], [1, 1]])),
    "multinomial again": (lambda p: p.multinomial(3, True), torch.tensor([0.0, -1])),
    "multinomial of inf again": (lambda p: p.multinomial(3, True), torch.tensor([0.0, float("inf")])),
    "normal": (torch.normal, torch.zeros(2), torch.tensor([-1.0, 1])),
    "poisson": (torch.poisson, torch.tensor([-1.0])),
    "binary_cross_entropy": (F.binary_cross_entropy, torch.tensor([1.5]), torch.tensor([1.0])),
    "binary_cross_entropy target": (F.binary_cross_entropy, torch.tensor([0.5]), torch.tensor([2.0])),
    "floor": (lambda a: torch.div(a, a, rounding_mode="floor"), whole),
    "trunc": (lambda a: torch.div(a, a, rounding_mode="trunc"), whole),
    "//": (lambda a: a // a, whole),
    "// 0": (lambda a: a // 0, whole),
    "//, bytes": (lambda a: a // a, whole.to(torch.uint8)),
    "%": (lambda a: a % a, whole),
    "% 0": (lambda a: a % 0, whole),
    "3 %": (lambda a: torch.remainder(3, a), whole),
    "fmod": (torch.fmod, whole, whole),
}


@pytest.fixture
def debug():
    torch_tpu.set_eager_mode("debug")
    yield
    torch_tpu.set_eager_mode("strict")


def words(fn, *args):
    with pytest.raises(Exception) as caught:
        fn(*args)
    return type(caught.value), str(caught.value)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_values_are_refused_as_on_the_cpu(debug, name):
    fn, *args = REFUSED[name]
    there = [a.to("tpu") for a in args]
    assert words(fn, *there) == words(fn, *args)
    for a, b in zip(args, there):
        assert torch.equal(a.nan_to_num(), b.cpu().nan_to_num())


def test_a_refused_call_changes_nothing(debug):
    y = x.clone().to("tpu")
    view, version = y[1:], y._version
    for fn in (lambda: y.index_fill_(0, row.to("tpu"), 5.0), lambda: y.scatter_(1, cell.to("tpu"), 1.0),
               lambda: view.put_(torch.tensor([99], device="tpu"), torch.ones(1, device="tpu")),
               lambda: y.index_put_((row.to("tpu"),), torch.ones(1, device="tpu"))):
        words(fn)
        assert y.cpu().equal(x)
    y.index_fill_(0, torch.tensor([1], device="tpu"), 5.0)  # and goes on
    assert y.cpu().equal(x.index_fill(0, torch.tensor([1]), 5.0)) and y._version > version


def test_what_is_right_is_as_in_strict_mode(debug):
    i = torch.tensor([2, 0, -1])
    on = x.to("tpu")
    assert on[i.to("tpu")].cpu().equal(x[i])
    assert on.gather(1, i.abs()[:, None].to("tpu")).cpu().equal(x.gather(1, i.abs()[:, None]))
    assert F.nll_loss(on, torch.tensor([0, -100, 3], device="tpu")).cpu().equal(F.nll_loss(x, torch.tensor([0, -100, 3])))
    assert (torch.tensor([7, -7], device="tpu") // 2).tolist() == [3, -4]
    assert on[on > 3].cpu().equal(x[x > 3])
    assert on.index_select(0, i[:0].to("tpu")).shape == (0, 4)
    w = on.clone().requires_grad_()
    F.embedding(torch.tensor([1, 1], device="tpu"), w).sum().backward()
    assert w.grad.sum().item() == 8


def test_compiled_programs_are_checked_too(debug):
    fn = torch.compile(lambda x, i: (x + 1)[i] * 2, backend="tpu")
    assert fn(x.to("tpu"), torch.tensor([1, 2], device="tpu")).cpu().equal((x + 1)[1:] * 2)
    assert words(fn, x.to("tpu"), row.to("tpu")[:2]) == (IndexError, "index 7 is out of bounds for dimension 0 with size 3")


def test_strict_mode_has_no_conditions(counted, tmp_path, python):
    code = """
import torch, torch_tpu
i, x = torch.tensor([0, 9, 1], device="tpu"), torch.arange(3.0, device="tpu")
print(torch_tpu.eager_mode, x[i].tolist(), (torch.tensor([1, 0, 1], device="tpu") // torch.tensor([1, 0, 1], device="tpu")).tolist())
"""
    status, out, err = python(code, TORCH_TPU_DUMP=str(tmp_path))
    assert status == 0 and out.startswith("strict [0.0, 2.0, 1.0] [1, -1, 1]"), out + err
    assert not [f for f in tmp_path.iterdir() if "tensor<2xi64>" in f.read_text()]  # a pair for each condition
    status, out, err = python(code, TORCH_TPU_EAGER_MODE="debug")
    assert status and "index 9 is out of bounds for dimension 0 with size 3" in err
    status, out, err = python(code, TORCH_TPU_EAGER_MODE="loose")
    assert status and "TORCH_TPU_EAGER_MODE: expected strict, debug or fuse, got loose" in err


def test_the_mode_is_part_of_the_key(counted):
    a = torch.arange(5.0, device="tpu")
    i = torch.tensor([1], device="tpu")
    a[i]
    torch_tpu.set_eager_mode("debug")
    try:
        a[i]
        with counted() as c:
            a[i]
        assert c.built == 0 and c.cache_hits_plan == 1
    finally:
        torch_tpu.set_eager_mode("strict")
    with counted() as c:
        a[i]
    assert c.built == 0
