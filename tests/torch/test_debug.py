"""Debug mode: values that the CPU refuses are refused, in its words, and nothing has changed; Strict mode pays
nothing."""
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
    "max_unpool2d": (lambda x, i: F.max_unpool2d(x, i, 2), torch.ones(1, 1, 2, 2), torch.full((1, 1, 2, 2), 99)),
    "max_unpool1d negative": (lambda x, i: F.max_unpool1d(x, i, 2), torch.ones(1, 2, 2), torch.full((1, 2, 2), -1)),
    "max_unpool3d": (lambda x, i: F.max_unpool3d(x, i, 2), torch.ones(1, 1, 2, 2, 2), torch.full((1, 1, 2, 2, 2), 64)),
    "embedding_bag start": (lambda x, i, o: F.embedding_bag(i, x, o), x, torch.tensor([0, 1, 2]), torch.tensor([1, 2])),
    "embedding_bag end": (lambda x, i, o: F.embedding_bag(i, x, o), x, torch.tensor([0, 1, 2]), torch.tensor([0, 4])),
    "embedding_bag last": (
        lambda x, i, o: F.embedding_bag(i, x, o, include_last_offset=True),
        x,
        torch.tensor([0, 1, 2]),
        torch.tensor([0, 9]),
    ),
    "histc": (lambda x: x.histc(4, 0, float("inf")), x),
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
    before = torch_tpu.eager_mode
    torch_tpu.set_eager_mode("debug")
    yield
    torch_tpu.set_eager_mode(before)


def words(fn, *args):
    with pytest.raises(Exception) as caught:
        fn(*args)
    return type(caught.value), str(caught.value).partition("\n  in ")[0]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_values_are_refused_as_on_the_cpu(debug, name):
    fn, *args = REFUSED[name]
    there = [a.to("tpu") for a in args]
    assert words(fn, *there) == words(fn, *args)
    for a, b in zip(args, there):
        assert torch.equal(a.nan_to_num(), b.cpu().nan_to_num())


