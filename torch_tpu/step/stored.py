"""Recorded steps on disk: another process does not trace what this one has.

An entry is a recipe (program.py) under a digest of all that its recording could see: the text of every function of the
user's that can be reached, the values of its globals, attributes and arguments, kinds of tensors, versions, torch's
settings. Where anything cannot be told apart by that, or code ran that was not among what can be reached, nothing is
stored or looked up. Entries lie beside the programs (docs/caching.md), in a folder that only this user may write; the
least used go."""

import contextlib
import enum
import functools
import hashlib
import json
import os
import pathlib
import sys
import types

import torch
from torch import nn
from torch.utils._pytree import treespec_dumps, treespec_loads

from .. import _C
from .._internal import entries
from .._internal.digest import Doubt, attention_settings, code_of, codes
from .._internal.places import is_users
from .program import Recipe
from .watch import _PLAIN, finders_of_modules, functions_of

FORMAT, MOST = 1, 512


# ---- names ----
def _code(code):
    """What of a function's code decides what it does."""
    for part in codes(code):
        if any(op == _IMPORT for op in part.co_code[::2]):
            raise Doubt(f"{part.co_qualname} imports")
    return code_of(code)


def _class(cls):
    return [cls.__module__, cls.__qualname__, [(name, _code(fn.__code__)) for name, fn in functions_of(cls)]]


def _tensor(x):
    if type(x) not in (torch.Tensor, nn.Parameter):
        raise Doubt(f"a tensor of class {type(x).__name__}")
    if x._backward_hooks or (x.is_leaf and x.requires_grad and x._post_accumulate_grad_hooks):
        raise Doubt("a hook runs in backward")
    return [str(x.dtype), list(x.shape), list(x.stride()), x.device.type, x.device.index, x.requires_grad, x.is_leaf]


def _value(x, depth=0):
    """A description that is the same for what acts the same."""
    if isinstance(x, enum.Enum) or isinstance(x, _PLAIN):
        return [type(x).__name__, repr(x)]
    if isinstance(x, torch.Tensor):
        return _tensor(x)
    if isinstance(x, types.ModuleType):
        return x.__name__
    if isinstance(x, type):
        return _class(x)
    if isinstance(x, types.FunctionType):
        if is_users(x.__code__.co_filename):
            return _code(x.__code__)
        return [x.__module__, x.__qualname__]
    if isinstance(
        x, (types.BuiltinFunctionType, types.MethodDescriptorType, torch._ops.OpOverload, torch._ops.OpOverloadPacket)
    ):
        return [getattr(x, "__module__", ""), str(getattr(x, "__qualname__", x))]
    if isinstance(x, property):
        return [_value(fn, depth + 1) for fn in (x.fget, x.fset, x.fdel)]
    if isinstance(x, (staticmethod, classmethod)):
        return _value(x.__func__, depth + 1)
    if isinstance(x, functools.cached_property):
        return _value(x.func, depth + 1)
    if isinstance(x, (tuple, frozenset, set)) and depth < 8:
        inner = [_value(v, depth + 1) for v in x]
        return [type(x).__name__, inner if isinstance(x, tuple) else sorted(map(json.dumps, inner))]
    if isinstance(x, (list, dict, nn.Module, torch.optim.Optimizer)):  # what they hold is among the places
        return [_class(type(x)), len(x) if isinstance(x, (list, dict)) else None]
    if isinstance(x, functools.partial) and depth < 8:
        return [_value(v, depth + 1) for v in (x.func, x.args, tuple(sorted(x.keywords.items())))]
    if isinstance(x, types.MethodType) and depth < 8:
        return [_value(x.__func__), _value(x.__self__, depth + 1)]
    if is_users(getattr(sys.modules.get(type(x).__module__), "__file__", None) or "<unknown>") and hasattr(
        x, "__dict__"
    ):
        return _class(type(x))
    raise Doubt(f"an object of class {type(x).__qualname__}")


