"""Kernels in JAX and Pallas as operators: torch_tpu.pallas."""
import enum
import functools
import os
import subprocess
import sys
import textwrap
import uuid
from typing import Optional

import pytest
import torch

import torch_tpu
from torch_tpu import aot, pallas

jax = pytest.importorskip("jax", reason="kernels are written in JAX")
jnp = jax.numpy
pl = pytest.importorskip("jax.experimental.pallas")

MODES = ["strict", "fuse", "debug"]
TOPOLOGIES = ["v5e:2x2", "v6e:2x2", "tpu7x:2x2x1"]
SDPA = torch.nn.functional.scaled_dot_product_attention


def unique():
    return f"test_pallas::k{uuid.uuid4().hex}"


# ---- three kernels ----
@pallas.jax_op("test_pallas::add")
def add(x: jax.Array, y: jax.Array, *, block: int = 8) -> jax.Array:
    def kernel(x, y, o):
        o[...] = x[...] + y[...]

    spec = pl.BlockSpec((block, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // block,),
                          in_specs=[spec, spec], out_specs=spec)(x, y)


add.register_autograd(lambda ctx, g: (g, g))


def _matmul(a, b, block):
    def kernel(a, b, o):
        @pl.when(pl.program_id(2) == 0)
        def _():
            o[...] = jnp.zeros_like(o)

        o[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        grid=(m // block, n // block, k // block),
        in_specs=[
            pl.BlockSpec((block, block), lambda i, j, k: (i, k)),
            pl.BlockSpec((block, block), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)),
    )(a, b)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _differentiable_matmul(a, b, block):
    return _matmul(a, b, block)


_differentiable_matmul.defvjp(lambda a, b, block: (_matmul(a, b, block), (a, b)),
                              lambda block, saved, g: (_matmul(g, saved[1].T, block), _matmul(saved[0].T, g, block)))


@pallas.jax_op("test_pallas::matmul")
def matmul(a: jax.Array, b: jax.Array, block: int = 128) -> jax.Array:
    return _differentiable_matmul(a, b, block)


@pallas.jax_op("test_pallas::flash")
def flash(q: jax.Array, k: jax.Array, v: jax.Array, causal: bool = False) -> jax.Array:
    block, (heads, length, width) = 128, q.shape

    def kernel(q, k, v, o):
        queries = q[0] * (width ** -0.5)
        row = pl.program_id(1) * block + jax.lax.broadcasted_iota(jnp.int32, (block, block), 0)

        def body(j, carry):
            most, total, out = carry
            s = jnp.dot(queries, k[0, pl.ds(j * block, block), :].T, preferred_element_type=jnp.float32)
            if causal:
                column = j * block + jax.lax.broadcasted_iota(jnp.int32, (block, block), 1)
                s = jnp.where(column <= row, s, -1e30)
            now = jnp.maximum(most, s.max(1, keepdims=True))
            p = jnp.exp(s - now)
            fade = jnp.exp(most - now)
            values = jnp.dot(p.astype(v.dtype), v[0, pl.ds(j * block, block), :], preferred_element_type=jnp.float32)
            return now, total * fade + p.sum(1, keepdims=True), out * fade + values

        start = jnp.full((block, 1), -1e30), jnp.zeros((block, 1)), jnp.zeros((block, width))
        _, total, out = jax.lax.fori_loop(0, length // block, body, start)
        o[0] = (out / total).astype(o.dtype)

    mine, whole = pl.BlockSpec((1, block, width), lambda h, i: (h, i, 0)), pl.BlockSpec(
        (1, length, width), lambda h, i: (h, 0, 0)
    )
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype), grid=(heads, length // block),
                          in_specs=[mine, whole, whole], out_specs=mine)(q, k, v)


def _flash_backward(ctx, g):
    q, k, v = ctx.saved_tensors
    s = q @ k.mT * q.shape[-1] ** -0.5
    if ctx.causal:
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), float("-inf"))
    p = s.softmax(-1)
    gp = g @ v.mT
    gs = p * (gp - (gp * p).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
    return gs @ k, gs.mT @ q, p.mT @ g, None


def _flash_saves(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3])
    ctx.causal = inputs[3]


flash.register_autograd(_flash_backward, setup_context=_flash_saves)

