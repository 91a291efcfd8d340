"""Functions in C that programs on the CPU call: torch_tpu.kernels.custom_call and examples/custom_call.c."""
import ctypes
import pathlib
import shutil
import subprocess

import pytest
import torch

import torch_tpu
from torch_tpu import aot, kernels

jax = pytest.importorskip("jax", reason="jaxlib has the header of XLA's foreign functions")
SOURCE = pathlib.Path(__file__).parents[2] / "examples" / "custom_call.c"
TEXT = """module { func.func public @main(%x: tensor<{0}>) -> tensor<{0}> {{
  %0 = stablehlo.custom_call @test_running_max(%x) {{api_version = 4 : i32}} : (tensor<{0}>) -> tensor<{0}>
  return %0 : tensor<{0}>
}} }"""
TEXT = TEXT.replace("module {", "module {{", 1).replace("}} }", "}} }}")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not shutil.which("gcc"):
        pytest.skip("there is no gcc")
    path = tmp_path_factory.mktemp("custom_call") / "rows.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-I", jax.ffi.include_dir(), SOURCE, "-o", path], check=True
    )
    made = ctypes.CDLL(str(path))
    kernels.custom_call("test_running_max", made.running_max)
    return made


@pytest.fixture(scope="module")
def op(library):
    return kernels.stablehlo_op("test_custom_call::running_max", {"cpu": TEXT.format("4x3xf32")})


@pytest.mark.parametrize("mode", ["strict", "fuse", "debug"])
def test_values(op, mode):
    x = torch.randn(4, 3)
    with torch_tpu.set_eager_mode(mode):
        for _ in range(2):
            assert torch.equal((op(x.to("tpu") * 2) + 1).cpu(), (x * 2).cummax(1).values + 1)


def test_in_compiled_code(op):
    x = torch.randn(4, 3)
    got = torch.compile(lambda x: op(x.sin()).sum(), fullgraph=True, backend="tpu")(x.to("tpu"))
    torch.testing.assert_close(got.cpu(), x.sin().cummax(1).values.sum())


def test_what_it_refuses_is_raised(library):
    wrong = kernels.stablehlo_op("test_custom_call::wrong", {"cpu": TEXT.format("4xf32")})
    with torch_tpu.set_eager_mode("strict"), pytest.raises(RuntimeError, match="expected a float32 matrix"):
        wrong(torch.ones(4, device="tpu")).cpu()


def test_errors(op, library):
    with pytest.raises(TypeError, match="nothing: expected a function of ctypes or a capsule, got str"):
        kernels.custom_call("nothing", "abc")
    with pytest.raises(ValueError, match="expected a name and a handler"):
        kernels.custom_call("", library.running_max)
    with pytest.raises(Exception, match="no text for tpu"):
        aot.compile(lambda x: op(x), (torch.zeros(4, 3),), topology="v6e:2x2")
    unknown = kernels.stablehlo_op(
        "test_custom_call::unknown", {"cpu": TEXT.format("2x2xf32").replace("running_max", "unknown")}
    )
    with torch_tpu.set_eager_mode("strict"), pytest.raises(RuntimeError, match="test_unknown"):
        unknown(torch.ones(2, 2, device="tpu"))


def test_a_capsule(library):
    kernels.custom_call("test_capsule", jax.ffi.pycapsule(library.running_max))
    op = kernels.stablehlo_op(
        "test_custom_call::capsule", {"cpu": TEXT.format("2x2xf32").replace("running_max", "capsule")}
    )
    assert op(torch.tensor([[2.0, 1.0], [1.0, 2.0]], device="tpu")).tolist() == [[2, 2], [1, 2]]
