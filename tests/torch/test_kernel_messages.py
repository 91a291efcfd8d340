"""Twenty wrong kernels and what each of them is told: one sentence, with the kernel's name and its line."""
import uuid

import pytest
import torch

import torch_tpu
from torch_tpu import aot, kernels, pallas

jax = pytest.importorskip("jax", reason="kernels are written in JAX")
jnp = jax.numpy
pl = pytest.importorskip("jax.experimental.pallas")
pltpu = pytest.importorskip("jax.experimental.pallas.tpu")

CASES = []  # (what is wrong, how it is called, the message)


def wrong(how, message):
    """how: declared, called, differentiated, or compiled for a TPU. message: a pattern of what follows the name."""
    def keep(fn):
        CASES.append(pytest.param(fn, how, message, id=fn.__name__.removeprefix("_")))
        return fn

    return keep


def _call(kernel, x, block=None, shape=None):
    spec = pl.BlockSpec(block, lambda i: (i, 0)) if block else None
    options = {"grid": (x.shape[0] // block[0],), "in_specs": [spec], "out_specs": spec} if block else {}
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(shape or x.shape, x.dtype), **options)(x)


def _copy(x, o):
    o[...] = x[...]


# ---- declarations ----
@wrong("declared", r"\): parameter x has no annotation; write x: jax.Array, or the type of a static value$")
def _untyped(x) -> jax.Array:
    return x


@wrong("declared", r"\): what it returns has no annotation; write -> jax.Array, or a tuple or list of them$")
def _returns_untold(x: jax.Array):
    return x


@wrong("declared", r"\): parameter xs: an operator takes no \*args or \*\*kwargs; name its parameters$")
def _any_number(*xs: jax.Array) -> jax.Array:
    return xs[0]


@wrong("declared", r"\): parameter options: expected jax.Array, int, float, .* got <class 'dict'>$")
def _a_dict(x: jax.Array, options: dict) -> jax.Array:
    return x


@wrong("declared", r"\): a kernel takes a jax.Array at least$")
def _no_array(n: int) -> jax.Array:
    return jnp.ones(n)


@wrong("declared", r"\): expected it to return jax.Array, or a tuple or list of them, got <class 'float'>$")
def _a_number(x: jax.Array) -> float:
    return 1.0


# ---- what it returns ----
@wrong("called", r"\): it is annotated to return one jax.Array and returned 2$")
def _two_for_one(x: jax.Array) -> jax.Array:
    return x, x


@wrong("called", r"\): it is annotated to return 2 arrays and returned 1$")
def _one_for_two(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return (x,)


@wrong("called", r"\): expected it to return jax.Array, got NoneType$")
def _nothing(x: jax.Array) -> jax.Array:
    return None


@wrong("called", r"\): torch has no dtype for result 0, which is int4$")
def _small_numbers(x: jax.Array) -> jax.Array:
    return x.astype(jnp.int4)


# ---- what it does ----
@wrong("called", r"\): cannot be traced: LookupError: no such block$")
def _raises(x: jax.Array) -> jax.Array:
    raise LookupError("no such block")


@wrong("called", r"\): cannot be traced: TypeError: dot_general requires contracting dimensions to have the same shape")
def _shapes_that_do_not_fit(x: jax.Array) -> jax.Array:
    return x @ x


@wrong("called", r"\): cannot be traced: TracerBoolConversionError: Attempted boolean conversion of traced array")
def _looks_at_values(x: jax.Array) -> jax.Array:
    return x if x.sum() > 0 else -x


@wrong("called", r"\): cannot be traced: ValueError: .*")
def _stores_another_shape(x: jax.Array) -> jax.Array:
    def kernel(x, o):
        o[...] = x[:1, :3]

    return _call(kernel, x)


@wrong("called", r"\): cannot be compiled for cpu: NotImplementedError: it calls back into Python")
def _calls_python(x: jax.Array) -> jax.Array:
    return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@wrong("called", r"\): cannot be traced: ValueError: Index map function .* must return 2 values to match block_shape")
def _places_of_another_rank(x: jax.Array) -> jax.Array:
    spec = pl.BlockSpec((8, 128), lambda i: (i,))
    return pl.pallas_call(_copy, out_shape=x, grid=(2,), in_specs=[spec], out_specs=spec)(x)


# ---- what a TPU does not take ----
@wrong("compiled", r"\): cannot be compiled for tpu: ValueError: .*block shape")
def _odd_blocks(x: jax.Array) -> jax.Array:
    return _call(_copy, x, (4, 64))


@wrong("compiled", r"\): cannot be compiled for tpu: \w+: .*(sort|Unimplemented|not implemented|lowering)")
def _what_mosaic_lacks(x: jax.Array) -> jax.Array:
    def kernel(x, o):
        o[...] = jnp.linalg.cholesky(x[...] @ x[...].T)[:, :1] + x[...]

    return _call(kernel, x)


# ---- derivatives ----
@wrong("differentiated", r"\): JAX derives no gradient of it \(.*\); register_autograd\(.*\) gives one")
def _without_derivative(x: jax.Array) -> jax.Array:
    def kernel(x, o):
        @pl.when(pl.program_id(0) >= 0)
        def _():
            o[...] = jax.lax.while_loop(lambda y: y.sum() < 9.0, lambda y: y * 2, x[...] + 1)

    return _call(kernel, x, (8, 128))


@wrong("differentiated twice", r"\): a kernel has no second derivative; register_autograd with differentiable")
def _without_second_derivative(x: jax.Array) -> jax.Array:
    return x * x * x


def run(op, how):
    if how == "compiled":
        return aot.compile(lambda x: op(x), (torch.zeros(16, 128),), topology="v6e:2x2")
    x = torch.ones(16, 128, device="tpu", requires_grad=how != "called")
    y = op(x)
    if how == "differentiated":
        return y.sum().backward()
    if how == "differentiated twice":
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return g.sum().backward()


def test_there_are_twenty():
    assert len(CASES) == 20


@pytest.mark.parametrize("fn, how, message", CASES)
def test_message(fn, how, message, capfd):
    name = f"test_messages::{fn.__name__.strip('_')}_{uuid.uuid4().hex}"
    with torch_tpu.set_eager_mode("strict"), pytest.raises(Exception, match=message) as e:
        run(pallas.jax_op(name, fn), how)
    text = str(e.value)
    assert name in text and "test_kernel_messages.py:" in text, text
    assert "\n" not in text.strip(), text
    kind = pallas.SignatureError if how == "declared" else pallas.KernelError
    assert isinstance(e.value, kind) or kind.__name__ in text


def test_texts():
    """Of StableHLO: the operator's name, and what was expected."""
    with pytest.raises(kernels.TextError, match="test_messages::empty: "):
        kernels.stablehlo_op("test_messages::empty", "module {\n}")
