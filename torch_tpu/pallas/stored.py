"""Kernels on disk, so that a process without JAX runs what another has traced.

An entry is a JSON file in the folder "kernels" beside the programs, named by a digest of all that the kernel's function
can see: its code and that of all functions of the user's that it mentions, the files these stand in, the values they
read, our own sources, and the call's dtypes, shapes and static arguments. The digest is made when a call's kind is new,
and again when what was traced is stored. An entry that another version of JAX has made, or another setting of
jax.config, counts only where JAX is not installed. Where anything cannot be told (an object, a module of the user's
imported in a body, getattr, a file or the environment read), nothing is stored or looked up."""
import contextlib
import dis
import enum
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import sys
import types

import torch

from .._internal import entries
from .._internal.digest import Doubt as _Doubt, code_of as _code, codes as _codes, sources

FORMAT, MOST = 2, 2048

# Known by their names: what they do changes with their versions alone.
_LIBRARIES = {"jax", "jaxlib", "numpy", "torch", "torch_tpu", "ml_dtypes", "builtins", "math", "functools", "itertools",
              "operator", "typing", "enum", "dataclasses", "collections", "abc", "__future__"}
# What reads that which no digest of code and values tells.
_READS = {"getattr", "setattr", "vars", "globals", "locals", "eval", "exec", "__dict__", "__import__", "import_module",
          "__getattribute__", "open", "input", "environ", "getenv", "attrgetter", "devices", "local_devices",
          "device_count", "local_device_count"}
_READS_OF_NUMPY = {"random", "load", "loadtxt", "genfromtxt", "fromfile", "memmap"}
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(...), torch.dtype, torch.device)
_OF_CLASSES = {"__dict__", "__weakref__", "__doc__", "__annotations__", "__dataclass_fields__", "__dataclass_params__",
               "__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl"}
# Settings of jax.config that change what is traced, and their defaults.
_CONFIG = {"jax_enable_x64": False, "jax_default_matmul_precision": None, "jax_numpy_dtype_promotion": "standard",
           "jax_default_prng_impl": "threefry2x32", "jax_threefry_partitionable": True, "jax_enable_custom_prng": False,
           "jax_disable_jit": False, "jax_debug_nans": False, "jax_softmax_custom_jvp": False,
           "jax_legacy_prng_key": "allow", "jax_random_seed_offset": 0}


# ---- code and values ----
def _is_library(module):
    return (module or "").partition(".")[0] in _LIBRARIES


