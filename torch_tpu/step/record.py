"""A call of a whole training step traced to one program: forward, backward, optimizer, and what lies between.

The function runs once, on fake tensors: its Python happens, what it asks of the device is recorded (aot/trace.py) and
becomes one program. Tensors that it finds by itself (parameters, buffers, state) are operands, written in place;
gradients and tensors that it binds anew are results, which each call puts where the traced one did. Learning rates are
operands too, and optimizers count their steps on the device. What reads a value, or changes Python's state from call to
call, is refused, and everything is put back as it was."""

import contextlib
import functools
import random
import sys
import threading
import types
from collections import OrderedDict
from unittest import mock

import torch
import torch.fx.traceback as fx_traceback
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from .. import _C
from ..aot.trace import _lifted, _written
from ..compile.program import root_of
from .program import NAMES, Rate, Recipe, storage_of
from .watch import _PLAIN, ABSENT, ATTRIBUTE, CELL, ITEM, KEYS, LENGTH, Watch

aten = torch.ops.aten
_INIT = "torch_tpu_init"  # notes in a node's meta that an optimizer was making its state

# What state begins as, and the number it is filled with: made by the host, not by a program.
_FILLED = {
    aten.zeros.default: lambda node: 0,
    aten.zeros_like.default: lambda node: 0,
    aten.ones.default: lambda node: 1,
    aten.ones_like.default: lambda node: 1,
    aten.full.default: lambda node: node.args[1],
    aten.full_like.default: lambda node: node.args[1],
}


class Refused(NotImplementedError):
    """Why a step cannot be one program. What Python holds is as it was."""


class ChangesPython(Refused):
    """The step does what only Python does, whatever its learning rates are. Where it fills a cache it will not do so
    again."""

    again = True


class _OnlyDevice(TorchDispatchMode):
    """Refuses what a program cannot hold: values that are read, and work on the host."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is aten._local_scalar_dense.default:
            raise Refused("the step reads a value (item(), bool() or float() of a tensor)")
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.device.type != "tpu":
            if any(isinstance(a, torch.Tensor) and a.device.type == "tpu" for a in args):
                raise Refused(f"the step copies a value to the host ({func})")
            if result.dim():
                raise Refused(f"the step computes on the host ({func})")
            if torch.Tag.nondeterministic_seeded in func.tags:
                raise Refused(f"the step draws random numbers on the host ({func})")
        return result


class _Fakes(FakeTensorMode):
    """Fake tensors of device tpu for all there is: an operator that is given no fake tensor at all would run."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        args, kwargs = tree_map_only(torch.Tensor, self._fake, (args, kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _fake(self, x):
        return x if isinstance(x, FakeTensor) else self.from_tensor(x)


def _not_printed(x, **kwargs):
    raise Refused("the step prints a tensor")


