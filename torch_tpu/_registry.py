"""What the native side asks Python: how an operator without a rule is composed of others, and what a call returns.

A decomposition takes its operator's arguments and returns its results; all of it becomes one program. A Meta kernel takes them as
meta tensors, and says sizes, strides and dtypes as the CPU gives them."""
import torch

DECOMPOSITIONS = {}  # operator of aten -> function
_aten = torch.library.Library("aten", "IMPL", "Meta")
_own = torch.library.Library("torch_tpu", "FRAGMENT")
_MAY_BE_META = ("Meta", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")


def overload(name):
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def _has_meta(op):
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key) for key in _MAY_BE_META)


def answers(*names):
    """Keeps a function as the Meta kernel of these operators of aten.

    Where torch has none it becomes torch's, so that fake tensors can ask as well. Where torch has one, which takes a device that it
    cannot see for CUDA, that is left alone: the native side first asks an operator of the same name and schema in torch_tpu's
    namespace."""

    def keep(fn):
        for name in names:
            op = overload(name)
            if _has_meta(op):
                _own.define(str(op._schema).removeprefix("aten::"))
                _own.impl(name, fn, "Meta")
            else:
                _aten.impl(name, fn)
        return fn

    return keep


def decomposes(*names):
    """Keeps a function as the decomposition of these operators of aten, and as their Meta kernel where torch has none."""

    def keep(fn):
        for name in names:
            op = overload(name)
            DECOMPOSITIONS[op] = fn
            if not _has_meta(op):
                answers(name)(fn)
        return fn

    return keep


def wide(x):
    """x in the dtype that it is computed in: float32 for 16-bit floats."""
    return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
