"""Kernels written in JAX and Pallas as torch operators: docs/kernels.md. JAX is imported when a kernel is traced."""
import functools

from . import signature as _signature
from .op import JaxKernel, derive_backward, derive_vmap
from .signature import SignatureError
from .trace import KernelError

__all__ = ["JaxKernel", "KernelError", "SignatureError", "custom_jax_kernel", "jax_op"]


def jax_op(name, fn=None, *, donate_argnums=None, mesh=None, input_partition_specs=None, output_partition_specs=None):
    """A function of JAX arrays as the torch operator name ("namespace::operator"); without fn, a decorator.

    fn: annotated. jax.Array (or torch.Tensor), Optional and list of it are tensors; int, float, bool, str, dtypes,
    Enums, lists and tuples of numbers are static: each value is a kernel of its own. It returns jax.Array, or a tuple
    or list of them. Sizes are static as well.

    Its gradients are those that JAX derives of it, with the forward computed again, unless register_autograd(backward,
    setup_context=) of the result gives others. donate_argnums: positions of tensors whose memory results may take; they
    are only checked, since a program takes the memory of what nobody else holds anyway.

    Raises SignatureError (a TypeError) for a function that cannot be an operator, and, when it is called, KernelError
    (a RuntimeError) with the kernel's name and line for what JAX, Pallas or Mosaic refuse."""
    if fn is None:
        return functools.partial(
            jax_op,
            name,
            donate_argnums=donate_argnums,
            mesh=mesh,
            input_partition_specs=input_partition_specs,
            output_partition_specs=output_partition_specs,
        )
    if not callable(fn):
        raise TypeError(f"{name}: expected a function, got {type(fn).__name__}")
    if mesh is not None or input_partition_specs is not None or output_partition_specs is not None:
        raise NotImplementedError(f"{name}: a kernel over a mesh of devices is not done; it runs on one device")
    sign = _signature.of(name, fn)
    donated = (donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums or ())
    for i in donated:
        if not 0 <= i < len(sign.parameters) or sign.parameters[i].kind != "tensor":
            raise ValueError(f"{name}: donate_argnums: argument {i} is no tensor")
    kernel = JaxKernel(name, fn, sign)
    kernel.take_python_values(fn)
    derive_backward(kernel)
    derive_vmap(kernel)
    return kernel


def custom_jax_kernel(fn=None, *, name=None, **options):
    """jax_op under a name of its own: "jax_kernels::" and the function's. Also a decorator."""
    if fn is None:
        return functools.partial(custom_jax_kernel, name=name, **options)
    return jax_op(name or f"jax_kernels::{fn.__name__}", fn, **options)