@contextlib.contextmanager
def _optimizers(optimizers, rates):
    """While they step, optimizers take rates as tensors and count on the device; what they make of their state is
    marked."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    before, tracing = [], threading.get_ident()

    def put_back(*_):
        while before and threading.get_ident() == tracing:
            group, key, value = before.pop()
            group[key] = value

    def prepare(o, args, kwargs):
        if threading.get_ident() != tracing:  # hooks are everybody's
            return
        if o not in optimizers:
            raise Refused("the step uses an optimizer that was not found among what it refers to")
        for group in o.param_groups:
            rate = next((r for r in rates if r.group is group), None)
            if rate is not None:
                before.append((group, "lr", group["lr"]))
                group["lr"] = rate.tensor
            if group.get("capturable") is False and not group.get("fused"):
                before.append((group, "capturable", False))
                group["capturable"] = True

    def marking(init_group):
        def run(*args, **kwargs):
            with fx_traceback.annotate({_INIT: True}):
                return init_group(*args, **kwargs)

        return run

    with contextlib.ExitStack() as stack:
        stack.callback(put_back)
        stack.callback(register_optimizer_step_pre_hook(prepare).remove)
        stack.callback(register_optimizer_step_post_hook(put_back).remove)
        for o in optimizers:
            if hasattr(o, "_init_group"):
                stack.enter_context(mock.patch.object(o, "_init_group", marking(o._init_group)))
        yield


class _Before:
    """What a trace may leave fake tensors in, and how it was."""

    def __init__(self, watch):
        self.watch = watch
        self.grads = [(p, p.grad) for p in watch.tensors.values() if p.is_leaf and p.requires_grad]
        self.states = [(o, {p: dict(s) for p, s in o.state.items()}) for o in watch.optimizers]
        self.rates = [(g, g["lr"]) for o in watch.optimizers for g in o.param_groups if "lr" in g]
        held = {
            id(c): c for _, c, *_ in watch.places if isinstance(c, (list, dict, set)) and id(c) not in watch.globals
        }
        self.containers = [(c, _copy(c)) for c in {**held, **watch.objects}.values()]
        self.objects = [(c, dict(c)) for c in watch.objects.values()]
        self.had = {id(now): was for now, was in self.objects}
        self.caches = [(f, f.cache_info().misses) for f in watch.caches]

    def filled(self):
        """Functions whose results were kept."""
        return [f for f, misses in self.caches if f.cache_info().misses != misses]

    def changed_attributes(self):
        """(dict of an object, key) of each attribute that is not what it was, of those that nobody mentions too."""
        for now, was in self.objects:
            for key in now.keys() | was.keys():
                if now.get(key, self) is not was.get(key, self):
                    yield now, key

    def restore(self):
        for f in self.filled():
            f.cache_clear()
        for p, grad in self.grads:
            p.grad = grad
        for o, state in self.states:
            for p in [p for p in o.state if p not in state]:
                del o.state[p]
            for p, held in state.items():
                o.state[p].clear()
                o.state[p].update(held)
        for group, rate in self.rates:
            group["lr"] = rate
        for container, was in self.containers:
            if isinstance(container, list):
                container[:] = was
            elif isinstance(container, set):
                container.clear()
                container.update(was)
            elif not _same_items(container, was):
                kind = OrderedDict if isinstance(container, OrderedDict) else dict
                kind.clear(container)
                for key, value in was.items():
                    kind.__setitem__(container, key, value)
        classes = {id(held): cls for cls, held in self.watch.classes.values()}
        for kind, container, key, value, _ in self.watch.places:
            if kind == ITEM and id(container) in self.watch.globals and container.get(key) is not value:
                container[key] = value
            elif kind == ITEM and id(container) in classes and container.get(key) is not value:
                setattr(classes[id(container)], key, value)
            elif kind == ATTRIBUTE and not key.endswith("_hooks") and getattr(container, key, None) is not value:
                setattr(container, key, value)
            elif kind == CELL and (_is_empty(container) or container.cell_contents is not value):
                container.cell_contents = value
            elif kind == ABSENT and isinstance(container, dict):
                container.pop(key, None)
            elif kind == ABSENT and not _is_empty(container):
                del container.cell_contents


def _is_empty(cell):
    try:
        return cell.cell_contents is _is_empty
    except ValueError:
        return True


def _copy(container):
    """What a list, dict or set holds, whatever its class makes of reading it (dict.copy asks a subclass's
    __getitem__)."""
    if isinstance(container, dict):
        return {key: value for key, value in dict.items(container)}
    return next(kind.copy(container) for kind in (list, set) if isinstance(container, kind))


def _same_items(now, was):
    return len(now) == len(was) and all(a is c and b is d for (a, b), (c, d) in zip(dict.items(now), was.items()))


def _numpy():
    return sys.modules.get("numpy.random")


# Of all generators that draw numbers on the host, and what sets the state of each.
_SET_RANDOM = (
    random.setstate,
    torch.set_rng_state,
    lambda state: torch.tpu.set_rng_state(state),
    lambda state: _numpy().set_state(state),
)


def _random_numbers():
    """The states of the generators that everybody shares."""
    return (
        random.getstate(),
        torch.get_rng_state(),
        torch.tpu.get_rng_state(),
        _numpy().get_state() if _numpy() else None,
    )


@contextlib.contextmanager
def _no_random_numbers():
    """Refuses what draws on the host, or sets a seed. Meanwhile all generators stand elsewhere, as who sets the same
    seed in each call leaves them as they were."""
    before = _random_numbers()
    for draw in (
        random.random,
        lambda: torch.rand(1),
        lambda: torch.tpu.manual_seed(0x7D1A),
        lambda: _numpy() and _numpy().random(),
    ):
        draw()
    begun = _random_numbers()
    try:
        yield
        if not all(map(_same_state, begun, _random_numbers())):
            raise ChangesPython("the step draws random numbers on the host, or sets a seed")
    finally:
        for put_back, state in zip(_SET_RANDOM, before):
            if state is not None:
                put_back(state)


def _same_state(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    return (
        repr(a) == repr(b)
        if a is None or not hasattr(a[1], "tobytes")
        else (a[1].tobytes(), a[2:]) == (b[1].tobytes(), b[2:])
    )


def _bound(before):
    """[(kind, container, key, fake tensor)] of what the traced call has bound to tensors that it made."""
    found = [("grad", p, None, p.grad) for p, _ in before.grads if isinstance(p.grad, FakeTensor)]
    for o, _ in before.states:
        for state in o.state.values():
            found += [("state", state, key, x) for key, x in state.items() if isinstance(x, FakeTensor)]
    for container, key in before.changed_attributes():
        if key not in before.had[id(container)] and isinstance(container[key], FakeTensor):
            found.append(("item", container, key, container[key]))
    for kind, container, key, value, name in before.watch.places:
        now = container.get(key) if kind in (ITEM, ABSENT) and isinstance(container, dict) else None
        if isinstance(now, FakeTensor) and now is not value:
            if isinstance(value, torch.Tensor) and value.device.type != "tpu":
                raise Refused(f"the step replaces {name}, a tensor on the host")
            found.append(("item", container, key, now))
    return found


def _check_python(before, bound):
    """Python's state has to be after the call what it was before: the next one will not run Python."""
    anew = {(id(container), key) for kind, container, key, _ in bound if kind == "item"}
    appeared = {i for i, _ in anew}
    kept = [
        p
        for p in before.watch.places
        if (id(p[1]), p[2]) not in anew and not (p[0] in (LENGTH, KEYS) and id(p[1]) in appeared)
    ]
    at = _C.first_changed(kept)
    changed = kept[at][4] if at is not None else None
    changed = changed or next((key for held, key in before.changed_attributes() if (id(held), key) not in anew), None)
    if before.filled():
        changed = f"the cache of {before.filled()[0].__name__}"
    if changed is not None:
        raise ChangesPython(f"the step changes {changed}, which only Python does; do that outside of it")
    if any(group["lr"] is not rate for group, rate in before.rates):
        raise Refused("the step changes a learning rate; step the scheduler outside of it")
    for o, states in before.states:
        for p, state in o.state.items():
            was = states.get(p, {})
            for key, value in state.items():
                if not isinstance(value, torch.Tensor) and p in states and (key not in was or was[key] != value):
                    raise Refused(f"{type(o).__name__} keeps {key!r} as a number that changes in Python")


