"""Functions of JAX arrays to StableHLO text: the only place that imports JAX, when a kernel is traced that is not
stored.

JAX's own device is the CPU here: it traces and lowers, for whichever platform, and never runs a kernel. For the CPU
Pallas kernels are lowered in the form that its interpreter has in XLA (loops over the grid). Where an argument has 64
bits, JAX is told to keep them; its default is to narrow them."""
import contextlib
import functools
import os
import re
import sys
import traceback
from unittest import mock

import torch

from .._internal.utils.hardware import CPU_STANDS_FOR, get_tpu_device_name
from ..kernels.text import DTYPES, Spec
from .signature import place

_NARROW_ONLY = {torch.int64, torch.uint64, torch.float64, torch.complex128}


class KernelError(RuntimeError):
    """A kernel that JAX, Pallas or Mosaic refuses, with the kernel's name and line."""


def jax_for(name):
    """The module jax. ImportError, naming the kernel, where it is not installed."""
    if "jax" not in sys.modules:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        import jax
        if not jax.config.jax_platforms:  # the device is ours
            jax.config.update("jax_platforms", "cpu")
    except ImportError as e:
        raise ImportError(f"{name}: JAX traces this kernel for these arguments and cannot be imported ({e}); "
                          f"a process that has JAX stores what it traces in the cache folder") from e
    return jax


class _Chip:
    """What libraries of kernels ask of JAX's default device, as which a program's TPU is."""

    def __init__(self, kind):
        self.platform, self.device_kind, self.id, self.process_index = "tpu", kind, 0, 0


@functools.cache
def _contexts(jax):
    """(a context of the chip that kernels are made for, which a kernel that asks JAX for its device is told of: JAX's own
    device is the CPU; a context in which it is told that chip's sizes too). Which chip is a part of JAX's own keys."""
    chip, told = jax.make_user_context(None), contextlib.nullcontext
    with contextlib.suppress(ImportError, AttributeError):  # no public interface
        from jax._src.pallas.mosaic import tpu_info

        def sizes():
            return tpu_info.get_tpu_info_for_chip(
                tpu_info.chip_version_from_device_kind(chip.value or CPU_STANDS_FOR), 1
            )

        def told():  # for each trace: Helion registers sizes of its own
            return mock.patch.dict(tpu_info.registry, cpu=sizes)
    from jax.extend import backend
    device = backend.get_default_device
    backend.get_default_device = functools.wraps(device)(lambda: _Chip(chip.value) if chip.value else device())
    return chip, told


def numpy_dtype(dtype):
    """numpy's for torch's."""
    import jax.numpy as jnp
    return jnp.dtype(str(dtype).removeprefix("torch."))


def torch_dtype(dtype):
    """torch's for numpy's, or None where tpu tensors have none."""
    found = getattr(torch, dtype.name, None)
    return found if found in DTYPES.values() else None


def structs(name, jax, specs):
    made = []
    for i, s in enumerate(specs):
        try:
            made.append(jax.ShapeDtypeStruct(s.shape, numpy_dtype(s.dtype)))
        except TypeError:
            raise TypeError(f"{name}: JAX has no dtype for argument {i} of {s}") from None
    return made


@contextlib.contextmanager
def _settings(jax, specs, platform):
    with contextlib.ExitStack() as stack:
        chip, told = _contexts(jax)
        stack.enter_context(chip(get_tpu_device_name() if platform == "tpu" else None))
        stack.enter_context(told())
        if any(s.dtype in _NARROW_ONLY for s in specs):
            stack.enter_context(jax.enable_x64(True))
        if platform == "cpu":
            from jax.experimental.pallas import tpu
            stack.enter_context(tpu.force_tpu_interpret_mode(True))
        yield


def _line(fn, e):
    """The innermost line of the kernel's file in the traceback, else the kernel's own."""
    file = place(fn).rpartition(":")[0]
    lines = [f for f in traceback.extract_tb(e.__traceback__) if f.filename == file]
    return f"{file}:{lines[-1].lineno}" if lines else place(fn)


@contextlib.contextmanager
def _told(name, fn, doing):
    try:
        yield
    except KernelError as e:
        getattr(e, "__notes__", []).clear()  # what JAX says of its tracebacks
        raise
    except Exception as e:
        raise KernelError(f"{name} ({_line(fn, e)}): {doing}: {said(e)}") from e


def said(e):
    """An exception as one line."""
    text = " ".join(line.strip() for line in str(e).split("\n\n")[0].splitlines())
    return f"{type(e).__name__}: {text[:600]}" if text else type(e).__name__


def flat(name, fn, returns, made, jax):
    """What the function returned as a list of arrays. KernelError where that is not what its annotation says."""
    where = f"{name} ({place(fn)})"
    items = list(made) if isinstance(made, (tuple, list)) else [made]
    if returns == "Tensor" and isinstance(made, (tuple, list)):
        if len(items) != 1:
            raise KernelError(f"{where}: it is annotated to return one jax.Array and returned {len(items)}")
    elif isinstance(returns, int) and len(items) != returns:
        raise KernelError(f"{where}: it is annotated to return {returns} arrays and returned {len(items)}")
    for x in items:
        if not isinstance(x, jax.Array) and not hasattr(x, "dtype"):
            raise KernelError(f"{where}: expected it to return jax.Array, got {type(x).__name__}")
    return items


def outputs(name, fn, bound, specs):
    """Specs of what bound(*arrays), made of fn, returns for arrays like specs."""
    jax = jax_for(name)
    with _settings(jax, specs, "tpu"), _told(name, fn, "cannot be traced"):
        made = jax.eval_shape(bound, *structs(name, jax, specs))
    found = []
    for i, x in enumerate(made):
        dtype = torch_dtype(x.dtype)
        if dtype is None:
            raise KernelError(f"{name} ({place(fn)}): torch has no dtype for result {i}, which is {x.dtype.name}")
        found.append(Spec(dtype, tuple(x.shape)))
    return tuple(found)


def _interpreted(jax, fn, given):
    """fn with every Pallas kernel in it interpreted: pl.kernel does not ask for what the settings say."""
    from jax.extend import core

    def changed(x):
        if isinstance(x, core.ClosedJaxpr):
            return x.replace(jaxpr=changed(x.jaxpr))
        if isinstance(x, core.Jaxpr):
            return x.replace(eqns=[e.replace(params=of(e)) for e in x.eqns])
        return type(x)(map(changed, x)) if type(x) in (list, tuple) else x

    def of(equation):
        params = {k: changed(v) for k, v in equation.params.items()}
        if params.get("interpret") is False:
            params["interpret"] = True
        return params

    return core.jaxpr_as_fun(changed(jax.make_jaxpr(fn)(*given)))


def text(name, fn, bound, specs, platform) -> str:
    """The StableHLO module of bound(*arrays) for a platform, "cpu" or "tpu"."""
    jax = jax_for(name)
    with _settings(jax, specs, platform), _told(name, fn, f"cannot be compiled for {platform}"):
        given = structs(name, jax, specs)
        if platform == "cpu":
            bound = _interpreted(jax, bound, given)
        traced = jax.jit(bound, keep_unused=True).trace(*given)
        made = traced.lower(lowering_platforms=(platform,)).as_text()
        if re.search(r"custom_call @\w*(python|callback)", made):
            raise NotImplementedError("it calls back into Python (jax.pure_callback, jax.debug.print), which a program "
                                      "that others run cannot")
        return made
