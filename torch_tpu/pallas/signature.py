"""What an annotated function of JAX arrays looks like as a torch operator: schema, and arguments from one to the other.

Annotations say what is a tensor (jax.Array, or torch.Tensor; None and lists of them) and what is static, a part of the
kernel: int, float, bool, str, complex, dtypes, members of an Enum, lists and tuples of numbers. They may be text; JAX
need not be there to read them."""
import dataclasses
import enum
import inspect
import types
import typing

import torch


class SignatureError(TypeError):
    """A function that cannot be an operator."""


class Array:
    """Stands for jax.Array where JAX is not imported."""


class _Absent:
    """Stands for a module that is not imported."""

    def __getattr__(self, name):
        return Array if name in ("Array", "ndarray") else torch.dtype if name in ("dtype", "DTypeLike") else _Absent()


def place(fn) -> str:
    """"file.py:12" of a function."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(fn)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """kind: tensor, tensors, or static. of: what its values become before the function gets them."""

    name: str
    schema: str
    kind: str
    of: object = None


_PLAIN = {int: "int", float: "float", bool: "bool", str: "str", complex: "complex"}


def _is_array(a):
    if a in (Array, torch.Tensor):
        return True
    return (
        isinstance(a, type) and a.__module__.startswith("jax") and a.__name__.rpartition(".")[2] in ("Array", "ndarray")
    )


def _is_dtype(a):
    return a is torch.dtype or (isinstance(a, type) and (a.__module__, a.__name__) == ("numpy", "dtype"))


def _resolved(fn, annotation):
    if not isinstance(annotation, str):
        return annotation
    code = inspect.unwrap(fn)
    inner = inspect.getclosurevars(code) if hasattr(code, "__code__") else None
    names = {"jax": _Absent(), "jnp": _Absent(), "np": _Absent(), **vars(typing), **getattr(code, "__globals__", {})}
    names.update(inner.nonlocals if inner else {})
    for name in ("jax", "jnp", "np"):
        if names[name] is None:
            names[name] = _Absent()
    try:
        return eval(annotation, names)  # noqa: S307  as typing.get_type_hints does
    except Exception:
        return annotation


def _optional(a):
    """(what is in an Optional, True), or (a, False)."""
    if typing.get_origin(a) in (typing.Union, types.UnionType):
        inner = [x for x in typing.get_args(a) if x is not type(None)]
        if len(inner) == 1 and len(inner) < len(typing.get_args(a)):
            return inner[0], True
    return a, False


def _of(a, where):
    """(schema type, kind, of) of a parameter's annotation."""
    a, optional = _optional(a)
    mark = "?" if optional else ""
    if _is_array(a):
        return "Tensor" + mark, "tensor", None
    if a in _PLAIN:
        return _PLAIN[a] + mark, "static", a
    if _is_dtype(a):
        return "ScalarType" + mark, "static", "torch" if a is torch.dtype else "numpy"
    if isinstance(a, type) and issubclass(a, enum.Enum):
        return "str" + mark, "static", a
    origin, inner = typing.get_origin(a), [x for x in typing.get_args(a) if x is not Ellipsis]
    if origin in (list, tuple) and inner and all(x == inner[0] for x in inner):
        if _is_array(inner[0]) and origin is list and not optional:
            return "Tensor[]", "tensors", None
        if inner[0] in (int, float, bool):
            return f"{_PLAIN[inner[0]]}[]{mark}", "static", origin
    raise SignatureError(f"{where}: expected jax.Array, int, float, bool, str, a dtype, an Enum, or a list of these, "
                         f"got {a!r}")


def _shown(value):
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, enum.Enum):
        value = value.name
    return '"' + value.replace('"', '\\"') + '"' if isinstance(value, str) else str(value)


@dataclasses.dataclass(frozen=True)
class Signature:
    """parameters, and returns: "Tensor", "Tensor[]", or how many of a tuple."""

    parameters: tuple
    returns: object
    schema: str

    def arguments(self, args):
        """What the operator gets for what was called: enums by name, dtypes as torch's."""
        return [_for_operator(p, a) for p, a in zip(self.parameters, args)]

    def values(self, args, tensors):
        """What the function gets: tensors, an iterator, in place of the operator's; statics as annotated."""
        found = []
        for p, a in zip(self.parameters, args):
            if p.kind == "tensor":
                found.append(None if a is None else next(tensors))
            elif p.kind == "tensors":
                found.append([next(tensors) for _ in a])
            else:
                found.append(_for_function(p, a))
        return found


def is_translated(p) -> bool:
    """Whether the operator takes something else than the function: an Enum's names, torch's dtypes."""
    return p.of in ("numpy", "torch") or (isinstance(p.of, type) and issubclass(p.of, enum.Enum))


def _for_operator(p, a):
    if isinstance(p.of, type) and issubclass(p.of, enum.Enum) and isinstance(a, p.of):
        return a.name
    if p.of in ("torch", "numpy") and a is not None and not isinstance(a, torch.dtype):
        import numpy
        return getattr(torch, "bool" if numpy.dtype(a).name == "bool" else numpy.dtype(a).name)
    return a


def _for_function(p, a):
    if a is None:
        return None
    if isinstance(p.of, type) and issubclass(p.of, enum.Enum):
        return p.of[a]
    if p.of == "numpy":
        from .trace import numpy_dtype
        return numpy_dtype(a)
    return p.of(a) if p.of in (list, tuple, float, complex) else a


def of(name, fn) -> Signature:
    """The operator's of a function. SignatureError, naming parameter and line, where an annotation is missing or is
    none."""
    where = f"{name} ({place(fn)})"
    parts, parameters = [], []
    for p in inspect.signature(fn).parameters.values():
        here = f"{where}: parameter {p.name}"
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise SignatureError(f"{here}: an operator takes no *args or **kwargs; name its parameters")
        if p.annotation is p.empty:
            raise SignatureError(f"{here} has no annotation; write {p.name}: jax.Array, or the type of a static value")
        schema, kind, made = _of(_resolved(fn, p.annotation), here)
        parameters.append(Parameter(p.name, schema, kind, made))
        if p.kind is p.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if p.default is p.empty else f"={_shown(_for_operator(parameters[-1], p.default))}"
        if default and schema.startswith("ScalarType"):
            if p.default is not None:
                raise SignatureError(f"{here}: a dtype has no default but None")
        parts.append(f"{schema} {p.name}{default}")
    if not any(p.kind != "static" for p in parameters):
        raise SignatureError(f"{where}: a kernel takes a jax.Array at least")
    annotation = inspect.signature(fn).return_annotation
    if annotation is inspect.Signature.empty:
        raise SignatureError(
            f"{where}: what it returns has no annotation; write -> jax.Array, or a tuple or list of them"
        )
    a = _resolved(fn, annotation)
    inner = typing.get_args(a)
    if _is_array(a):
        returns, shown = "Tensor", "Tensor"
    elif typing.get_origin(a) is tuple and inner and all(map(_is_array, inner)):
        returns, shown = len(inner), "(" + ", ".join(["Tensor"] * len(inner)) + ")"
    elif typing.get_origin(a) is list and inner and _is_array(inner[0]):
        returns, shown = "Tensor[]", "Tensor[]"
    else:
        raise SignatureError(f"{where}: expected it to return jax.Array, or a tuple or list of them, got {a!r}")
    return Signature(tuple(parameters), returns, f"({', '.join(parts)}) -> {shown}")
