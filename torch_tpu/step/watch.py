"""What a step depends on in Python besides its arguments: where it finds its tensors, numbers and functions.

From a function follow its closure, its globals, what it is bound to; from modules their parts, parameters and
attributes, from optimizers their groups. Each place is noted with what stands there, and _C.first_changed looks through
the notes before a traced step runs again. Attributes of objects, and what the user's own classes and modules hold,
count if any function that can be reached mentions their name, so that counters which the training loop keeps do not
matter.

How far that goes is bounded by whose code it is (Origin). The user's own is followed wholly. Of installed packages the
functions that can be reached by name say which attributes of instances count; their modules, their classes' values and
their global tables are constants. Torch, the standard library and what they need are not followed. What has a state
that cannot be looked at (iterators, generators of random numbers, arrays) is refused if code that mentions it runs; so
is what can reach too much."""

import array
import ast
import builtins
import collections
import collections.abc
import contextvars
import dis
import enum
import functools
import inspect
import io
import logging
import os
import random
import re
import sys
import textwrap
import types
import weakref

import torch
from torch import nn

from .. import _C
from .._internal.places import is_users

ITEM, LENGTH, ATTRIBUTE, CELL, ABSENT, KEYS, TYPE = range(7)  # as csrc/python/watch.c has them
# Places: of all, and more for each module, tensor and optimizer. Each costs some 20 ns in every call.
MOST, MOST_OF_EACH = 4_000, 48

_PLAIN = (int, float, bool, str, bytes, complex, type(None), torch.dtype, torch.device, torch.Size, torch.memory_format)
# Of a module: noted by their lengths and what they hold, or of no account.
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
)
_IN_BACKWARD = ("_backward_hooks", "_backward_pre_hooks")
_PARTS = ("_parameters", "_buffers", "_modules")
_BY_NAME = {"getattr", "hasattr", "setattr", "delattr", "attrgetter", "vars", "__dict__"}
_BY_TEXT = {"globals", "eval", "exec"}
_IMPLIED = {"forward", "backward", "setup_context"}  # called by torch, whoever mentions them
_STATEFUL = (
    collections.deque,
    collections.abc.Iterator,
    bytearray,
    memoryview,
    array.array,
    random.Random,
    contextvars.ContextVar,
    types.MappingProxyType,
    collections.abc.MappingView,
    weakref.ref,
    *weakref.ProxyTypes,
)
_OF_NUMPY = {"ndarray", "memmap", "Generator", "RandomState"}
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_DESCRIPTORS = (property, staticmethod, classmethod, functools.cached_property)
# of the standard library
_AS_THEY_ARE = {
    "typing",
    "types",
    "functools",
    "inspect",
    "re",
    "pathlib",
    "enum",
    "importlib",
    "datetime",
    "contextlib",
}
_OF_TORCH = (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops._OpNamespace, torch._ops._Ops)


class Origin(enum.IntEnum):
    """Whose code something is."""

    LIBRARY = 0  # torch's, ours, Python's and of what these need
    PACKAGE = 1  # of an installed package
    OWN = 2


@functools.lru_cache(4096)
def _origin_of_file(file):
    if not is_users(file):
        return Origin.LIBRARY
    return Origin.PACKAGE if "/site-packages/" in file or "/dist-packages/" in file else Origin.OWN


def origin_of_code(code, names):
    """names: the globals of the function."""
    file = code.co_filename
    if file.startswith("<") and not file.startswith("<frozen"):  # typed in, or made by exec
        if names.get("__name__") == "__main__":
            return Origin.OWN
        file = names.get("__file__") or "<none>"
    return _origin_of_file(file)


def _origin(function):
    code = getattr(function, "__code__", None)
    return Origin.LIBRARY if code is None else origin_of_code(code, function.__globals__)


def _origin_of_module(module):
    if module.__name__ == "__main__":
        return Origin.OWN
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "<built in>")
    return _origin_of_file(file)


def _origin_of_class(cls):
    module = sys.modules.get(cls.__module__)
    if not isinstance(module, types.ModuleType):
        return Origin.OWN if module is None else Origin.LIBRARY
    return _origin_of_module(module)


def _is_standard(cls):
    """Whether instances are the standard library's, of what may hold other objects."""
    module = cls.__module__.partition(".")[0]
    return cls is types.SimpleNamespace or (module in sys.stdlib_module_names and module not in _AS_THEY_ARE)