KERNELS = {
    "add": (add, torch.add, [(16, 128), (16, 128)]),
    "matmul": (matmul, torch.matmul, [(128, 256), (256, 128)]),
    "flash": (functools.partial(flash, causal=True), functools.partial(SDPA, is_causal=True), [(2, 256, 64)] * 3),
}


def arguments(name):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(shape, generator=generator) for shape in KERNELS[name][2]]


def check_backward(op, reference, args, run=lambda f, *args: f(*args)):
    mine = [x.to("tpu").requires_grad_() for x in args]
    theirs = [x.clone().requires_grad_() for x in args]
    run(lambda *a: (op(*a) * 2).sin().sum(), *mine).backward()
    (reference(*theirs) * 2).sin().sum().backward()
    for a, b in zip(mine, theirs):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("mode", MODES)
def test_values_and_gradients_in_every_mode(name, mode):
    op, reference, _ = KERNELS[name]
    args = arguments(name)
    with torch_tpu.set_eager_mode(mode):
        for _ in range(3):
            torch.testing.assert_close(op(*[x.to("tpu") for x in args]).cpu(), reference(*args), rtol=1e-4, atol=1e-4)
            check_backward(op, reference, args)


@pytest.mark.parametrize("name", KERNELS)
def test_compiled(name):
    op, reference, _ = KERNELS[name]
    check_backward(
        op, reference, arguments(name), lambda f, *args: torch.compile(f, fullgraph=True, backend="tpu")(*args)
    )


@pytest.mark.parametrize("name", KERNELS)
def test_in_a_compiled_training_step(name):
    op, reference, _ = KERNELS[name]
    first, *others = arguments(name)
    w, ours = first.clone().requires_grad_(), first.to("tpu").requires_grad_()
    on_tpu = [x.to("tpu") for x in others]

    def train(fn, w, rest):
        w.grad = None
        loss = fn(w, *rest).square().mean()
        loss.backward()
        with torch.no_grad():
            w.sub_(w.grad)
        return loss.detach()

    step = torch_tpu.compile_step(lambda: train(op, ours, on_tpu), fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(step().cpu(), train(reference, w, others), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.detach().cpu(), w.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_compiles_for_tpus(topology):
    def step(x, y, a, b, q, k, v):
        loss = add(x, y).sum() + matmul(a, b).sum() + flash(q, k, v, True).sum()
        return torch.autograd.grad(loss, [x, a, b, q])

    args = [x.requires_grad_() for name in KERNELS for x in arguments(name)]
    compiled = aot.compile(step, tuple(args), topology=topology)
    assert compiled.program.count("tpu_custom_call") >= 5  # two products in matmul's backward


def test_fused_with_what_is_around_it():
    x, y = (a.to("tpu") for a in arguments("add"))
    with torch_tpu.set_eager_mode("fuse"):
        for _ in range(4):
            r = add(x * 2, y) + add(y, x).sin()
            torch.tpu.synchronize()
            before = torch_tpu.counters()["executions"]
        r = add(x * 2, y) + add(y, x).sin()
        r.cpu()
        assert torch_tpu.counters()["executions"] == before + 1


# ---- arguments ----
class Way(enum.Enum):
    UP = 1
    DOWN = -1


@pallas.jax_op("test_pallas::everything")
def everything(
    xs: list[jax.Array],
    bias: Optional[jax.Array],
    scale: float,
    way: Way,
    dtype: jnp.dtype,
    shape: tuple[int, ...],
    name: str = "sum",
    flip: bool = False,
) -> tuple[jax.Array, jax.Array]:
    assert isinstance(way, Way) and isinstance(shape, tuple) and isinstance(scale, float)
    total = sum(xs) if name == "sum" else xs[0]
    if bias is not None:
        total = total + bias
    total = (total * scale * way.value).astype(dtype).reshape(shape)
    return (-total if flip else total), jnp.isfinite(total)


def test_static_arguments():
    xs = [torch.randn(2, 6), torch.randn(2, 6)]
    on = [x.to("tpu") for x in xs]
    a, b = everything(on, None, 2.0, Way.DOWN, torch.bfloat16, (3, 4))
    torch.testing.assert_close(a.cpu(), ((xs[0] + xs[1]) * -2).bfloat16().reshape(3, 4))
    assert b.dtype == torch.bool and b.all()
    a, _ = everything(on, on[0][:1], 0.5, Way.UP, jnp.float16, [12], "first", flip=True)
    torch.testing.assert_close(a.cpu(), -((xs[0] + xs[0][:1]) * 0.5).half().reshape(12))


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bfloat16,
        torch.float16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.int8,
        torch.int64,
        torch.float64,
        torch.bool,
        torch.complex64,
        torch.uint16,
    ],
)
def test_dtypes(dtype):
    def doubled(x: jax.Array) -> jax.Array:
        return (x.astype(jnp.float64) * 2).astype(x.dtype) if x.dtype == jnp.float64 else x

    op = pallas.jax_op(unique(), doubled)
    x = torch.tensor([0, 1, 3, 2]).to(dtype)
    r = op(x.to("tpu")).cpu()
    assert r.dtype == dtype and r.tolist() == (x * 2 if dtype == torch.float64 else x).tolist()


