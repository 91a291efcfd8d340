"""What the native side asks Python: how an operator without a rule is composed of others, and what a call returns.

A decomposition takes its operator's arguments and returns its results; all of it becomes one program. A Meta kernel
takes them as meta tensors, and says sizes, strides and dtypes as the CPU gives them."""
import torch
from torch._prims_common.wrappers import _maybe_resize_out

DECOMPOSITIONS = {}  # operator of aten -> function
_aten = torch.library.Library("aten", "IMPL", "Meta")
_own = torch.library.Library("torch_tpu", "FRAGMENT")
_MAY_BE_META = (
    "Meta",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
)


def overload(name):
    """The operator of aten, or of the namespace before ::, for "add.Tensor"."""
    namespace, _, rest = name.rpartition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace or "aten"), base), overload or "default")


def _has_meta(op):
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key) for key in _MAY_BE_META)


def answers(*names):
    """Keeps a function as the Meta kernel of these operators of aten.

    Where torch has none it becomes torch's, so that fake tensors can ask as well. Where torch has one, which takes a
    device that it cannot see for CUDA, that is left alone: the native side first asks an operator of the same name and
    schema in torch_tpu's namespace."""

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


def _out_form(op):
    """The out= overload with op's arguments, or None."""
    own = [(a.name, str(a.type)) for a in op._schema.arguments]
    packet = op.overloadpacket
    for form in (getattr(packet, name) for name in packet.overloads()):
        arguments = form._schema.arguments
        if any(a.is_out for a in arguments) and [(a.name, str(a.type)) for a in arguments if not a.is_out] == own:
            return form if all(str(a.type) == "Tensor" for a in arguments if a.is_out) else None
    return None


def _answers_out(form, fn):
    names = [a.name for a in form._schema.arguments if a.is_out]

    def meta(*args, **options):
        outs = tuple(options.pop(name) for name in names)
        results = fn(*args, **options)
        for out, like in zip(outs, results if isinstance(results, tuple) else (results,)):
            torch._check(
                torch.can_cast(like.dtype, out.dtype),
                lambda: f"result type {_word(like)} can't be cast to the desired output " f"type {_word(out)}",
            )
            _maybe_resize_out(out, like.shape)
        return outs if len(outs) > 1 else outs[0]

    answers(form.name().removeprefix("aten::"))(meta)


def _word(x):
    return WORDS.get(x.dtype, str(x.dtype))


# How torch's messages name dtypes.
WORDS = {
    torch.float32: "Float",
    torch.float64: "Double",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
    torch.bool: "Bool",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.uint16: "UInt16",
    torch.uint32: "UInt32",
    torch.uint64: "UInt64",
}


def decomposes(*names):
    """Keeps a function as the decomposition of these operators of aten, and as their Meta kernel, and that of their
    out= forms, where torch has none."""

    def keep(fn):
        for name in names:
            op = overload(name)
            DECOMPOSITIONS[op] = fn
            if not _has_meta(op):
                answers(name)(fn)
            form = _out_form(op)
            if form is not None and not _has_meta(form):
                _answers_out(form, fn)
        return fn

    return keep


def wide(x):
    """x in the dtype that it is computed in: float32 for 16-bit floats."""
    return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
