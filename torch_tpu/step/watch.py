"""What a step depends on in Python besides its arguments: where it finds its tensors, numbers and functions.

From a function follow its closure, its globals, what it is bound to; from modules their parts, parameters and attributes, from
optimizers their groups. Each place is noted with what stands there, and _C.first_changed looks through the notes before a
traced step runs again. Attributes of the user's own classes count if any function that can be reached mentions their name, so
that counters which the training loop keeps do not matter. Code of torch itself is not followed."""

import builtins
import dis
import functools
import sys
import types

import torch
from torch import nn

from .. import _C
from .._internal.places import is_users

ITEM, LENGTH, ATTRIBUTE, CELL = range(4)  # as csrc/python/watch.c has them
MOST = 50_000  # places

_PLAIN = (int, float, bool, str, bytes, complex, type(None), torch.dtype, torch.device, torch.Size, torch.memory_format)
# Of a module: noted by their lengths and what they hold, or of no account.
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_forward_hooks_with_kwargs",
          "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")
_PARTS = ("_parameters", "_buffers", "_modules")


def _is_users_code(function):
    code = getattr(function, "__code__", None)
    return code is not None and is_users(code.co_filename)


def _names_in(code):
    """All names that a function's code and that of its inner functions mention."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names


_SHIFT = 1 if sys.version_info >= (3, 11) else 0  # of LOAD_GLOBAL's argument, whose lowest bit says something else


@functools.lru_cache(4096)
def _globals_of(code):
    """The globals that a function's code and that of its inner functions load."""
    found, extended = set(), 0
    for op, argument in zip(code.co_code[::2], code.co_code[1::2]):
        argument |= extended
        extended = argument << 8 if op == dis.EXTENDED_ARG else 0
        if op == dis.opmap["LOAD_GLOBAL"]:
            found.add(code.co_names[argument >> _SHIFT])
    return found.union(*(_globals_of(c) for c in code.co_consts if isinstance(c, types.CodeType)))