def test_64_bits_are_kept():
    def next_one(x: jax.Array) -> jax.Array:
        return x + 1

    assert pallas.jax_op(unique(), next_one)(torch.tensor([2 ** 40], device="tpu")).tolist() == [2 ** 40 + 1]


def test_host_tensors_and_other_shapes():
    x, y = torch.randn(32, 128), torch.randn(32, 128)
    torch.testing.assert_close(add(x, y, block=16), x + y)
    torch.testing.assert_close(add(x.to("tpu"), y.to("tpu").flip(0)).cpu(), x + y.flip(0))


def test_derived_gradients_of_several_results():
    def both(x: jax.Array, i: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return jnp.tanh(x @ w), x[i], i + 1

    op = pallas.jax_op(unique(), both)
    x, i, w = torch.randn(4, 3), torch.tensor([2, 0, 2]), torch.randn(3, 5)
    results = []
    for device, f in ("cpu", lambda x, i, w: ((x @ w).tanh(), x[i], i + 1)), ("tpu", op):
        a, b = (t.to(device, copy=True).requires_grad_() for t in (x, w))
        p, q, _ = f(a, i.to(device), b)
        (p.sum() + q.square().sum()).backward()
        a2 = a.detach().requires_grad_()
        f(a2, i.to(device), b.detach())[1].sum().backward()  # a result without a gradient
        results.append([a.grad.cpu(), b.grad.cpu(), a2.grad.cpu()])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_kernels_are_told_of_the_chip_they_are_for(monkeypatch):
    from jax._src.pallas.mosaic import tpu_info
    from jax.experimental.pallas import tpu as pltpu
    from jax.extend import backend
    monkeypatch.setitem(tpu_info.registry, "cpu", lambda: None)  # as other libraries do
    seen = []

    def asks(x: jax.Array) -> jax.Array:
        kind = backend.get_default_device().device_kind
        seen.append((kind, pltpu.get_tpu_info().vmem_capacity_bytes >> 20, str(pltpu.get_tpu_info().chip_version)))
        return x + 1

    op = pallas.jax_op(unique(), asks)
    for topology in TOPOLOGIES:
        aot.compile(lambda x: op(x), (torch.zeros(8),), topology=topology)
    assert seen[1:] == [("TPU v5 lite", 128, "v5e"), ("TPU v6 lite", 128, "v6e"), ("TPU7x", 64, "7x")]
    assert op(torch.zeros(1, device="tpu")).item() == 1 and seen[-1][0] == "cpu"
    assert backend.get_default_device().platform == "cpu"


@pytest.mark.parametrize("in_dims", [(0, 0), (1, None), (None, 0)])
@pytest.mark.parametrize("mode", ["strict", "fuse"])
def test_vmap(in_dims, mode):
    """Of a Pallas kernel, with its derivative."""
    def shape(d):
        return (16, 128) if d is None else (3, 16, 128) if d == 0 else (16, 3, 128)

    xs = [torch.randn(shape(d)) for d in in_dims]
    results = []
    for device, fn in ("cpu", torch.mul), ("tpu", product):
        args = [x.to(device, copy=True).requires_grad_() for x in xs]
        with torch_tpu.set_eager_mode(mode):
            out = torch.vmap(fn, in_dims=in_dims)(*args)
            gradients = torch.autograd.grad(out.sin().sum(), args)
        results.append([out.detach().cpu(), *[g.cpu() for g in gradients]])
    torch.testing.assert_close(results[1], results[0])


@functools.partial(jax.custom_vjp)
def _product(x, y):
    def kernel(x, y, o):
        o[...] = x[...] * y[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


_product.defvjp(lambda x, y: (_product(x, y), (x, y)), lambda saved, g: (g * saved[1], g * saved[0]))


@pallas.jax_op("test_pallas::product")
def product(x: jax.Array, y: jax.Array) -> jax.Array:
    return _product(x, y)


def test_vmap_of_lists_and_statics():
    xs = [torch.randn(3, 2, 6), torch.randn(2, 6)]
    on = [x.to("tpu") for x in xs]
    a, b = torch.vmap(lambda x, y: everything([x, y], None, 2.0, "UP", torch.float32, (3, 4)), in_dims=(0, None))(*on)
    torch.testing.assert_close(a.cpu(), ((xs[0] + xs[1]) * 2).reshape(3, 3, 4))
    assert b.shape == (3, 3, 4)
    op = pallas.jax_op(unique(), _twice)
    op.register_vmap(lambda info, in_dims, x: (op(x) * 10, in_dims[0]))  # the last one holds
    assert torch.vmap(op)(torch.ones(2, 2, device="tpu")).tolist() == [[20, 20]] * 2


def _twice(x: jax.Array) -> jax.Array:
    return x * 2


# ---- without JAX ----
PROGRAM = """
    import sys
    if sys.argv[1] == "without":
        sys.modules["jax"] = None
    import torch, torch_tpu
    from torch_tpu import pallas

    @pallas.jax_op("without::scaled")
    def scaled(x: "jax.Array", n: int) -> "jax.Array":
        import jax
        from jax.experimental import pallas as pl

        def kernel(x, o):
            o[...] = x[...] * n

        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    @pallas.jax_op("without::squared")
    def squared(x: "jax.Array") -> "jax.Array":
        return x * x

    x = torch.arange(8.0, device="tpu")
    for mode in ("strict", "fuse", "debug"):
        with torch_tpu.set_eager_mode(mode):
            assert (scaled(x, 3) + 1).tolist() == [3 * i + 1 for i in range(8)]
    w = x.clone().requires_grad_()
    torch.compile(lambda w: (squared(w) + scaled(w.detach(), 3)).sum(), fullgraph=True, backend="tpu")(w).backward()
    assert w.grad.tolist() == [2 * i for i in range(8)]
    step = torch_tpu.compile_step(lambda x: scaled(x, 3) * 2, fullgraph=True)
    assert step(x).tolist() == step(x).tolist() == [6 * i for i in range(8)]
    print("jax" in sys.modules and sys.modules["jax"] is not None)
    try:
        if sys.argv[1] == "without":
            scaled(x[:4], 5)
    except ImportError as e:
        print(e)
"""


def test_a_process_without_jax(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(tmp_path / "cache")}
    lines = []
    for word in "with", "without":
        r = subprocess.run([sys.executable, str(script), word], env=env, capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        lines.append(r.stdout.splitlines())
    assert lines[0] == ["True"]
    assert lines[1][0] == "False" and lines[1][1].startswith("without::scaled: JAX traces this kernel")


# ---- what is wrong ----
def _untyped(x, y: jax.Array) -> jax.Array:
    return x


def _returns_untold(x: jax.Array):
    return x


def _starred(*xs: jax.Array) -> jax.Array:
    return xs[0]


def _odd(x: jax.Array, y: dict) -> jax.Array:
    return x


def _no_array(n: int) -> jax.Array:
    return jnp.ones(n)


def _returns_number(x: jax.Array) -> int:
    return 1


DECLARED = {  # function -> what jax_op says of it
    _untyped: r"test_pallas\.py:\d+\): parameter x has no annotation; write x: jax.Array",
    _returns_untold: r"what it returns has no annotation; write -> jax.Array",
    _starred: r"parameter xs: an operator takes no \*args",
    _odd: r"parameter y: expected jax.Array, int, .* got <class 'dict'>",
    _no_array: r"a kernel takes a jax.Array at least",
    _returns_number: r"expected it to return jax.Array, or a tuple or list of them, got <class 'int'>",
}


@pytest.mark.parametrize("fn", DECLARED, ids=lambda fn: fn.__name__)
def test_wrong_declarations(fn):
    name = unique()
    with pytest.raises(pallas.SignatureError, match=DECLARED[fn]) as e:
        pallas.jax_op(name, fn)
    assert name in str(e.value)


def test_wrong_options():
    def same(x: jax.Array, n: int = 1) -> jax.Array:
        return x

    with pytest.raises(ValueError, match="donate_argnums: argument 1 is no tensor"):
        pallas.jax_op(unique(), same, donate_argnums=(1,))
    with pytest.raises(TypeError, match="expected a function, got int"):
        pallas.jax_op(unique(), 3)
    with pytest.raises(ValueError, match="form namespace::operator"):
        pallas.jax_op("same", same)
    with pytest.raises(NotImplementedError, match="a mesh of devices is not done"):
        pallas.jax_op(unique(), same, mesh=object())
    op = pallas.jax_op(unique(), same, donate_argnums=0)
    assert op(torch.ones(2, device="tpu")).tolist() == [1, 1]


def _two_for_one(x: jax.Array) -> jax.Array:
    return x, x


def _one_for_two(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return (x,)


def _no_result(x: jax.Array) -> jax.Array:
    return None


def _raises(x: jax.Array) -> jax.Array:
    raise LookupError("no such block")


def _shapes(x: jax.Array) -> jax.Array:
    return x @ x


def _reads(x: jax.Array) -> jax.Array:
    return x if x.sum() > 0 else -x


def _small(x: jax.Array) -> jax.Array:
    return x.astype(jnp.int4)


def _kernel_shape(x: jax.Array) -> jax.Array:
    def kernel(x, o):
        o[...] = x[:1]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(
        jnp.zeros((3, 3), x.dtype) + x[0, 0]
    )


CALLED = {  # function -> what its call says
    _two_for_one: "annotated to return one jax.Array and returned 2",
    _one_for_two: "annotated to return 2 arrays and returned 1",
    _no_result: "expected it to return jax.Array, got NoneType",
    _raises: "cannot be traced: LookupError: no such block",
    _shapes: "cannot be traced: TypeError: dot_general requires contracting dimensions",
    _reads: "cannot be traced: TracerBoolConversionError",
    _small: "torch has no dtype for result 0, which is int4",
    _kernel_shape: "cannot be traced: ValueError",
}


@pytest.mark.parametrize("fn", CALLED, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("how", ["strict", "fuse", "compiled"])
def test_wrong_kernels(fn, how):
    name = unique()
    op, x = pallas.jax_op(name, fn), torch.ones(2, 3, device="tpu")
    if how == "compiled":
        with pytest.raises(Exception, match=CALLED[fn]) as e:
            torch.compile(lambda x: op(x), fullgraph=True, backend="tpu")(x)
    else:
        with torch_tpu.set_eager_mode(how), pytest.raises(pallas.KernelError, match=CALLED[fn]) as e:
            op(x)
    assert name in str(e.value) and "test_pallas.py:" in str(e.value)


def test_what_mosaic_refuses():
    def blocks(x: jax.Array) -> jax.Array:
        def kernel(x, o):
            o[...] = x[...]

        spec = pl.BlockSpec((3, 5), lambda i: (i, 0))
        return pl.pallas_call(
            kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(4,), in_specs=[spec], out_specs=spec
        )(x)

    name = unique()
    op = pallas.jax_op(name, blocks)
    with pytest.raises(
        Exception, match=rf"{name} .*test_pallas.py:\d+\): cannot be compiled for tpu: ValueError: .*block shape"
    ):
        aot.compile(lambda x: op(x), (torch.zeros(12, 10),), topology="v6e:2x2")


def test_what_has_no_derivative():
    def rounded(x: jax.Array) -> jax.Array:
        return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    op = pallas.jax_op(unique(), rounded)
    x = torch.ones(2, 3, device="tpu", requires_grad=True)
    with pytest.raises(pallas.KernelError, match="cannot be .*pure_callback|Pure callbacks do not support"):
        op.backward(x, [torch.ones(2, 3, device="tpu")])


# ---- derivatives that there are not ----
def _cubed(x: jax.Array) -> jax.Array:
    return x * x * x


def _imaginary(x: jax.Array) -> jax.Array:
    return x * 1j


def _same(x: jax.Array) -> jax.Array:
    return x * 1


@pytest.mark.parametrize("mode", MODES)
def test_no_second_derivative(mode):
    op, x = pallas.jax_op(unique(), _cubed), torch.ones(2, device="tpu", requires_grad=True)
    with torch_tpu.set_eager_mode(mode):
        (g,) = torch.autograd.grad(op(x).sum(), x, create_graph=True)
        assert g.tolist() == [3, 3]
        with pytest.raises(pallas.KernelError, match=r"test_pallas.py:\d+\): a kernel has no second derivative"):
            torch.autograd.grad(g.sum(), x)


@pytest.mark.parametrize("device", ["tpu", "cpu"])
def test_no_forward_mode(device):
    op, x = pallas.jax_op(unique(), _cubed), torch.ones(2, device=device)
    for f in op, op.op:
        with pytest.raises(NotImplementedError, match="no forward-mode derivative"):
            torch.func.jvp(f, (x,), (x,))
        with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="no forward-mode"):
            with torch.no_grad():
                f(torch.autograd.forward_ad.make_dual(x, x))
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.grad(lambda x: op(x).sum())(x)


def test_no_derivative_of_complex_tensors():
    op, x = pallas.jax_op(unique(), _imaginary), torch.ones(2, device="tpu", requires_grad=True)
    with pytest.raises(pallas.KernelError, match="derivatives of complex tensors are not done"):
        op(x).imag.sum().backward()
    z = torch.ones(2, dtype=torch.complex64, device="tpu", requires_grad=True)
    with pytest.raises(pallas.KernelError, match="derivatives of complex tensors are not done"):
        pallas.jax_op(unique(), _same)(z).real.sum().backward()
    assert op(x.detach()).imag.tolist() == [1, 1]


def test_a_list_and_what_is_left_out():
    def summed(xs: list[jax.Array], y: Optional[jax.Array] = None) -> tuple[jax.Array, jax.Array]:
        return sum(xs), (xs[0] if y is None else y)

    op, x = pallas.jax_op(unique(), summed), torch.ones(2, device="tpu", requires_grad=True)
    op([x, x * 2])[0].sum().backward()
    assert x.grad.tolist() == [3, 3]
    op([x, x * 2], x * 5)[1].sum().backward()
    assert x.grad.tolist() == [8, 8]


def test_calls_back_into_python():
    def called(x: jax.Array) -> jax.Array:
        return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    def printed(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x)
        return x * 2

    for fn in called, printed:
        with torch_tpu.set_eager_mode("strict"), pytest.raises(pallas.KernelError, match="calls back into Python"):
            pallas.jax_op(unique(), fn)(torch.ones(2, device="tpu"))


# ---- derivatives without Python ----
def test_a_node_is_as_torch_s_own():
    """Twice, freed, with hooks on what is saved, under checkpointing, and of a part of the arguments."""
    import gc
    import weakref
    x, y = (torch.randn(2, 6, device="tpu", requires_grad=True) for _ in range(2))

    def fn(x, y):
        return everything([x, y], None, 2.0, Way.UP, torch.float32, (12,))[0]

    out = fn(x, y)
    assert out.requires_grad and out.grad_fn.name().endswith("KernelBackward")
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    assert x.grad.unique().tolist() == y.grad.unique().tolist() == [4]
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.sum().backward()
    kept = weakref.ref(out)
    del out
    gc.collect()
    assert kept() is None
    moved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (moved.append(t), t.cpu())[1], lambda t: t.to("tpu")):
        out = fn(x, y.detach())
    assert len(moved) == 2 and torch.autograd.grad(out.sum(), x)[0].unique().tolist() == [2]
    again = torch.utils.checkpoint.checkpoint(lambda x: fn(x, y).square(), x, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(again.sum(), x)[0], (x + y).detach() * 8)


def test_a_call_with_gradients_runs_no_python():
    x = torch.randn(16, 128, device="tpu", requires_grad=True)
    op = pallas.jax_op(unique(), _twice)
    op(x)
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        op.op._op(x)
    finally:
        sys.setprofile(None)
    assert not [f for f in seen if f.endswith("autograd.py")]