def test_what_the_cpu_says_otherwise_or_reads_anywhere(debug):
    for bad in (float("nan"), float("inf")):
        kind, text = words(lambda: torch.tensor([1.0, bad], device="tpu").histc())
        assert kind is RuntimeError and "is not finite" in text
    scores, lengths = torch.zeros(6, 2, 4, device="tpu").log_softmax(-1), (torch.tensor([6, 6]), torch.tensor([2, 1]))
    for bad in (4, -1):
        assert words(F.ctc_loss, scores, torch.tensor([[1, bad], [2, 3]], device="tpu"), *lengths) == (
            IndexError,
            f"Target {bad} is out of bounds.",
        )
        F.ctc_loss(scores, torch.tensor([[1, 2], [2, bad]], device="tpu"), *lengths)  # beyond the target's length


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
    assert (
        F.nll_loss(on, torch.tensor([0, -100, 3], device="tpu")).cpu().equal(F.nll_loss(x, torch.tensor([0, -100, 3])))
    )
    assert (torch.tensor([7, -7], device="tpu") // 2).tolist() == [3, -4]
    assert on[on > 3].cpu().equal(x[x > 3])
    assert on.index_select(0, i[:0].to("tpu")).shape == (0, 4)
    w = on.clone().requires_grad_()
    F.embedding(torch.tensor([1, 1], device="tpu"), w).sum().backward()
    assert w.grad.sum().item() == 8


def test_compiled_programs_are_checked_too(debug):
    fn = torch.compile(lambda x, i: (x + 1)[i] * 2, backend="tpu")
    assert fn(x.to("tpu"), torch.tensor([1, 2], device="tpu")).cpu().equal((x + 1)[1:] * 2)
    assert words(fn, x.to("tpu"), row.to("tpu")[:2]) == (
        IndexError,
        "index 7 is out of bounds for dimension 0 with size 3",
    )


@pytest.mark.strict("asks for strict mode")
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
    with torch_tpu.set_eager_mode("debug"):
        a[i]
        with counted() as c:
            a[i]
        assert c.built == 0 and c.cache_hits_plan == 1
    with counted() as c:
        a[i]
    assert c.built == 0


# ---- who made it, and where ----
def told(fn):
    with pytest.raises(Exception) as caught:
        fn()
    return caught.type, str(caught.value)


def here(offset):
    import sys

    return f"{__file__}:{sys._getframe(1).f_lineno + offset} in "


def test_errors_name_the_operator_its_shapes_and_the_line(debug):
    y, i = x.to("tpu"), torch.tensor([0, 9], device="tpu")
    place = here(1)
    kind, text = told(lambda: y[i])
    assert kind is IndexError and text.startswith("index 9 is out of bounds for dimension 0 with size 3\n")
    assert f"in index.Tensor(float32[3, 4], [int64[2]]), at {place}<lambda>: kind, text = told(lambda: y[i])" in text
    line = here(2)
    with pytest.raises(IndexError) as caught:
        F.embedding(i, y)  # the line is the user's, not torch's own that calls the operator
    assert f"at {line}test_errors_name_the_operator_its_shapes_and_the_line: F.embedding(i, y)" in str(caught.value)


@pytest.fixture
def finite():
    with torch_tpu.set_eager_mode("debug", check_nonfinite=True):
        yield


MADE = {
    "log": (lambda a: (a - 2).log(), "log made nan at element 0 of its result, float32[3]"),
    "log of 0": (lambda a: (a - 1).log(), "log made infinity at element 0"),
    "1 / 0": (lambda a: a / 0, "div.Tensor made infinity at element 0"),
    "0 / 0": (lambda a: (a - 3) / (a - 3), "div.Tensor made nan at element 2"),
    "in place": (lambda a: (a - 3).sqrt_(), "sqrt_ made nan at element 0 of what it writes, float32[3]"),
    "narrow": (lambda a: (a * 30000).half(), "made infinity at element 2 of its result, float16[3]"),
    "bfloat16": (lambda a: a.bfloat16().sub(5).log(), "log made nan at element 0 of its result, bfloat16[3]"),
    "complex": (lambda a: torch.complex(a, a) / 0, "div.Tensor made nan at element 0 of its result, complex64[3]"),
    "integers": (lambda a: a.long() / 0, "div.Tensor made infinity"),
    "several results": (
        lambda a: torch.std_mean(a[:1]),
        "std_mean.correction made nan at element 0 of result 0, float32[]",
    ),
    "a list": (lambda a: torch._foreach_log([a, a - 2]), "_foreach_log made nan at element 0 of result 1, float32[3]"),
    "decomposed": (lambda a: torch.special.xlog1py(a, a - 5), "made nan at element 0"),
    "nan from infinity": (lambda a: torch.full_like(a, float("-inf")).softmax(0), "_softmax made nan at element 0"),
    "backward": (lambda a: (a - 1).requires_grad_().sqrt().sum().backward(), "at the backward of SqrtBackward0"),
}


@pytest.mark.parametrize("name", MADE)
def test_the_first_nan_is_found(finite, name):
    fn, message = MADE[name]
    a = torch.tensor([1.0, 2.0, 3.0], device="tpu")
    kind, text = told(lambda: fn(a))
    assert kind is RuntimeError and message in text, text
    assert a.tolist() == [1, 2, 3]
    assert name == "backward" or f", at {__file__}:" in text


def test_what_is_given_as_infinite_passes(finite):
    a = torch.tensor([1.0, 2.0, 3.0], device="tpu")
    masked = a.masked_fill(a > 2, float("-inf"))
    assert masked.softmax(0)[2] == 0 and masked.exp().tolist()[2] == 0
    assert torch.full((2,), float("nan"), device="tpu").isnan().all() and torch.where(a > 1, a, float("inf"))[
        0
    ] == float("inf")
    assert (torch.tensor([float("nan"), 1.0], device="tpu") + 1).isnan().tolist() == [True, False]
    assert torch.zeros(0, device="tpu").log().shape == (0,) and a.long().sum() == 6


def test_checks_of_results_are_asked_for(python):
    code = "import torch\nprint((torch.ones(2, device='tpu') - 2).log().isnan().all().item())"
    assert python(code, TORCH_TPU_EAGER_MODE="debug")[1] == "True\n"
    status, out, err = python(code, TORCH_TPU_EAGER_MODE="debug", TORCH_TPU_CHECK_NONFINITE="1")
    assert status and "log made nan" in err and 'at <string>:2 in <module>' in err
    with pytest.raises(
        ValueError, match="check_nonfinite looks at the results of each call, which only debug mode does, not fuse"
    ):
        torch_tpu.set_eager_mode("fuse", check_nonfinite=True)


@pytest.mark.strict("asks about the modes that do not wait")
def test_stacks_name_lines_in_other_modes(python):
    code = "import torch\nx = torch.ones(300, device='tpu')\ntorch.tpu.set_per_process_memory_fraction(1e-12)\ndef step(x):\n    return x + x\nstep(x)"
    status, out, err = python(code, TORCH_TPU_TRACE_STACKS="1")
    assert (
        status
        and "OutOfMemoryError" in err
        and "in add.Tensor(float32[300], float32[300]), at <string>:5 in step" in err
    )
    assert "<string>:5 in step" not in python(code, TORCH_TPU_TRACE_STACKS=None)[2].replace('File "<string>"', "")
