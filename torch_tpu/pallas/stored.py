"""Kernels on disk, so that a process without JAX runs what another has traced.

An entry is a JSON file in the folder "kernels" beside the programs, named by a digest of the kernel's name, the code of
its function and of all functions of the user's that it mentions, their values, and the call's dtypes, shapes and static
arguments. An entry that another version of JAX has made counts only where JAX is not installed. A kernel that mentions
what a digest cannot describe (an object, an array of another kind than numpy's) is not stored."""
import contextlib
import enum
import functools
import hashlib
import importlib.metadata
import json
import os
import tempfile
import types

import torch

from .. import _C
from .._internal.places import is_users

FORMAT = 1


class _Doubt(Exception):
    """Something that a digest does not tell."""


def _code(code, seen):
    plain = [sorted(c, key=repr) if isinstance(c, frozenset) else c for c in code.co_consts]
    constants = [_code(c, seen) if isinstance(c, types.CodeType) else repr(c) for c in plain]
    return [code.co_name, code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, constants]


def _names(code):
    yield from code.co_names
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _names(c)


def _value(x, seen):
    if isinstance(x, enum.Enum) or x is None or isinstance(x, (bool, int, float, complex, str, bytes, torch.dtype)):
        return None if x is None else repr(x)
    if isinstance(x, types.ModuleType):
        return None  # may be None where it is not installed
    if isinstance(x, types.FunctionType):
        return _function(x, seen) if is_users(x.__code__.co_filename) else [x.__module__, x.__qualname__]
    if isinstance(x, (tuple, list)):
        return [_value(v, seen) for v in x]
    if isinstance(x, dict):
        return [[repr(k), _value(v, seen)] for k, v in x.items()]
    if isinstance(x, functools.partial):
        return [_value(v, seen) for v in (x.func, x.args, x.keywords)]
    if isinstance(x, types.MethodType):
        raise _Doubt(x)
    if isinstance(x, type):
        return [x.__module__, x.__qualname__]
    if type(x).__module__ == "numpy" and hasattr(x, "tobytes"):
        return [str(x.dtype), list(x.shape), hashlib.sha256(x.tobytes()).hexdigest()]
    if hasattr(x, "__wrapped__") and callable(x):  # jax.jit, functools.cache
        return _value(x.__wrapped__, seen)
    if callable(x) and hasattr(x, "__qualname__") and getattr(x, "__module__", None):
        return [x.__module__, x.__qualname__]
    raise _Doubt(x)


def _function(fn, seen):
    if id(fn) in seen:
        return fn.__qualname__
    seen.add(id(fn))
    used = {n: _value(fn.__globals__[n], seen) for n in sorted(set(_names(fn.__code__))) if n in fn.__globals__}
    cells = [_value(c.cell_contents, seen) for c in fn.__closure__ or ()]
    used = {n: v for n, v in used.items() if v is not None}
    return [_code(fn.__code__, seen), used, cells, _value(fn.__defaults__, seen), _value(fn.__kwdefaults__, seen)]


def digest_of(name, fn, schema):
    """A digest of the kernel, or None where there is doubt."""
    try:
        return hashlib.sha256(json.dumps([FORMAT, name, schema, _value(fn, set())]).encode()).hexdigest()
    except (_Doubt, ValueError, TypeError, RecursionError):
        return None


def _folder():
    own = _C.cache_folder(False)
    return os.path.join(own, "kernels") if own else None


@functools.cache
def _version():
    """JAX's, or None where it is not installed."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("jax")


def _path(digest, call):
    folder = _folder()
    if folder is None or digest is None:
        return None
    return os.path.join(folder, hashlib.sha256(f"{digest} {call}".encode()).hexdigest()[:32] + ".json")


def load(digest, call):
    """What save has kept for this kernel and call, or None."""
    path = _path(digest, call)
    if path is None:
        return None
    try:
        with open(path) as f:
            entry = json.load(f)
    except (OSError, ValueError):
        return None
    if entry.get("call") != call or _version() not in (None, entry.get("jax")):
        return None
    return entry.get("value")


def save(digest, call, value):
    """Keeps value, of what JSON has. Trouble is not the caller's."""
    path = _path(digest, call)
    if path is None:
        return
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path), delete=False) as f:
            json.dump({"call": call, "jax": _version(), "value": value}, f)
        os.replace(f.name, path)
