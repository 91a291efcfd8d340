"""A recorded step as something to call: a recipe, which is plain data, and the objects of this process that it speaks
of.

A recipe says what the operands of the program are (the nth tensor that the function reaches, an argument, state of an
optimizer, a learning rate), and where its results go. Recipes of other processes come from disk (stored.py)."""

import dataclasses
import math

import torch
from torch.utils._pytree import tree_unflatten

from .. import _C
from .watch import ATTRIBUTE, ITEM, LENGTH, TYPE

# What the text of a recorded function may mention.
NAMES = {"torch": torch, "device": torch.device, "inf": math.inf, "nan": math.nan, "NoneType": type(None)}


@dataclasses.dataclass
class Recipe:
    """operands, in the order of the function's parameters: ("tensor", n), ("argument", n), ("rate", optimizer, group),
    ("state", optimizer, n, key), ("grad", n), ("constant", tensor); n counts the tensors, or the arguments. outputs:
    (dtype, sizes, strides). bindings: ("grad", n), ("state", optimizer, n, key) or ("item", container, key), for the
    last of the outputs. begins: states as their optimizer first makes them, (optimizer, n, key, number, dtype, sizes,
    strides)."""

    code: str
    operands: list
    written: list  # whether, of each
    outputs: list
    bindings: list
    begins: list
    results: list  # ("new", output), ("argument", n) or ("as it is", value): leaves of what is returned
    returned: object  # how the leaves lie in it
    no_grads: list = dataclasses.field(default_factory=list)  # tensors that have to have no gradient
    once: bool = False  # it serves this call only


class Rate:
    """A group's learning rate as an operand: a CPU tensor of no dims that follows the number in the group."""

    def __init__(self, group):
        self.group, self.last = group, group["lr"]
        self.tensor = torch.tensor(self.last, dtype=torch.float64)

    def follow(self):
        now = self.group["lr"]
        if now is not self.last:
            self.last = float(now)
            self.tensor = torch.tensor(self.last, dtype=torch.float64)
        return self.tensor


def storage_of(x):
    """What tells whether tensors share memory, or None."""
    try:
        return x.untyped_storage()._cdata or None
    except (NotImplementedError, RuntimeError):
        return None


def begin(number, dtype, sizes, strides, device):
    """A filled tensor, made by the host and not by a program."""
    return torch.empty_strided(sizes, strides, dtype=getattr(torch, dtype)).fill_(number).to(device)


