"""Kernels in StableHLO as torch operators: docs/kernels.md."""
import ctypes
import os

import torch

from .. import _C
from .op import Kernel, check, key_of, specs_of
from .text import Function, Spec, TextError, parse, spec_of

__all__ = ["Function", "Kernel", "Spec", "TextError", "custom_call", "parse", "stablehlo_op"]


def _read(source):
    """Text, or the text of a file."""
    if isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source and source.endswith(".mlir")):
        with open(source) as f:
            return f.read()
    return source


def custom_call(target, function):
    """A function in C as what `stablehlo.custom_call @target(...) {api_version = 4 : i32}` runs on the CPU, for ever.

    function: an XLA_FFI_Handler (xla/ffi/api/c_api.h): a function of ctypes, or a capsule. Before programs
    that call it run, in each process. The first of a name holds. Raises NotImplementedError where the device is
    no CPU, or its plugin has no FFI extension. examples/custom_call.c is one."""
    if type(function).__name__ == "PyCapsule":
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        name = ctypes.pythonapi.PyCapsule_GetName
        name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
        function = get(function, name(function))
    elif isinstance(function, ctypes._CFuncPtr):
        function = ctypes.cast(function, ctypes.c_void_p).value
    else:
        raise TypeError(f"{target}: expected a function of ctypes or a capsule, got {type(function).__name__}")
    _C.custom_call_register(target, function)


def stablehlo_op(name, source, *, schema=None, entry=None) -> Kernel:
    """A function in StableHLO as the torch operator name ("namespace::operator").

    source: the text of a module, a file (a Path, or a str that ends with .mlir), a dict of these for "cpu" and "tpu",
    or a function of what the operator is called with (a Spec of dtype and shape in place of each tensor) that returns a
    text; then schema is needed (for instance "(Tensor x, int k) -> Tensor"). entry: the function of the module, by
    default main or the only one.

    The operator takes and returns what the function's head says; other shapes and dtypes are refused. Raises TextError
    (a ValueError) for a text that is no such function."""
    if callable(source):
        if schema is None:
            raise ValueError(f"{name}: a function that makes the text needs schema=")
        return _made(name, source, schema, entry)
    sources = source if isinstance(source, dict) else {"cpu": source, "tpu": source}
    if not sources or set(sources) - {"cpu", "tpu"}:
        raise ValueError(f"{name}: expected texts for cpu and tpu, got {sorted(sources)}")
    functions = {}
    for platform, given in sources.items():
        try:
            functions[platform] = parse(_read(given), entry)
        except TextError as e:
            raise TextError(f"{name}: {e}") from None
    first = next(iter(functions.values()))
    for other in functions.values():
        if (other.args, other.results) != (first.args, first.results):
            raise TextError(f"{name}: the functions for cpu and tpu differ in their types")
    if schema is None:
        results = "Tensor" if len(first.results) == 1 else f"({', '.join(['Tensor'] * len(first.results))})"
        schema = f"({', '.join(f'Tensor arg{i}' for i in range(len(first.args)))}) -> {results}"

    def outputs(args):
        check(name, "argument", first.args, specs_of(args))
        return first.results

    def function(platform, args):
        if platform not in functions:
            raise NotImplementedError(f"{name}: there is no text for {platform}")
        return functions[platform]

    return Kernel(name, schema, outputs, function)


def _described(a):
    if isinstance(a, torch.Tensor):
        return spec_of(a)
    return tuple(map(_described, a)) if isinstance(a, (list, tuple)) else a


def _made(name, make, schema, entry):
    known = {}

    def function(args):
        given = tuple(map(_described, args))
        key = key_of(given)
        if key not in known:
            text = make(*given)
            if not isinstance(text, str):
                raise TypeError(f"{name}: expected the text of a StableHLO module, got {type(text).__name__}")
            try:
                known[key] = parse(text, entry)
            except TextError as e:
                raise TextError(f"{name}: {e}") from None
        return known[key]

    return Kernel(name, schema, lambda args: function(args).results, lambda platform, args: function(args))


def __getattr__(name):
    if name in ("attention", "experts", "paged", "tokamax"):
        import importlib
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
