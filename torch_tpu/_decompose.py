"""Lowers operators that have no rule of their own, by torch's decompositions.

The native side calls run(name, args) with the operator's arguments, whose tensors are traced: every operator that runs
here adds to one program, and no value can be read. In-place and out= forms run the functional decomposition and copy
into what they write. An operator that torch cannot decompose is reported as NotImplemented, and runs on the CPU. """

import threading

import torch

from . import _C
# noqa: F401  (they add)
from . import (
    _bins,
    _ctc,
    _distance,
    _distributions,
    _embedding,
    _fused,
    _grid,
    _jagged,
    _layers,
    _losses,
    _padded,
    _quantize,
    _spectral,
)
from ._registry import DECOMPOSITIONS, overload

_functions = {}  # operator name -> (function, overload) or None
_running = threading.local()  # .names: of the operators being decomposed on this thread, innermost last


def _names():
    if not hasattr(_running, "names"):
        _running.names = []
    return _running.names


def _reference(op):
    """torch._refs has functions by name and not by overload: the one whose parameters are the operator's."""
    import inspect

    import torch._refs
    import torch._refs.fft
    import torch._refs.linalg
    import torch._refs.nn.functional
    import torch._refs.special

    base = op._schema.name.removeprefix("aten::")
    for prefix, module in (
        ("linalg_", torch._refs.linalg),
        ("fft_", torch._refs.fft),
        ("special_", torch._refs.special),
        ("", torch._refs),
        ("", torch._refs.nn.functional),
    ):
        if not base.startswith(prefix):
            continue
        fn = getattr(module, base[len(prefix) :], None)
        if fn is None or not callable(fn):
            continue
        try:
            parameters = inspect.signature(fn).parameters
        except (TypeError, ValueError):
            continue
        if all(a.name in parameters for a in op._schema.arguments):
            return fn
    return None


def _direct(op):
    from torch._decomp import core_aten_decompositions, decomposition_table  # slow to import, seldom needed

    fn = DECOMPOSITIONS.get(op) or decomposition_table.get(op) or core_aten_decompositions().get(op)
    return fn or _reference(op)


def _functional(op):
    """The functional overload behind an in-place or out= form, or None."""
    schema = op._schema
    base = schema.name.removeprefix("aten::")
    own = [(a.name, str(a.type)) for a in schema.arguments if not a.is_out]
    for name in (base, base[:-1] if base.endswith("_") else base):
        packet = getattr(torch.ops.aten, name, None)
        for form in packet.overloads() if packet is not None else ():
            other = getattr(packet, form)
            written = any(a.alias_info is not None and a.alias_info.is_write for a in other._schema.arguments)
            if not written and [(a.name, str(a.type)) for a in other._schema.arguments][: len(own)] == own:
                return other
    return None


def _find(name):
    op = overload(name)
    fn = _direct(op)
    writes = [
        i for i, a in enumerate(op._schema.arguments) if a.alias_info is not None and a.alias_info.is_write
    ]
    if not writes or op in DECOMPOSITIONS:
        return (fn, op, None) if fn else None
    functional = _functional(op)
    if functional is not None:
        # As an operator: it has a rule, or comes through here again.
        return (functional, op, writes)
    return (fn, op, None) if fn else None


def _flat(result, out):
    if isinstance(result, (tuple, list)):
        for r in result:
            _flat(r, out)
    else:
        out.append(result)
    return out


def run(name, args):
    """Runs the decomposition of aten::name on args (all of the schema's, in order); delivers new results, in order."""
    if name not in _functions:
        try:
            _functions[name] = _find(name)
        except AttributeError:
            _functions[name] = None
    found = _functions[name]
    if found is None or name in _names():
        return NotImplemented
    fn, op, writes = found
    arguments = op._schema.arguments
    positional, named = [], {}
    for a, value in zip(arguments, args):
        if a.is_out:
            continue
        if a.kwarg_only:
            if not (value is None and fn not in (op,) and a.name in ("layout", "device", "pin_memory", "generator")):
                named[a.name] = value
        else:
            positional.append(value)
    _names().append(name)
    try:
        result = fn(*positional, **named)
    finally:
        _names().pop()
    results = _flat(result, [])
    if writes is not None:
        for target, value in zip(_flat([args[i] for i in writes], []), results):
            target.copy_(value)
        results = []
    else:
        # What the operator returns as its own argument is not new.
        returns = op._schema.returns
        results = [
            r
            for k, r in enumerate(results)
            if not (k < len(returns) and returns[k].alias_info is not None and returns[k].alias_info.is_write)
        ]
    device = next((a.device for a in _flat(args, []) if isinstance(a, torch.Tensor) and a.device.type == "tpu"), "tpu")
    torch.ops.torch_tpu.deliver(
        [
            r if r is None or isinstance(r, torch.Tensor) else torch.as_tensor(r, device=device)
            for r in results
        ]
    )
    return None


_C.set_decompose(run)