class Watch:
    """places: (kind, container, key, value, name) of each thing that a function depends on; optimizers, tensors (by id), functions: those it can
    reach, in an order that is the same in each process. Rates of optimizers ("lr") are left to who traces."""

    def __init__(self, roots):
        self.places, self.optimizers, self.tensors = [], [], {}
        self.functions = []  # of the user's, that can be reached
        self._seen, self._kept, self._names, self._objects = set(), [], set(), []
        for x in roots:
            self._visit(x, getattr(x, "__name__", type(x).__name__))
        done = None
        while done != len(self._names):  # names come with functions, and functions with the attributes that have these names
            done = len(self._names)
            for x, name in list(self._objects):
                self._attributes(x, name)

    def changed(self):
        """The name of a place where something else stands now, or None."""
        at = _C.first_changed(self.places)
        return None if at is None else self.places[at][4]

    def note(self, kind, container, key, value, name):
        if len(self.places) >= MOST:
            raise NotImplementedError("the function can reach too much to be watched")
        self.places.append((kind, container, key, value, name))

    def _first_visit(self, x):
        if id(x) in self._seen:
            return False
        self._seen.add(id(x))
        self._kept.append(x)  # so that ids stay its own
        return True

    def _visit(self, x, name):
        if isinstance(x, (*_PLAIN, types.ModuleType)):
            return
        if isinstance(x, type):
            self._methods(x)
            return
        if not self._first_visit(x):
            return
        if isinstance(x, torch.Tensor):
            self.tensors[id(x)] = x
            if x.is_leaf:
                self.note(ATTRIBUTE, x, "requires_grad", x.requires_grad, f"{name}.requires_grad")
        elif isinstance(x, nn.Module):
            self._module(x, name)
        elif isinstance(x, torch.optim.Optimizer):
            self._optimizer(x, name)
        elif isinstance(x, (list, dict)):
            self._items(x, name)
        elif isinstance(x, (tuple, set, frozenset)):
            for i, value in enumerate(x):
                self._visit(value, f"{name}[{i}]")
        elif isinstance(x, functools.partial):
            for part in (x.func, x.args, x.keywords):
                self._visit(part, name)
        elif isinstance(x, types.MethodType):
            self._visit(x.__self__, name)
            self._visit(x.__func__, name)
        elif isinstance(x, types.FunctionType):
            self._function(x, name)
        elif hasattr(x, "__dict__") and not isinstance(x, types.BuiltinFunctionType):
            self._objects.append((x, name))
            self._methods(type(x))

    def _items(self, x, name):
        self.note(LENGTH, x, None, len(x), f"the length of {name}")
        for key, value in list(x.items() if isinstance(x, dict) else enumerate(x)):
            self.note(ITEM, x, key, value, f"{name}[{key!r}]")
            self._visit(value, f"{name}[{key!r}]")

    def _function(self, fn, name):
        inner = getattr(fn, "__wrapped__", None)
        if inner is not None:
            self._visit(inner, name)
        for cell, free in zip(fn.__closure__ or (), fn.__code__.co_freevars):
            try:
                value = cell.cell_contents
            except ValueError:  # nothing yet
                continue
            if _is_users_code(fn):
                self.note(CELL, cell, None, value, free)
            self._visit(value, free)
        if not _is_users_code(fn):
            return
        names = _names_in(fn.__code__)
        self._names |= names
        self.functions.append(fn)
        for part in ("__defaults__", "__kwdefaults__"):
            self.note(ATTRIBUTE, fn, part, getattr(fn, part), f"the defaults of {name}")
            self._visit(getattr(fn, part), name)
        for found in sorted(_globals_of(fn.__code__)):
            if found in fn.__globals__ and not hasattr(builtins, found):
                value = fn.__globals__[found]
                if not isinstance(value, types.ModuleType):
                    self.note(ITEM, fn.__globals__, found, value, found)
                    self._visit(value, found)
                elif is_users(getattr(value, "__file__", None) or "<built in>"):
                    self._objects.append((value, found))

    def _methods(self, cls):
        if not self._first_visit(cls):
            return
        for base in cls.__mro__:
            for value in vars(base).values():
                fn = getattr(value, "fget", None) or getattr(value, "__func__", value)
                if isinstance(fn, types.FunctionType) and _is_users_code(fn):
                    self._visit(fn, fn.__qualname__)

    def _attributes(self, x, name):
        """Of an object or a module of functions: those that somebody mentions."""
        for key, value in list(vars(x).items()):
            if key in self._names and (id(x), key) not in self._seen:
                self._seen.add((id(x), key))
                self.note(ITEM, vars(x), key, value, f"{name}.{key}") if isinstance(vars(x), dict) else None
                self._visit(value, f"{name}.{key}")

    def _module(self, m, name):
        held = vars(m)
        for part in _PARTS:
            self._items(held[part], f"{name}.{part}")
        for part in _HOOKS:
            if part in held:
                self._items(held[part], f"{name}.{part}")
        self._methods(type(m))
        if _is_users_code(type(m).forward):
            self._objects.append((m, name))
            self.note(ITEM, held, "training", m.training, f"{name}.training")
            return
        self.note(LENGTH, held, None, len(held), f"attributes of {name}")
        for key, value in list(held.items()):
            if key not in _PARTS and key not in _HOOKS:
                self.note(ITEM, held, key, value, f"{name}.{key}")
                self._visit(value, f"{name}.{key}")

    def _optimizer(self, o, name):
        self.optimizers.append(o)
        self._methods(type(o))
        self.note(LENGTH, o.param_groups, None, len(o.param_groups), f"the groups of {name}")
        for i, group in enumerate(o.param_groups):
            self.note(ITEM, o.param_groups, i, group, f"a group of {name}")
            self.note(LENGTH, group, None, len(group), f"a group of {name}")
            for key, value in list(group.items()):
                if key == "params":
                    self._items(value, f"{name}'s parameters")
                elif key != "lr" or not isinstance(value, float):
                    self.note(ITEM, group, key, value, f"{name}'s {key}")
        for key, value in list(vars(o).items()):
            if isinstance(value, _PLAIN):
                self.note(ITEM, vars(o), key, value, f"{name}.{key}")
