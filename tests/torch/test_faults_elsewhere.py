"""Faults that other backends have, each against the CPU: what is easily left out of a lowering and wrong without a
word.

Those not here: negative padding, fp8 saturation, statistics of batch norm in bfloat16 and pdist of one row have their
tests where their operators have them (test_nn_ops.py, test_quantize.py, test_decompositions.py, test_eigen.py)."""
import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("native")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("how", ["prod", "mean", "amax", "amin"])
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_index_reduce_of_more_than_one_dim(dev, how, include_self):
    x, index = torch.randn(3, 4, 5), torch.tensor([2, 0, 2])
    for dim in range(3):
        y = torch.randn([3 if d == dim else n for d, n in enumerate(x.shape)])
        got = x.to(dev).index_reduce(dim, index.to(dev), y.to(dev), how, include_self=include_self)
        torch.testing.assert_close(got.cpu(), x.index_reduce(dim, index, y, how, include_self=include_self))


@pytest.mark.parametrize("include_self", [True, False])
def test_means_of_negative_integers(dev, include_self):
    x, index = torch.tensor([-7, 5, -1]), torch.tensor([0, 0, 1, 2, 2])
    y = torch.tensor([-2, -3, -4, 1, -8])
    want = x.scatter_reduce(0, index, y, "mean", include_self=include_self)
    assert x.to(dev).scatter_reduce(0, index.to(dev), y.to(dev), "mean", include_self=include_self).cpu().equal(want)


def test_silu_of_complex_numbers(dev):
    x = torch.cat([torch.randn(7, dtype=torch.complex64), torch.tensor([0, 3, -3j, 30 + 1j])])
    torch.testing.assert_close(F.silu(x.to(dev)).cpu(), F.silu(x))
    with pytest.raises(RuntimeError, match="does not support automatic differentiation for outputs with complex dtype"):
        F.silu(x.to(dev).requires_grad_())


def test_index_add_into_a_number(dev):
    for index, y in ((torch.tensor(0), torch.tensor(2.0)), (torch.tensor([0]), torch.tensor(2.0))):
        want = torch.tensor(1.0).index_add(0, index, y, alpha=3)
        got = torch.tensor(1.0, device=dev).index_add(0, index.to(dev), y.to(dev), alpha=3)
        assert got.shape == want.shape == () and got.item() == want.item() == 7


def test_gradient_of_a_gather_of_nothing(dev):
    for shape, places in (((3, 4), (0, 4)), ((0, 4), (0, 4)), ((3, 4), (3, 0))):
        x = torch.ones(shape, device=dev, requires_grad=True)
        x.gather(0, torch.zeros(places, dtype=torch.int64, device=dev)).sum().backward()
        assert x.grad.cpu().equal(torch.zeros(shape))


@pytest.mark.parametrize("descending", [False, True])
def test_equal_elements_are_sorted_in_their_order(dev, descending):
    x = torch.randint(0, 4, (5, 300)).to(torch.float32)
    x[0, 3], x[0, 50], x[1, ::7] = float("nan"), float("nan"), -0.0
    want, got = x.sort(dim=1, descending=descending, stable=True), x.to(dev).sort(
        dim=1, descending=descending, stable=True
    )
    assert got.indices.cpu().equal(want.indices) and x.to(dev).argsort(
        dim=1, descending=descending, stable=True
    ).cpu().equal(want.indices)


def test_topk_of_equal_elements_names_each_once(dev):
    x = torch.randint(0, 3, (4, 50)).to(torch.float32)
    for largest in (True, False):
        values, places = (t.cpu() for t in x.to(dev).topk(20, 1, largest=largest))
        assert values.equal(x.topk(20, 1, largest=largest).values) and x.gather(1, places).equal(values)
        assert all(len(set(row.tolist())) == 20 for row in places)
