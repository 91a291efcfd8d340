"""What libraries of kernels import: torch_tpu._internal.pallas and its kin."""
import importlib

import pytest
import torch

import torch_tpu
from torch_tpu import aot

jax = pytest.importorskip("jax", reason="kernels are written in JAX")
pl = pytest.importorskip("jax.experimental.pallas")
pltpu = pytest.importorskip("jax.experimental.pallas.tpu")

TEXT = """module { func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
} }"""


@pytest.mark.parametrize(
    "path, names",
    [
        ("torch.tpu.pallas", ["jax_op", "custom_jax_kernel"]),
        ("torch_tpu._internal.pallas", ["jax_op", "pallas", "tpu_torch_pallas"]),
        (
            "torch_tpu._internal.pallas.pallas",
            ["JaxCallable", "jax_placeholder", "_get_kernel_invocation_key", "get_default_pallas_mesh"],
        ),
        (
            "torch_tpu._internal.pallas.tpu_torch_pallas",
            ["register_custom_kernel", "call_custom_kernel", "lookup_custom_kernel"],
        ),
        ("torch_tpu._internal.utils.hardware", ["get_tpu_device_name", "get_tpu_topology"]),
    ],
)
def test_paths(path, names):
    module = importlib.import_module(path)
    assert all(hasattr(module, n) for n in names)


def test_hardware(monkeypatch):
    from torch_tpu._internal.utils import hardware
    assert hardware.get_tpu_device_name().startswith("TPU") and hardware.get_tpu_topology() == "1x1"
    monkeypatch.setattr(hardware._C, "device_count", lambda: 4)
    with pytest.raises(NotImplementedError, match="get_tpu_topology of 4 devices"):
        hardware.get_tpu_topology()


def test_custom_jax_kernel():
    @torch.tpu.pallas.custom_jax_kernel
    def thrice(x: jax.Array) -> jax.Array:
        return x * 3

    assert thrice(torch.ones(2, device="tpu")).tolist() == [3, 3] and thrice.name == "jax_kernels::thrice"


@pytest.mark.parametrize("mode", ["strict", "fuse", "debug"])
def test_kernels_by_fingerprint(mode):
    from torch_tpu._internal.pallas.tpu_torch_pallas import (
        call_custom_kernel,
        lookup_custom_kernel,
        register_custom_kernel,
    )

    register_custom_kernel("twice", "abc", TEXT)
    assert lookup_custom_kernel("twice", "abc") and not lookup_custom_kernel("twice", "abd")
    with torch_tpu.set_eager_mode(mode):
        (y,) = call_custom_kernel(
            "twice",
            "abc",
            inputs=[torch.ones(3, device="tpu")],
            output_shapes=None,
            donate_argnums=None,
            device_assignment=[],
        )
        assert y.tolist() == [2, 2, 2]
        with pytest.raises(LookupError, match="twice: no kernel is registered under 'abd'"):
            call_custom_kernel("twice", "abd", inputs=[torch.ones(3, device="tpu")])
        with pytest.raises(ValueError, match=r"twice: expected argument 0 of float32\[3\], got float32\[2\]"):
            call_custom_kernel("twice", "abc", inputs=[torch.ones(2, device="tpu")])


def _callable(**options):
    from torch_tpu._internal.pallas.pallas import JaxCallable

    def kernel(x, y, o):
        o[...] = x[...] * 2 + y[...]

    def fn(x, y):
        mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)

        def body(x, y, o):
            spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
            pltpu.emit_pipeline(kernel, grid=(x.shape[0] // 8,), in_specs=[spec, spec], out_specs=spec)(x, y, o)

        return {"out": pl.kernel(body, jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=mesh)(x, y)}

    return JaxCallable("pipelined", jax.jit(fn), "key", **options)


def test_callable_over_a_pipeline():
    f = _callable(input_output_aliases={1: 0})
    x, y = torch.randn(16, 128), torch.randn(16, 128)
    on = y.to("tpu")
    for _ in range(2):
        r = f(x.to("tpu"), on)
        y = x * 2 + y
        torch.testing.assert_close(r["out"].cpu(), y)
        torch.testing.assert_close(on.cpu(), y)
    from torch_tpu._internal.pallas.pallas import _get_kernel_invocation_key
    key = _get_kernel_invocation_key("key", (x, y), {}, ())
    assert f.output_shapes[key][0][0].shape == (16, 128) and key in f.kernel_key_to_mlir_fingerprint


def test_callable_compiles_for_tpus():
    f, x = _callable(), torch.zeros(16, 128)
    compiled = aot.compile(lambda x, y: f(x, y)["out"] + 1, (x, x), topology="v6e:2x2")
    assert compiled.program.count("tpu_custom_call") == 1
    assert f(x.to("tpu"), x.to("tpu"))["out"].sum().item() == 0  # and runs on the CPU all the same


def test_meshes_are_refused():
    from torch_tpu._internal.pallas.pallas import JaxCallable, get_default_pallas_mesh
    assert get_default_pallas_mesh().size == 1

    class Mesh:
        size = 4

    with pytest.raises(NotImplementedError, match="f: a kernel over a mesh of 4 devices is not done"):
        JaxCallable("f", lambda x: x, mesh=Mesh())


def test_what_tells_calls_of_a_callable_apart():
    import numpy as np
    from torch_tpu._internal.pallas.pallas import JaxCallable
    f, x = JaxCallable("sums", jax.jit(lambda x, t: x + t.sum())), torch.ones(2, device="tpu")
    zeros, other = np.zeros(2000, np.float32), np.zeros(2000, np.float32)
    other[1000] = 5
    assert [f(x, zeros).tolist(), f(x, other).tolist()] == [[1, 1], [6, 6]]
    for args, kwargs in ((x, [x]), {}), ((x,), {"t": x}), ((x, {1, 2}), {}):
        with pytest.raises(TypeError):
            f(*args, **kwargs)
    w = x.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        f(w, zeros).sum().backward()


def test_another_text_under_a_known_fingerprint():
    from torch_tpu._internal.pallas.tpu_torch_pallas import register_custom_kernel
    register_custom_kernel("once", "abc", TEXT)
    register_custom_kernel("once", "abc", TEXT)
    with pytest.raises(ValueError, match="once: another text is registered under 'abc'"):
        register_custom_kernel("once", "abc", TEXT.replace("add", "multiply"))
