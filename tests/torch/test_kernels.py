"""Kernels in StableHLO text as operators: torch_tpu.kernels."""
import os
import subprocess
import sys
import uuid

import pytest
import torch

import torch_tpu
from torch_tpu import aot
from torch_tpu.kernels import Spec, TextError, parse, stablehlo_op

SQUARE_ADD = """
#axis = loc("unused")
module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf32> {jax.arg = "} x"} loc("a"(#axis)), %arg1: tensor<4x3xf32>)
      -> (tensor<4x3xf32> {jax.result_info = "r"}) {
    %0 = func.call @helper(%arg0) : (tensor<4x3xf32>) -> tensor<4x3xf32> loc("b")  // @main { is not a call
    %1 = stablehlo.add %0, %arg1 : tensor<4x3xf32>
    return %1 : tensor<4x3xf32>
  }
  func.func private @helper(%arg0: tensor<4x3xf32>) -> tensor<4x3xf32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<4x3xf32>
    return %0 : tensor<4x3xf32>
  }
}
"""
MODES = ["strict", "fuse", "debug"]


def unique():
    return f"test_kernels::k{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def square_add():
    return stablehlo_op("test_kernels::square_add", SQUARE_ADD)


@pytest.mark.parametrize("mode", MODES)
def test_values_in_every_mode(square_add, mode):
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    a, b = x.to("tpu"), y.to("tpu")
    with torch_tpu.set_eager_mode(mode):
        for _ in range(4):  # recorded, replayed, as one program
            r = (square_add(a * 2, b) + square_add(a, a)) * 3
            torch.testing.assert_close(r.cpu(), 3 * ((2 * x) ** 2 + y + x * x + x))


def test_a_hit_compiles_nothing_and_is_one_execution(square_add):
    a, b = torch.randn(4, 3, device="tpu"), torch.randn(4, 3, device="tpu")
    with torch_tpu.set_eager_mode("strict"):
        square_add(a, b)
        torch.tpu.synchronize()
        before = torch_tpu.counters()
        square_add(a, b)
        after = torch_tpu.counters()
    assert after["compiles"] == before["compiles"] and after["executions"] == before["executions"] + 1


def test_views_and_host_tensors(square_add):
    x, y = torch.randn(3, 4), torch.randn(9, 3)
    expected = x.t() ** 2 + y[1::2]
    torch.testing.assert_close(square_add(x.to("tpu").t(), y.to("tpu")[1::2]).cpu(), expected)
    torch.testing.assert_close(square_add(x.t(), y[1::2]), expected)


def test_compiled(square_add):
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    f = torch.compile(lambda a, b: square_add(a, b).sin() * 2, fullgraph=True, backend="tpu")
    torch.testing.assert_close(f(x.to("tpu"), y.to("tpu")).cpu(), (x * x + y).sin() * 2)


def test_ahead_of_time(square_add):
    x = torch.zeros(4, 3)
    compiled = aot.compile(lambda a, b: square_add(a, b) + 1, (x, x), topology="v5e:2x2")
    assert compiled.memory.arguments > 0