def _imported_by(fn):
    """The modules that a function's code may import, of those that are there."""
    package = (fn.__globals__.get("__package__") or "").split(".")
    for name in sorted(_names_in(fn.__code__)):
        for depth in range(len(package) + 1):
            found = sys.modules.get(".".join([*package[:depth], name]).strip("."))
            if isinstance(found, types.ModuleType):
                yield found


def finders_of_modules():
    """The files of what finds modules, as an editable install does: imports within torch run it."""
    modules = (sys.modules.get(getattr(f, "__module__", None) or type(f).__module__) for f in sys.meta_path)
    return {getattr(m, "__file__", None) for m in modules}


def functions_of(cls):
    """(name, function) of the user's functions that a class has, in an order that is the same in each process."""
    for base in cls.__mro__:
        for name, value in sorted(vars(base).items()):
            of_property = [getattr(value, part, None) for part in ("fget", "fset", "fdel", "func")]
            for fn in (getattr(value, "__func__", value), *of_property):
                if isinstance(fn, types.FunctionType) and _origin(fn):
                    yield name, fn


def _texts(constants):
    """Strings among a code's constants, also in tuples."""
    for x in constants:
        if isinstance(x, str):
            yield x
        elif isinstance(x, (tuple, frozenset)):
            yield from _texts(x)


def _names_in(code):
    """All names that a function's code and that of its inner functions mention, those of getattr() too."""
    names = set(code.co_names)
    if names & _BY_NAME and _origin_of_file(code.co_filename) is not Origin.PACKAGE:
        names.update(x for x in _texts(code.co_consts) if x.isidentifier())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names


def _variables_in(code):
    """Strings that may be names of environment variables."""
    found = set(_texts(code.co_consts))
    return found.union(*(_variables_in(c) for c in code.co_consts if isinstance(c, types.CodeType)))


def _names_are_constant(fn):
    """Whether all names of attributes that a function's source asks for are written there."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "__dict__":
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            asked = (
                node.args[1:2]
                if name in ("getattr", "hasattr", "setattr", "delattr")
                else node.args if name == "attrgetter" else []
            )
            if name == "vars" or any(not isinstance(x, ast.Constant) for x in asked):
                return False
    return True


def _words_in(code):
    return {word for text in _variables_in(code) for word in re.findall(r"\w+", text)}


def _imports(code):
    return dis.opmap["IMPORT_NAME"] in code.co_code[::2] or any(
        _imports(c) for c in code.co_consts if isinstance(c, types.CodeType)
    )


_SHIFT = 1 if sys.version_info >= (3, 11) else 0  # of LOAD_GLOBAL's argument, whose lowest bit says something else


@functools.lru_cache(4096)
def _globals_of(code):
    """The globals that a function's code and that of its inner functions load or set."""
    found, extended = set(), 0
    for op, argument in zip(code.co_code[::2], code.co_code[1::2]):
        argument |= extended
        extended = argument << 8 if op == dis.EXTENDED_ARG else 0
        if op == dis.opmap["LOAD_GLOBAL"]:
            found.add(code.co_names[argument >> _SHIFT])
        elif op in (dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]):
            found.add(code.co_names[argument])
    return found.union(*(_globals_of(c) for c in code.co_consts if isinstance(c, types.CodeType)))