def _by_name(x):
    """[module, name] of what a library has under this name, else None."""
    module, name = getattr(x, "__module__", None), getattr(x, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not _is_library(module):
        return None
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return [module, name] if found is x else None


def _global(value, after, seen):
    """The description of a global that the instructions after it read attributes of."""
    while isinstance(value, types.ModuleType) and not _is_library(value.__name__):
        step = next(after, None)
        if step is None or step.opname not in ("LOAD_ATTR", "LOAD_METHOD") or "__getattr__" in vars(value):
            raise _Doubt(value)
        if step.argval not in vars(value):
            raise _Doubt(step.argval)
        value = vars(value)[step.argval]
    return _value(value, seen)


def _mentioned(code, names, seen):
    """What the globals are, names, that a function's code mentions."""
    found, numpy = [], False
    for part in _codes(code):
        if _READS & set(part.co_names) or any(n.startswith("jax_") for n in part.co_names):
            raise _Doubt(part)
        steps = list(dis.get_instructions(part))
        for i, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                if steps[i - 2].argval != 0 or not _is_library(step.argval):
                    raise _Doubt(step.argval)
                numpy |= step.argval.startswith("numpy")
            elif step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                raise _Doubt(step.argval)
            elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in names:
                value = names[step.argval]
                after = iter([s for s in steps[i + 1:i + 12] if s.opname not in ("CACHE", "EXTENDED_ARG")])
                numpy |= getattr(value, "__name__", "") == "numpy"
                found.append([step.argval, _global(value, after, seen)])
    if numpy and any(_READS_OF_NUMPY & set(part.co_names) for part in _codes(code)):
        raise _Doubt(code)
    return found


@functools.cache
def _file(path, changed):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def _function(fn, seen):
    if _is_library(fn.__globals__.get("__name__")) and seen:  # made by a library, of functions in its cells
        return [fn.__module__, fn.__qualname__, [_value(c.cell_contents, seen) for c in fn.__closure__ or ()],
                _value(fn.__defaults__, seen), _value(fn.__kwdefaults__, seen)]
    seen[id(fn)] = fn
    path = fn.__code__.co_filename
    file = _file(path, os.stat(path).st_mtime_ns) if os.path.isfile(path) else None
    held = {k: v for k, v in vars(fn).items() if k != "__wrapped__"}
    return [file, _code(fn.__code__), _mentioned(fn.__code__, fn.__globals__, seen),
            *[_value(x, seen) for x in ([c.cell_contents for c in fn.__closure__ or ()], fn.__defaults__,
                                        fn.__kwdefaults__, held)]]


def _class(cls, seen):
    if type(cls).__module__ not in ("builtins", "enum", "abc"):
        raise _Doubt(cls)
    seen[id(cls)] = cls
    bases = [_value(c, seen) for c in cls.__bases__]
    if issubclass(cls, enum.Enum):
        held = {k: v for k, v in vars(cls).items() if isinstance(v, types.FunctionType) and not _is_library(
            v.__module__)}
        return [cls.__qualname__, bases, [[k, _value(m.value, seen)] for k, m in cls.__members__.items()],
                [[k, _value(v, seen)] for k, v in held.items()]]
    return [cls.__qualname__, bases, [[k, _value(v, seen)] for k, v in vars(cls).items() if k not in _OF_CLASSES]]


def _value(x, seen):
    if type(x) in _PLAIN:
        return [type(x).__name__, repr(x)]
    if id(x) in seen:
        return ["again", list(seen).index(id(x))]
    name = _by_name(x)
    if name is not None:
        return name
    if isinstance(x, types.ModuleType):
        if not _is_library(x.__name__):
            raise _Doubt(x)
        return ["module", x.__name__]
    if isinstance(x, enum.Enum):
        return [x.name, _value(type(x), seen)]
    if isinstance(x, types.FunctionType):
        return _function(x, seen)
    if isinstance(x, type):
        return _class(x, seen)
    if type(x) in (tuple, list):
        return [type(x).__name__, [_value(v, seen) for v in x]]
    if type(x) in (set, frozenset):
        return [type(x).__name__, sorted(json.dumps(_value(v, seen)) for v in x)]
    if type(x) is dict:
        return ["dict", [[_value(k, seen), _value(v, seen)] for k, v in x.items()]]
    if type(x) is functools.partial:
        return ["partial", [_value(v, seen) for v in (x.func, x.args, x.keywords)]]
    if type(x) is property:
        return ["property", [_value(v, seen) for v in (x.fget, x.fset, x.fdel)]]
    if type(x) in (staticmethod, classmethod):
        return [type(x).__name__, _value(x.__func__, seen)]
    kind = type(x).__name__
    if type(x).__module__ == "numpy" and hasattr(x, "tobytes") and not x.dtype.hasobject:
        return [kind, str(x.dtype), list(x.shape), hashlib.sha256(x.tobytes()).hexdigest()]
    if type(x).__module__.startswith("numpy") and kind.endswith("DType"):
        return ["dtype", str(x)]
    if _is_library(type(x).__module__) and kind in ("custom_vjp", "custom_jvp"):
        held = {k: v for k, v in vars(x).items() if not (k.startswith("__") and k.endswith("__"))}
        return [kind, [[k, _value(v, seen)] for k, v in sorted(held.items())]]
    if kind in ("PjitFunction", "_lru_cache_wrapper") and hasattr(x, "__wrapped__"):
        return [kind, _value(x.__wrapped__, seen)]
    raise _Doubt(x)


def _ours():
    """Of our sources that decide what is traced."""
    here = pathlib.Path(__file__).parent
    return sources(here, here.parent / "kernels")


def digest_of(name, fn, schema):
    """A digest of the kernel as it is now, or None where there is doubt."""
    try:
        told = [FORMAT, sys.version, torch.__version__, _ours(), name, schema, _value(fn, {})]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()
    except (_Doubt, ValueError, TypeError, AttributeError, RecursionError, OSError):
        return None


# ---- JAX ----
@functools.cache
def _versions():
    """JAX's and jaxlib's, or None where it is not installed."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return [importlib.metadata.version("jax"), importlib.metadata.version("jaxlib")]


def _settings():
    """What of jax.config is not as it is by default. JAX is imported only where the environment may have set any."""
    if sys.modules.get("jax") is None:
        if _versions() is None or not any(k.upper() in os.environ for k in _CONFIG):
            return {}
        try:
            import jax  # noqa: F401
        except ImportError:
            return {}
    config = sys.modules["jax"].config
    now = {k: getattr(config, k, default) for k, default in _CONFIG.items()}
    return {k: str(v) for k, v in now.items() if getattr(v, "value", v) != _CONFIG[k]}


# ---- files ----
def _folder():
    return entries.folder("kernels")


def _path(digest, call):
    folder = _folder()
    if folder is None or digest is None:
        return None
    return os.path.join(folder, hashlib.sha256(f"{digest} {call}".encode()).hexdigest()[:32] + ".json")


def load(digest, call, read):
    """read(what save has kept for this kernel and call), or None; also where read raises."""
    def checked(entry):
        if entry["call"] != call or entry["config"] != _settings() or _versions() not in (None, entry["jax"]):
            raise ValueError("made by another JAX")
        return read(entry["value"])

    path = _path(digest, call)
    return entries.load(path, checked) if path else None


def save(digest, call, value):
    """Keeps value, of what JSON has; the least used entries go. Trouble is not the caller's."""
    path = _path(digest, call)
    if path:
        entry = lambda: {"call": call, "jax": _versions(), "config": _settings(), "value": value}  # noqa: E731
        entries.save(path, entry, MOST)