def test_backward_in_a_compiled_step(square_add):
    op = stablehlo_op(unique(), SQUARE_ADD)
    op.register_autograd(lambda ctx, g: (2 * ctx.saved_tensors[0] * g, g),
                         setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    w = x.to("tpu").requires_grad_()
    op(w, y.to("tpu")).sum().backward()
    torch.testing.assert_close(w.grad.cpu(), 2 * x)

    def step(y):
        w.grad = None
        loss = op(w, y).sum()
        loss.backward()
        with torch.no_grad():
            w.sub_(w.grad * 0.1)
        return loss

    step = torch_tpu.compile_step(step, fullgraph=True)
    for _ in range(3):
        expected = (x * x + y).sum()
        torch.testing.assert_close(step(y.to("tpu")).cpu(), expected)
        x = x - 0.2 * x
        torch.testing.assert_close(w.detach().cpu(), x)


def test_text_for_each_signature():
    def text(x, n):
        assert isinstance(x, Spec) and isinstance(n, int)
        t = f"tensor<{'x'.join(map(str, x.shape))}xf32>"
        lines = [f"%{i + 1} = stablehlo.add %{i}, %a : {t}" for i in range(n)]
        return "\n".join(
            [f"func.func @f(%a: {t}) -> {t} {{", f"%0 = stablehlo.negate %a : {t}", *lines, f"return %{n} : {t}", "}"]
        )

    op = stablehlo_op(unique(), text, schema="(Tensor x, int n) -> Tensor")
    for shape, n in ((5, 3), 1), ((2, 3, 4), 3):
        x = torch.randn(shape)
        torch.testing.assert_close(op(x.to("tpu"), n).cpu(), x * (n - 1))


def test_two_results_from_a_file(tmp_path):
    path = tmp_path / "pair.mlir"
    path.write_text("""module {
      func.func @first(%x: tensor<2xbf16>) -> (tensor<2xbf16>, tensor<2xi1>) {
        %0 = stablehlo.negate %x : tensor<2xbf16>
        %1 = stablehlo.compare LT, %x, %0 : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xi1>
        return %0, %1 : tensor<2xbf16>, tensor<2xi1>
      }
    }""")
    a, b = stablehlo_op(unique(), path)(torch.tensor([1.0, -2.0], dtype=torch.bfloat16, device="tpu"))
    assert a.tolist() == [-1, 2] and b.tolist() == [False, True] and a.dtype == torch.bfloat16


def test_another_process_finds_the_program(tmp_path):
    code = f"""
import torch, torch_tpu
from torch_tpu.kernels import stablehlo_op
op = stablehlo_op("another::f", {SQUARE_ADD!r})
with torch_tpu.set_eager_mode("strict"):
    print(op(torch.ones(4, 3, device="tpu"), torch.ones(4, 3, device="tpu")).sum().item())
print(torch_tpu.counters()["compiles"])"""
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert [r[0] for r in runs] == ["24.0", "24.0"] and runs[1][1] == "0" != runs[0][1]


BODY = "{\n return %a : tensor<2xf32>\n}"
WRONG = {
    "x = 1": "there is no function",
    '"func.func"() ({}) : () -> ()': "generic form",
    "func.func @f(%a: tensor<?xf32>) -> tensor<2xf32> " + BODY: "has no size",
    "func.func @f(%a: tensor<2xi4>) -> tensor<2xf32> " + BODY: "torch has no dtype for i4",
    "func.func @f(%a: !stablehlo.token) -> tensor<2xf32> " + BODY: "expected a tensor of static sizes",
    "func.func @f(%a: tensor<2xf32>) " + BODY: "returns nothing",
    "func.func private @f(tensor<2xf32>) -> tensor<2xf32>": "declared and has no body",
    "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {": "is never closed",
    f"func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {BODY}\nfunc.func @g(%a: tensor<2xf32>) -> tensor<2xf32> {BODY}": "expected a function @main",
    f"module attributes {{mhlo.num_partitions = 4 : i32}} {{ func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {BODY} }}": "many devices",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_text(text):
    name = unique()
    with pytest.raises(TextError, match=WRONG[text]) as e:
        stablehlo_op(name, text)
    assert name in str(e.value)


def test_wrong_calls(square_add):
    x = torch.ones(4, 3, device="tpu")
    with pytest.raises(
        ValueError, match=r"test_kernels::square_add: expected argument 0 of float32\[4, 3\], got float32\[3, 3\]"
    ):
        square_add(x[:3], x)
    with pytest.raises(ValueError, match=r"expected argument 1 of float32\[4, 3\], got int32\[4, 3\]"):
        square_add(x, x.int())
    with pytest.raises(ValueError, match="already"):
        stablehlo_op("test_kernels::square_add", SQUARE_ADD)
    with pytest.raises(ValueError, match="namespace"):
        stablehlo_op("aten::kernel", SQUARE_ADD)
    with pytest.raises(ValueError, match="form namespace::operator"):
        stablehlo_op("kernel", SQUARE_ADD)


def test_what_the_compiler_refuses_is_raised():
    op = stablehlo_op(
        unique(),
        "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n %0 = stablehlo.nothing %a : tensor<2xf32>\n"
        " return %0 : tensor<2xf32>\n}",
    )
    with torch_tpu.set_eager_mode("strict"), pytest.raises(RuntimeError, match="stablehlo.nothing"):
        op(torch.ones(2, device="tpu"))


def test_equal_texts_are_one_function():
    a, b = parse(SQUARE_ADD), parse(SQUARE_ADD)
    assert a == b and a.args == (Spec(torch.float32, (4, 3)),) * 2 and a.results == (Spec(torch.float32, (4, 3)),)
    assert a.text.count("func.func private") == 2 and "loc(" not in a.text and "jax." not in a.text


# ---- gradients, errors ----
SAME = "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n return %a : tensor<2xf32>\n}"


@pytest.mark.parametrize("mode", MODES)
def test_without_a_formula_a_backward_raises(mode):
    op, x = stablehlo_op(unique(), SAME), torch.ones(2, device="tpu", requires_grad=True)
    with torch_tpu.set_eager_mode(mode):
        for f in op, op.op:
            y = f(x)
            assert y.requires_grad and y.tolist() == [1, 1]
            with pytest.raises(RuntimeError, match="backward through .* but no autograd formula was registered"):
                y.sum().backward()
        with torch.no_grad():
            assert not op(x).requires_grad


def test_schemas_that_are_none():
    text = "func.func @f(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {\n return %a, %a : tensor<2xf32>\n}"
    with pytest.raises(ValueError, match="expected 1 results, as its schema says, got 2"):
        stablehlo_op(unique(), lambda x: text, schema="(Tensor x) -> Tensor")(torch.ones(2, device="tpu"))
    with pytest.raises(ValueError, match="a kernel writes none of its arguments"):
        stablehlo_op(unique(), lambda x: SAME, schema="(Tensor(a!) x) -> Tensor")
    with pytest.raises(ValueError, match="a kernel takes a tensor at least"):
        stablehlo_op(unique(), SAME.replace("%a: tensor<2xf32>", ""))


def test_an_error_is_told_of_its_own_kernel():
    bad, good = stablehlo_op(unique(), {"tpu": SAME}), stablehlo_op(unique(), SAME)
    with torch_tpu.set_eager_mode("strict"):
        with pytest.raises(Exception, match="there is no text for cpu"):
            bad.op(torch.ones(2, device="tpu"))
        with pytest.raises(RuntimeError) as e:
            good("nonsense")
        assert bad.name not in str(e.value)
        with pytest.raises(NotImplementedError, match="there is no text for cpu"):
            bad(torch.ones(2, device="tpu"))


def test_a_location_takes_no_line_with_it():
    assert parse("#loc = loc(unknown)\n" + SAME).args == (Spec(torch.float32, (2,)),)


def test_texts_for_numbers_that_are_equal_and_not_the_same():
    def text(x, n):
        return (f"func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {{\n %0 = stablehlo.constant dense<{n}> : "
                "tensor<2xf32>\n %1 = stablehlo.divide %a, %0 : tensor<2xf32>\n return %1 : tensor<2xf32>\n}")

    op, x = stablehlo_op(unique(), text, schema="(Tensor x, float n) -> Tensor"), torch.ones(2, device="tpu")
    assert [op(x, n)[0].item() for n in (0.0, -0.0)] == [float("inf"), float("-inf")]