class Watch:
    """places: (kind, container, key, value, name) of each thing that a function depends on; optimizers, tensors (by
    id), functions: those it can reach, in an order that is the same in each process; objects: dicts of attributes, by
    id; classes: with their proxies among the places, by id; doubts: why another process cannot tell that it would
    record the same. Rates of optimizers ("lr") are left to who traces. more: functions to begin with besides, which
    roots call in ways that cannot be followed."""

    def __init__(self, roots, more=()):
        self.places, self.optimizers, self.tensors = [], [], {}
        self.functions = []  # of the user's, that can be reached
        self._unwatched, self.readers = [], []  # readers: functions that may read the environment
        self.objects, self.classes, self.globals, self.doubts = {}, {}, {}, []
        self.caches = []  # functions with functools.lru_cache
        self.corrected = bool(more)  # whether what ran was needed to find all of it
        self._any_name = False  # whether attributes are asked for by names that are computed
        self._seen, self._kept, self._names, self._objects = set(), [], set(_IMPLIED), []
        self._large = 0  # modules, tensors and optimizers
        for x in (*roots, *more):
            self._visit(x, getattr(x, "__name__", type(x).__name__))
        for part, hooks in vars(nn.modules.module).items():
            if part.startswith("_global_") and isinstance(hooks, dict):
                self._items(hooks, part)
                if hooks and "backward" in part:
                    self.doubts.append("a hook runs in backward")
        self._settle()

    def _settle(self):
        """Names come with functions, and functions with the attributes that have these names."""
        done = None
        while done != (len(self._names), len(self._objects), self._any_name):
            done = len(self._names), len(self._objects), self._any_name
            for x, name in list(self._objects):
                self._attributes(x, name)

    def changed(self):
        """The name of a place where something else stands now, or None."""
        at = _C.first_changed(self.places)
        return None if at is None else self.places[at][4]

    def unwatched(self, codes=None):
        """Why the function cannot be watched, or None. codes: what ran of it; None: before it runs, which would advance
        iterators."""
        for name, kind in self._unwatched:
            last = re.sub(r"\[.*?\]", "", name).rpartition(".")[2]
            who = [fn for fn in self.functions if last in _names_in(fn.__code__) or last in fn.__code__.co_freevars]
            if codes is None:
                counts = kind not in _OF_NUMPY and any(_origin(fn) is Origin.OWN for fn in who)
            else:
                counts = not who or any(fn.__code__ in codes for fn in who)
            if counts:
                return f"{name} is a {kind}, whose changes cannot be watched"
        return None

    def has_unwatched(self):
        """Whether anything is reached that cannot be watched, be it used or not."""
        return bool(self._unwatched)

    def packages(self):
        """The top modules of the packages whose code is reached."""
        tops = {(fn.__module__ or "").partition(".")[0] for fn in self.functions if _origin(fn) is Origin.PACKAGE}
        return [sys.modules[top] for top in sorted(tops) if top in sys.modules]

    def unknown(self, codes):
        """Of what ran, {code: its globals}: the user's own that was not among what can be reached."""
        known, todo = set(), [fn.__code__ for fn in self.functions]
        while todo:
            code = todo.pop()
            known.add(code)
            todo += [c for c in code.co_consts if isinstance(c, types.CodeType) and c not in known]
        finders = finders_of_modules()
        ran = {c: names for c, names in codes.items() if c not in known and c.co_filename not in finders}
        return {c: names for c, names in ran.items() if origin_of_code(c, names) is Origin.OWN}

    def add_names(self, codes):
        """Code of packages that ran, found or not, says which attributes of what was found count."""
        for code, names in codes.items():
            if origin_of_code(code, names) is Origin.PACKAGE:
                self._names |= _names_in(code)
        before = len(self.places)
        self._settle()
        self.corrected |= len(self.places) > before

    def note(self, kind, container, key, value, name):
        if len(self.places) >= MOST + MOST_OF_EACH * self._large:
            raise NotImplementedError(
                f"the function can reach more than {len(self.places):,} places, too many to be watched; the last was {name}"
            )
        self.places.append((kind, container, key, value, name))

    def _first_visit(self, x):
        if id(x) in self._seen:
            return False
        self._seen.add(id(x))
        self._kept.append(x)  # so that ids stay its own
        return True

    def _visit(self, x, name):
        if isinstance(x, (*_PLAIN, logging.Logger, *_OF_TORCH)):
            return
        if isinstance(x, _DESCRIPTORS):
            for part in ("fget", "fset", "fdel", "__func__", "func"):
                self._visit(getattr(x, part, None), name)
            return
        if isinstance(x, type):
            self._class(x)
            return
        if not self._first_visit(x):
            return
        if isinstance(x, types.ModuleType):
            if _origin_of_module(x) is Origin.OWN:
                self.globals[id(vars(x))] = vars(x)
                self._objects.append((x, name))
        elif isinstance(x, torch.Tensor):
            self._tensor(x, name)
        elif isinstance(x, nn.Module):
            self._module(x, name)
        elif isinstance(x, torch.optim.Optimizer):
            self._optimizer(x, name)
        elif isinstance(x, (list, dict)):
            self._items(x, name)
            if hasattr(x, "__dict__"):
                self._object(x, name)
        elif isinstance(x, set):
            self.note(LENGTH, x, None, len(x), f"the length of {name}")
            for value in x:
                self.note(ITEM, x, value, True, f"a member of {name}")
                self._visit(value, f"a member of {name}")
        elif isinstance(x, (tuple, frozenset)):
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
        elif isinstance(x, types.BuiltinFunctionType):  # also a method, as of a dict
            if not isinstance(x.__self__, types.ModuleType):
                self._visit(x.__self__, name)
        else:
            of_numpy = type(x).__module__.partition(".")[0] == "numpy" and type(x).__name__ in _OF_NUMPY
            if of_numpy or (isinstance(x, _STATEFUL) and not isinstance(x, io.IOBase)):
                self._unwatched.append((name, type(x).__name__))
                return
            if isinstance(x, functools._lru_cache_wrapper):
                self.caches.append(x)
                self._visit(x.__wrapped__, name)
                return
            self._object(x, name)

    def _object(self, x, name):
        """Of any class: its methods, and later its attributes."""
        if isinstance(x, torch.amp.GradScaler) and x.is_enabled():
            self._unwatched.append((name, type(x).__name__))
            return
        held = getattr(x, "__dict__", None)
        whose = _origin_of_class(type(x))
        if whose is Origin.OWN:
            self.note(ATTRIBUTE, x, "__class__", type(x), f"the class of {name}")
        standard = isinstance(held, dict) and not whose and _is_standard(type(x))
        if isinstance(held, dict) and (
            whose or standard or type(x).__module__.startswith(("torch.optim", "torch.amp"))
        ):
            self.objects[id(held)] = held
            self.note(LENGTH, held, None, len(held), f"the attributes of {name}")
        if isinstance(held, dict) or whose:
            self._objects.append((x, name))
        if standard and not isinstance(x, (list, dict)):
            self._items(held, name)
        self._class(type(x))

    def _tensor(self, x, name):
        self.tensors[id(x)] = x
        self._large += 1
        if not x.is_leaf:
            return
        self.note(ATTRIBUTE, x, "requires_grad", x.requires_grad, f"{name}.requires_grad")
        if x.requires_grad:
            for part in ("_backward_hooks", "_post_accumulate_grad_hooks"):
                hooks = getattr(x, part)
                self.note(ATTRIBUTE, x, part, hooks, f"{name}.{part}")
                if hooks is not None:
                    self._items(hooks, f"{name}.{part}")
                    self.doubts.append("a hook runs in backward")

    def _items(self, x, name):
        if isinstance(x, dict) and len(x) > 1:
            self.note(KEYS, x, None, tuple(dict.keys(x)), f"the keys of {name}")
        else:
            self.note(LENGTH, x, None, len(x), f"the length of {name}")
        for key, value in list(dict.items(x) if isinstance(x, dict) else enumerate(x)):
            self.note(ITEM, x, key, value, f"{name}[{key!r}]")
            self._visit(value, f"{name}[{key!r}]")

    def _function(self, fn, name):
        whose = _origin(fn)
        self._visit(getattr(fn, "__wrapped__", None), name)
        for cell, free in zip(fn.__closure__ or (), fn.__code__.co_freevars):
            try:
                value = cell.cell_contents
            except ValueError:  # nothing yet
                if whose:
                    self.note(ABSENT, cell, None, None, free)
                continue
            if whose:
                self.note(CELL, cell, None, value, free)
            self._visit(value, free)
        if not whose:
            return
        names = _names_in(fn.__code__)
        self._names |= names
        self.functions.append(fn)
        if whose is Origin.OWN and names & _BY_NAME and not _names_are_constant(fn):
            self._any_name = True
        if whose is Origin.PACKAGE:
            for found in sorted(_globals_of(fn.__code__)):
                value = fn.__globals__.get(found)
                if isinstance(value, (types.FunctionType, functools._lru_cache_wrapper, type, nn.Module, torch.Tensor)):
                    self._visit(value, found)
            return
        self._objects.append((fn, name))
        self.objects[id(vars(fn))] = vars(fn)
        self.globals[id(fn.__globals__)] = fn.__globals__
        if names & {"environ", "getenv"}:
            self._environment(fn)
        for part in ("__defaults__", "__kwdefaults__"):
            self.note(ATTRIBUTE, fn, part, getattr(fn, part), f"the defaults of {name}")
            self._visit(getattr(fn, part), name)
        if _imports(fn.__code__):
            for module in _imported_by(fn):
                self._visit(module, module.__name__)
        for found in sorted(
            _globals_of(fn.__code__) | (_words_in(fn.__code__) & fn.__globals__.keys() if names & _BY_TEXT else set())
        ):
            if found in fn.__globals__:
                value = fn.__globals__[found]
                self.note(ITEM, fn.__globals__, found, value, found)
                self._visit(value, found)
            elif not hasattr(builtins, found):
                self.note(ABSENT, fn.__globals__, found, None, found)

    def _environment(self, fn):
        """All variables: which of them the function reads nobody can tell."""
        self.readers.append(fn)
        held = getattr(os.environ, "_data", {})
        if self._first_visit(held):
            self._items(held, "os.environ")

    def _class(self, cls):
        """Its functions count if somebody mentions their names, what the user's own hold besides too."""
        for base in (*cls.__mro__, *(type(cls).__mro__ if type(cls) is not type else ())):
            whose = _origin_of_class(base)
            if not whose or not self._first_visit(base):
                continue
            held = vars(base)
            self.classes[id(base)] = base, held
            self._objects.append((base, base.__qualname__))
            if whose is Origin.OWN:
                self.note(LENGTH, held, None, len(held), f"the attributes of {base.__qualname__}")
                if issubclass(base, torch.autograd.Function):
                    self.doubts.append("a function of the user's runs in backward")

    def _attributes(self, x, name):
        """Of an object, a class or a module: those that somebody mentions."""
        if isinstance(x, type):
            self._attributes_of_class(x, name)
            return
        held = getattr(x, "__dict__", {})
        every = self._any_name and _origin_of_class(type(x)) is Origin.OWN
        for key in [key for key in held if (every or key in self._names) and (id(x), key) not in self._seen]:
            self._seen.add((id(x), key))
            if isinstance(x, torch.optim.Optimizer) and key in ("state", "param_groups", "defaults"):
                continue
            value = held[key]
            if isinstance(held, dict):
                self.note(ITEM, held, key, value, f"{name}.{key}")
            self._visit(value, f"{name}.{key}")
        for base in type(x).__mro__ if _origin_of_class(type(x)) else ():
            for key, slot in vars(base).items():
                if (
                    isinstance(slot, _SLOTS[0])
                    and key in self._names
                    and hasattr(x, key)
                    and (id(x), key) not in self._seen
                ):
                    self._seen.add((id(x), key))
                    self.note(ATTRIBUTE, x, key, getattr(x, key), f"{name}.{key}")
                    self._visit(getattr(x, key), f"{name}.{key}")

    def _attributes_of_class(self, cls, name):
        held, own = self.classes[id(cls)][1], _origin_of_class(cls) is Origin.OWN
        all_of_it = issubclass(cls, torch.optim.Optimizer)  # torch calls what it overrides
        for key, value in list(held.items()):
            special = key.startswith("__") and key.endswith("__")
            calls = isinstance(value, (types.FunctionType, *_DESCRIPTORS))
            if (id(cls), key) in self._seen or not (
                key in self._names or (self._any_name and own) or (calls and (special or all_of_it))
            ):
                continue
            self._seen.add((id(cls), key))
            if isinstance(value, _SLOTS) or (special and not calls) or not (own or calls):
                continue
            if own:
                self.note(ITEM, held, key, value, f"{name}.{key}")
            self._visit(value, f"{name}.{key}")

    def _module(self, m, name):
        self._large += 1
        held = vars(m)
        for part in _PARTS:
            self._items(held[part], f"{name}.{part}")
        for part in _HOOKS:
            if part in held:
                self._items(held[part], f"{name}.{part}")
                if held[part] and part in _IN_BACKWARD:
                    self.doubts.append("a hook runs in backward")
        self._class(type(m))
        self.objects[id(held)] = held
        self.note(LENGTH, held, None, len(held), f"the attributes of {name}")
        if _origin_of_class(type(m)):
            self._objects.append((m, name))
            self.note(ATTRIBUTE, m, "__class__", type(m), f"the class of {name}")
            self.note(ITEM, held, "training", m.training, f"{name}.training")
            return
        for key, value in list(held.items()):
            if key not in _PARTS and key not in _HOOKS:
                self.note(ITEM, held, key, value, f"{name}.{key}")
                self._visit(value, f"{name}.{key}")

    def _optimizer(self, o, name):
        self.optimizers.append(o)
        self._large += 1
        self._class(type(o))
        self.note(LENGTH, o.param_groups, None, len(o.param_groups), f"the groups of {name}")
        for i, group in enumerate(o.param_groups):
            self.note(ITEM, o.param_groups, i, group, f"a group of {name}")
            self.note(LENGTH, group, None, len(group), f"a group of {name}")
            for key, value in list(group.items()):
                if key == "params":
                    self._items(value, f"{name}'s parameters")
                elif key != "lr" or not isinstance(value, float):
                    self.note(ITEM, group, key, value, f"{name}'s {key}")
        for part in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
            self._items(getattr(o, part), f"{name}.{part}")
        if _origin_of_class(type(o)):
            self._object(o, name)
            return
        for key, value in list(vars(o).items()):
            if isinstance(value, _PLAIN):
                self.note(ITEM, vars(o), key, value, f"{name}.{key}")