class Program:
    """A step as one program. run(flat arguments) -> what the function returned."""

    def __init__(self, recipe, watch, flat, function=None):
        self.watch, self.once = watch, recipe.once
        self.tensors, self.optimizers = list(watch.tensors.values()), watch.optimizers
        for o, n, key, *how in recipe.begins:
            p = self.tensors[n]
            self.optimizers[o].state[p][key] = begin(*how, p.device)
        self._operands(recipe)
        self._register(recipe, function or _function(recipe.code))
        self._places(recipe)
        held = [*self.tensors, *(x for part in self.operands for x in part if isinstance(x, torch.Tensor))]
        self.storages = {storage_of(x) for x in held} - {None}  # of what lives as long as the program
        self.shared = self.shared_with(flat)
        self.results, self.returned = recipe.results, recipe.returned
        self.single = list(map(list, self.results)) == [["new", 0]] and self.returned.is_leaf()

    def _value(self, kind, *where):
        if kind == "tensor":
            return self.tensors[where[0]]
        if kind == "state":
            return self.optimizers[where[0]].state[self.tensors[where[1]]][where[2]]
        return self.tensors[where[0]].grad if kind == "grad" else where[0]

    def _operands(self, recipe):
        self.operands = [], []  # written, read
        self.given, self.rates = [], []  # (which operands, place, argument), (which operands, place, Rate)
        self.places = []  # which parameter of the function each operand is
        rates, places = {}, ([], [])
        for i, ((kind, *where), written) in enumerate(zip(recipe.operands, recipe.written)):
            which = 0 if written else 1
            part = self.operands[which]
            places[which].append(i)
            if kind == "argument":
                self.given.append((which, len(part), where[0]))
                part.append(None)
            elif kind == "rate":
                rate = rates.setdefault(tuple(where), Rate(self.optimizers[where[0]].param_groups[where[1]]))
                self.rates.append((which, len(part), rate))
                part.append(rate.tensor)
            else:
                part.append(self._value(kind, *where))
        self.places = places
        self.kinds, self.stale = None, False  # dtype and shape of each operand, once it has run

    def _register(self, recipe, function):
        places, n = self.places, len(recipe.operands)

        def trace(operands):
            """Called by the native side with traced tensors: [written, read]."""
            arguments = [None] * n
            kinds = [(x.dtype, x.shape) for given in operands for x in given]
            if self.kinds is None:
                self.kinds = kinds
            elif self.kinds != kinds:
                self.stale = True
                raise RuntimeError(
                    "compile_step: the data of a tensor are of another kind than the program was made for"
                )
            for where, given in zip(places, operands):
                for i, x in zip(where, given):
                    arguments[i] = x
            with torch.no_grad():
                results = function(*arguments)
            torch.ops.torch_tpu.deliver(results)

        self.handle = _C.graph_register(
            trace, [(dtype, tuple(sizes), tuple(strides)) for dtype, sizes, strides in recipe.outputs]
        )
        first = len(recipe.outputs) - len(recipe.bindings)
        self.bindings = []  # (a tensor or a dict, its key or None for a gradient, output)
        for k, (kind, *where) in enumerate(recipe.bindings):
            if kind == "grad":
                self.bindings.append((self.tensors[where[0]], None, first + k))
            elif kind == "state":
                self.bindings.append((self.optimizers[where[0]].state[self.tensors[where[1]]], where[2], first + k))
            else:
                self.bindings.append((*where, first + k))

    def _places(self, recipe):
        """What has to hold of states and gradients."""
        watch = self.watch
        bound = {(id(container), key) for container, key, _ in self.bindings}
        watch.places = [p for p in watch.places if p[0] != ITEM or (id(p[1]), p[2]) not in bound]
        for kind, *where in recipe.bindings:
            if kind == "item":
                watch.note(TYPE, *where, torch.Tensor, f"what stands at {where[1]}")
        for o in self.optimizers:
            name = f"the state of {type(o).__name__}"
            watch.note(ITEM, vars(o), "state", o.state, name)
            watch.note(LENGTH, o.state, None, len(o.state), name)
            for p, state in o.state.items():
                watch.note(ITEM, o.state, p, state, name)
                watch.note(LENGTH, state, None, len(state), name)
                for key, value in state.items():
                    if (id(state), key) not in bound:
                        watch.note(ITEM, state, key, value, f"{name}: {key}")
        for n in recipe.no_grads:
            watch.note(ATTRIBUTE, self.tensors[n], "grad", None, "a gradient that there was not")
        for kind, *where in recipe.operands:
            if kind == "grad":
                watch.note(ATTRIBUTE, self.tensors[where[0]], "grad", self.tensors[where[0]].grad, "a gradient")

    def shared_with(self, flat):
        """Which arguments lie in the memory of tensors that the step refers to."""
        return [
            (i, id(x)) for i, x in enumerate(flat) if isinstance(x, torch.Tensor) and storage_of(x) in self.storages
        ]

    def run(self, flat):
        operands = tuple(map(list.copy, self.operands))  # of this call: others may run at the same time
        for part, place, i in self.given:
            operands[part][place] = flat[i]
        for part, place, rate in self.rates:
            operands[part][place] = rate.follow()
        grad = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        try:
            new = torch.ops.torch_tpu.graph_call(self.handle, *operands)
        finally:
            torch._C._set_grad_enabled(grad)
        # a graph that kept what was written may not be run
        torch.autograd.graph.increment_version([x for x in operands[0] if not x.is_inference()])
        for container, key, k in self.bindings:
            if key is None:
                container.grad = new[k]
            else:
                container[key] = new[k]
        if self.single:
            return new[0]
        leaves = [new[x] if kind == "new" else flat[x] if kind == "argument" else x for kind, x in self.results]
        return tree_unflatten(leaves, self.returned)

    def __del__(self, release=_C.graph_release):
        if hasattr(self, "handle"):
            release(self.handle)


def _function(code):
    """The function of a recipe's text, without its self."""
    names = dict(NAMES)
    exec(compile(code, "<a recorded step>", "exec"), names)
    forward = names["forward"]
    return lambda *arguments: forward(None, *arguments)