def _of_init(node):
    return _INIT in (node.meta.get("custom") or {})


def _made_by(node):
    """The node whose memory the node's value is, written in place since or not."""
    while isinstance(node.target, torch._ops.OpOverload):
        returns = node.target._schema.returns
        if len(returns) != 1 or returns[0].alias_info is None or not returns[0].alias_info.is_write:
            break
        node = node.args[0]
    return node


def _initial(node):
    """How the value begins, as begin() takes it, if it is state as an optimizer first makes it; else None."""
    fill = _FILLED.get(node.target)
    if fill is None or not _of_init(node):
        return None
    if any(_of_init(u) and getattr(u.target, "_schema", None) and u.target._schema.is_mutable for u in node.users):
        return None
    value, number = node.meta["val"], fill(node)
    if not isinstance(number, (int, float, bool)) or value.device.type != "tpu":
        return None
    return number, str(value.dtype).removeprefix("torch."), list(value.shape), list(value.stride())


class Recording:
    """A call of fn on fake tensors. recipe, function: what it became; before: what undoes it."""

    def __init__(self, fn, flat, spec, more, rates_as_operands, stand_ins_for_grads):
        self.flat, self.spec = flat, spec
        self.watch = watch = Watch([fn, *(x for x in flat if not isinstance(x, torch.Tensor))], more)
        for x in flat:
            if isinstance(x, torch.Tensor) and x.device.type != "tpu" and x.dim():
                raise Refused("an argument is on the CPU")
            if isinstance(x, torch.Tensor) and x.requires_grad:
                raise Refused("an argument requires grad")
        self.rates = {}  # id of the tensor: (optimizer, group, Rate)
        for o, optimizer in enumerate(watch.optimizers):
            for g, group in enumerate(optimizer.param_groups):
                if rates_as_operands and isinstance(group.get("lr"), float):
                    rate = Rate(group)
                    self.rates[id(rate.tensor)] = o, g, rate
        if not rates_as_operands:
            self._watch_rates()
        self.before = before = _Before(watch)
        stand_ins = {}
        if stand_ins_for_grads:
            for p, grad in before.grads:
                if grad is None and p.device.type == "tpu":
                    p.grad = torch.empty_like(p)
                    stand_ins[id(p.grad)] = p, p.grad
        try:
            record = self._record(fn)
            if any(id(x) in stand_ins for x in record.tensors):
                raise DependsOnGrads
            for p, stand_in in stand_ins.values():
                if p.grad is stand_in:
                    p.grad = None
            self._check(record)
            self.recipe = self._recipe(
                record, [] if stand_ins_for_grads else [p for p, grad in before.grads if grad is None]
            )
            self.function = record.module.forward
        except BaseException:
            before.restore()
            raise

    def _watch_rates(self):
        for optimizer in self.watch.optimizers:
            for group in optimizer.param_groups:
                if isinstance(group.get("lr"), float):
                    self.watch.note(ITEM, group, "lr", group["lr"], "a learning rate")

    def _record(self, fn):
        mode = _Fakes(allow_non_fake_inputs=True)
        fakes = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in self.flat]
        self.results, self.bound = [], []

        def call(*values):
            args, kwargs = tree_unflatten(values, self.spec)
            leaves, self.returned = tree_flatten(fn(*args, **kwargs))
            given = {id(x): i for i, x in enumerate(values) if isinstance(x, torch.Tensor)}
            new = []
            for x in leaves:
                if id(x) in given:
                    self.results.append(("argument", given[id(x)]))
                elif isinstance(x, FakeTensor):
                    self.results.append(("new", len(new)))
                    new.append(x.detach())
                elif isinstance(x, (torch.Tensor, type, types.FunctionType, *_PLAIN)):
                    self.results.append(("as it is", x))
                else:
                    raise Refused(f"the step returns an object of class {type(x).__qualname__}")
            self.bound = _bound(self.before)
            return new + [x for *_, x in self.bound]

        with contextlib.ExitStack() as stack:
            stack.enter_context(_no_random_numbers())
            stack.enter_context(mode)
            stack.enter_context(_optimizers(self.watch.optimizers, [rate for *_, rate in self.rates.values()]))
            stack.enter_context(mock.patch.object(torch.compiler, "_is_compiling_flag", True))
            stack.enter_context(mock.patch.object(torch.Tensor, "__repr__", _not_printed))
            stack.enter_context(_random_states())
            stack.enter_context(fx_traceback.preserve_node_meta())
            module = make_fx(self._guarded(call), tracing_mode="real")(*fakes)
        _check_python(self.before, self.bound)
        for x in self.watch.tensors.values():
            vars(x).pop("proxy", None)
        record = _lifted(module, fakes, {})
        self.arguments = {id(x): i for i, x in enumerate(fakes) if isinstance(x, torch.Tensor)}
        return record

    @staticmethod
    def _guarded(call):
        def run(*values):
            with _OnlyDevice():
                return call(*values)

        return run

    def _check(self, record):
        writes = set(_written(record.module.graph))
        for node, x in zip(record.module.graph.find_nodes(op="placeholder"), record.tensors):
            if isinstance(x, FakeTensor) and id(x) not in self.arguments:
                raise Refused("the step uses a tensor of another trace")
            if x.device.type != "tpu" and (x.dim() or node in writes):
                raise Refused("the step uses a tensor on the CPU")
        self._check_memory(record, writes)
        lifted = {id(x) for x in record.tensors}
        if any(grad is not None and p.grad is None and id(grad) in lifted for p, grad in self.before.grads):
            raise Refused("the step reads a gradient and sets it to None")
        output = record.module.graph.output_node()
        for node in output.args[0]:
            root = root_of(node)
            if node.op == "placeholder" or (root.op == "placeholder" and root in writes):
                raise Refused("the step returns a view of what it writes")

    def _check_memory(self, record, writes):
        """No two operands may share memory if one of them is written; and an argument that is a gradient or an
        optimizer's state would be taken for it."""
        given = {id(x) for x in self.flat if isinstance(x, torch.Tensor)}
        kept = [grad for _, grad in self.before.grads]
        kept += [x for _, states in self.before.states for state in states.values() for x in state.values()]
        if any(id(x) in given for x in kept):
            raise Refused("an argument is a gradient or an optimizer's state")
        places = {}  # storage: [(first element, last, whether it is written)]
        for node, x in zip(record.module.graph.find_nodes(op="placeholder"), record.tensors):
            x = self.flat[self.arguments[id(x)]] if id(x) in self.arguments else x
            if storage_of(x) is None or not x.numel():
                continue
            first = x.storage_offset()
            last = first + sum((n - 1) * s for n, s in zip(x.shape, x.stride()))
            places.setdefault(storage_of(x), []).append(
                (first * x.element_size(), (last + 1) * x.element_size(), node in writes)
            )
        for shared in places.values():
            ends = written_to = -1
            for first, end, written in sorted(shared):
                if first < (ends if written else written_to):
                    raise Refused("the step writes a tensor that shares memory with another one")
                ends, written_to = max(ends, end), max(written_to, end if written else -1)

    def _where(self):
        """{id of a tensor: the operand that it is}."""
        tensors = {i: n for n, i in enumerate(self.watch.tensors)}
        found = {i: ("tensor", n) for i, n in tensors.items()}
        for o, optimizer in enumerate(self.watch.optimizers):
            for p, state in optimizer.state.items():
                found.update(
                    {
                        id(x): ("state", o, tensors[id(p)], key)
                        for key, x in state.items()
                        if isinstance(x, torch.Tensor)
                    }
                )
        found.update({id(grad): ("grad", tensors[id(p)]) for p, grad in self.before.grads if grad is not None})
        found.update({i: ("argument", n) for i, n in self.arguments.items()})
        found.update({i: ("rate", o, g) for i, (o, g, _) in self.rates.items()})
        return found

    def _recipe(self, record, without_grads):
        graph, where = record.module.graph, self._where()
        operands = [where.get(id(x)) or ("constant", x) for x in record.tensors]
        writes = set(_written(graph))
        written = [n in writes for n in graph.find_nodes(op="placeholder")]
        outputs = list(graph.output_node().args[0])
        first = len(outputs) - len(self.bound)
        once, begins, kept, bindings = False, [], outputs[:first], []
        lifted = {id(x) for x in record.tensors}
        for (kind, container, key, x), last in zip(self.bound, outputs[first:]):
            if kind == "grad":
                bindings.append(("grad", where[id(container)][1]))
            elif kind == "item":
                bindings.append(("item", container, key))
                stood = self._stood(container, key)  # the next call's is another if it is read, or was no tensor
                once |= type(stood) is not torch.Tensor or id(stood) in lifted
            else:
                o, n = self._owner(container, where)
                node = _made_by(last)
                how = _initial(node)
                if how is not None:  # brought in from outside, so that this program is the next call's too
                    self._bring(graph, node, x)
                    operands.insert(0, ("state", o, n, key))
                    written.insert(0, True)
                    begins.append((o, n, key, *how))
                    continue
                bindings.append(("state", o, n, key))
                once = True
            kept.append(last)
        graph.output_node().args = (kept,)
        graph.set_codegen(torch.fx.graph.CodeGen())
        record.module.recompile()
        described = [
            (str(v.dtype).removeprefix("torch."), list(v.shape), list(v.stride()))
            for v in (n.meta["val"] for n in kept)
        ]
        code = graph.python_code("self")
        strange = [
            name
            for name, value in code.globals.items()
            if NAMES.get(name, code) is not value and f"{name}." in code.src
        ]
        plain = not strange and not graph.find_nodes(op="get_attr")
        no_grads = [where[id(p)][1] for p in without_grads]
        return Recipe(
            code.src if plain else None,
            operands,
            written,
            described,
            bindings,
            begins,
            self.results,
            self.returned,
            no_grads,
            once,
        )

    @staticmethod
    def _bring(graph, node, value):
        with graph.inserting_before(next(iter(graph.nodes))):
            operand = graph.placeholder(node.name + "_state")
        operand.meta["val"] = value
        node.replace_all_uses_with(operand)
        graph.erase_node(node)

    def _owner(self, state, where):
        for o, optimizer in enumerate(self.watch.optimizers):
            for p, held in optimizer.state.items():
                if held is state:
                    return o, where[id(p)][1]

    def _stood(self, container, key):
        return next(
            (value for kind, c, k, value, _ in self.watch.places if c is container and k == key and kind == ITEM),
            ABSENT,
        )