def _settings():
    return [
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("tpu"),
        torch.get_autocast_dtype("tpu"),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        attention_settings(),
        _rank(),
    ]


def _rank():
    """This process's rank and how many there are: numbers that a step may ask for."""
    dist = torch.distributed
    there = dist.is_available() and dist.is_initialized()
    return (dist.get_rank(), dist.get_world_size()) if there else None


@functools.cache
def _versions():
    """Of what turns a call into operators: Python, torch, and every file of ours."""
    ours = pathlib.Path(__file__).parents[1]
    files = sorted(p for p in ours.rglob("*") if p.suffix in (".py", ".so"))
    return [
        FORMAT,
        sys.version,
        torch.__version__,
        [(str(p.relative_to(ours)), p.stat().st_size, p.stat().st_mtime_ns) for p in files],
    ]


def name_of(watch, flat, spec):
    """The file of a step, without its folder, or None where in doubt or where nothing is kept."""
    if _folder() is None or os.environ.get("TORCH_TPU_KEEP_STEPS", "0") == "0" or watch.doubts or watch.has_unwatched():
        return None
    if any(fn.__code__.co_filename.startswith("<") and "__file__" not in fn.__globals__ for fn in watch.functions):
        return None  # typed in: what runs of it cannot be told from what libraries make
    try:
        states = [
            [(n, key, _value(x)) for n, p in enumerate(watch.tensors.values()) for key, x in o.state.get(p, {}).items()]
            for o in watch.optimizers
        ]
        rates = [[type(g.get("lr")).__name__ for g in o.param_groups] for o in watch.optimizers]
        packages = [
            (m.__name__, str(getattr(m, "__version__", "")), os.stat(m.__file__).st_mtime_ns) for m in watch.packages()
        ]
        seen = [_versions(), packages, list(map(str, _settings())), str(spec), [_value(x) for x in flat], states, rates,
                [(kind, name, _value(key), _value(value)) for kind, _, key, value, name in watch.places],
                [_tensor(x) for x in watch.tensors.values()], [_code(fn.__code__) for fn in watch.functions]]
        text = json.dumps(seen)
    except (Doubt, TypeError, ValueError, OSError):
        return None
    return hashlib.sha256(text.encode()).hexdigest() + ".json"


# ---- what ran ----
_IMPORT = __import__("dis").opmap["IMPORT_NAME"]


@contextlib.contextmanager
def executed():
    """{code: its globals} of what runs within; None where a profiler of the user's has the place that this needs."""
    if sys.getprofile() is not None:
        yield None
        return
    codes = {}
    _C.note_codes(codes)
    try:
        yield codes
    finally:
        _C.note_codes(None)


def all_known(codes, watch):
    """Whether a name tells of all that ran of the user's."""
    if codes is None or watch.corrected or any(fn.__code__ in codes for fn in watch.readers):
        return False
    finders = finders_of_modules()
    return {c for c in codes if is_users(c.co_filename) and c.co_filename not in finders} <= known(watch)


def known(watch):
    """The codes that a name tells of."""
    return {code for fn in watch.functions for code in codes(fn.__code__)}


# ---- files ----
def _folder():
    return entries.folder("steps")


def load(name):
    """The recipe of that name, or None."""
    def read(held):
        return Recipe(**{**held, "returned": treespec_loads(held["returned"])})

    return entries.load(os.path.join(_folder(), name), read) if name else None


def save(name, recipe):
    """Keeps a recipe that speaks of nothing but what it was recorded with."""
    constant = any(kind in ("constant", "grad") for kind, *_ in recipe.operands) or any(
        kind == "item" for kind, *_ in recipe.bindings
    )
    held = any(
        kind == "as it is" and not isinstance(x, (int, float, bool, str, type(None))) for kind, x in recipe.results
    )
    if constant or held or recipe.code is None or recipe.no_grads or recipe.once:
        return
    entry = lambda: {**vars(recipe), "returned": treespec_dumps(recipe.returned)}  # noqa: E731
    entries.save(os.path.join(_folder(), name), entry, MOST)