class DependsOnGrads(Exception):
    """It matters that a parameter has no gradient yet."""


@functools.cache
def _know_random_states():
    """What the operators that save and set the random state of a program return, as fake tensors."""
    torch.library.register_fake(
        "torch_tpu::trace_random_state", lambda: torch.empty(2, dtype=torch.int64, device="tpu")
    )
    torch.library.register_fake("torch_tpu::trace_set_random_state", lambda state: None)


@contextlib.contextmanager
def _random_states():
    """Who saves the device's random state and draws from it again (checkpointing) does so in the program. A saved state
    may be set, and after it the one that was saved just before."""
    _know_random_states()
    ops, own, drawn_from = torch.ops.torch_tpu, [], [None]

    def save(device="tpu"):
        if drawn_from[0] is not None:
            raise Refused("the step saves a random state while it draws from another")
        own.append(ops.trace_random_state())
        return own[-1]

    def set_to(state, device="tpu"):
        back = drawn_from[0] is not None
        if not any(state is s for s in own) or (back and state is not own[-1]):
            raise Refused("the step sets a random state that it did not save itself")
        drawn_from[0] = None if back else state
        ops.trace_set_random_state(None if back else state)

    with mock.patch.object(torch.tpu, "get_rng_state", save), mock.patch.object(torch.tpu, "set_rng_state", set_to):
        yield


def record(fn, flat, spec, more=()):
    """Calls fn on fake tensors; more: functions that it is known to call. Raises Refused."""
    reasons = []
    for rates in (True, False):
        for stand_ins in (True, False):
            try:
                return Recording(fn, flat, spec, more, rates, stand_ins)
            except DependsOnGrads:
                continue
            except Exception as e:  # the call that runs operator by operator says what is wrong with the step itself
                if isinstance(e, LookupError):
                    e = Refused("a parameter of an optimizer, or another thing, was not found among what it refers to")
                reasons.append(str(e).split("\n")[0] or type(e).__name__)
                if isinstance(e, ChangesPython):
                    raise
                break
    raise Refused(reasons[0])
