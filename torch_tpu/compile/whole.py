"""A call of a whole training step traced to one program: forward, backward, optimizer, and what lies between.

The function runs once, on fake tensors: its Python happens, what it asks of the device is recorded (aot/trace.py) and
becomes one program. Tensors that it finds by itself (parameters, buffers, state) are operands, written in place; gradients and
tensors that it binds anew are results, which each call puts where the traced one did. Learning rates are operands too, and
optimizers count their steps on the device. What reads a value, or changes Python's state from call to call, is refused, and
everything is put back as it was."""

import contextlib
import operator
from unittest import mock

import torch
import torch.fx.traceback as fx_traceback
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from .. import _C
from ..aot.trace import _lifted, _written
from .program import root_of
from .watch import ATTRIBUTE, ITEM, LENGTH, Watch

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


class Refused(Exception):
    """Why a step cannot be one program. Nothing has changed."""


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


@contextlib.contextmanager
def _optimizers(optimizers, rates):
    """While they step, optimizers take rates as tensors and count on the device; what they make of their state is marked."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    before = []

    def put_back(*_):
        while before:
            group, key, value = before.pop()
            group[key] = value

    def prepare(o, args, kwargs):
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


def _counts_to_device(optimizers):
    """State that optimizers keep on the host as tensors of no dims goes where their parameters are."""
    for o in optimizers:
        for p, state in o.state.items():
            for key, value in state.items():
                if isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim() == 0 and p.device.type == "tpu":
                    state[key] = value.to(p.device)


class _Before:
    """What a trace may leave fake tensors in, and how it was."""

    def __init__(self, watch):
        self.watch = watch
        self.grads = [(p, p.grad) for p in watch.tensors.values() if p.is_leaf and p.requires_grad]
        self.states = [(o, {p: dict(s) for p, s in o.state.items()}) for o in watch.optimizers]
        self.rates = [(g, g["lr"]) for o in watch.optimizers for g in o.param_groups if "lr" in g]

    def restore(self):
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
        for kind, container, key, value, _ in self.watch.places:
            if kind == ITEM and isinstance(container, dict) and container.get(key) is not value:
                container[key] = value


def _bound(before):
    """[(kind, container, key, fake tensor)] of what the traced call has bound to tensors that it made."""
    found = [("grad", p, None, p.grad) for p, _ in before.grads if isinstance(p.grad, FakeTensor)]
    for o, _ in before.states:
        for state in o.state.values():
            found += [("state", state, key, x) for key, x in state.items() if isinstance(x, FakeTensor)]
    for kind, container, key, value, name in before.watch.places:
        now = container.get(key) if kind == ITEM and isinstance(container, dict) else None
        if isinstance(now, FakeTensor) and now is not value:
            if isinstance(value, torch.Tensor) and value.device.type != "tpu":
                raise Refused(f"the step replaces {name}, a tensor on the host")
            found.append(("item", container, key, now))
    return found


def _check_python(before, bound):
    """Python's state has to be after the call what it was before: the next one will not run Python."""
    anew = {(id(container), key) for kind, container, key, _ in bound if kind == "item"}
    kept = [p for p in before.watch.places if (id(p[1]), p[2]) not in anew]
    at = _C.first_changed(kept)
    if at is not None:
        raise Refused(f"the step changes {kept[at][4]}, which only Python does; do that outside of it")
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
    """The real tensor that the node stands for, if it is state as an optimizer first makes it; else None."""
    fill = _FILLED.get(node.target)
    if fill is None or not _of_init(node):
        return None
    if any(_of_init(u) and getattr(u.target, "_schema", None) and u.target._schema.is_mutable for u in node.users):
        return None
    value = node.meta["val"]
    number = fill(node)
    if not isinstance(number, (int, float, bool, complex)) or value.device.type != "tpu":
        return None
    with torch.utils._python_dispatch._disable_current_modes():
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).fill_(number)
        return made.to(value.device)


class Traced:
    """A step as one program. run(flat arguments) -> what the function returned."""

    def __init__(self, fn, args, kwargs, rates_as_operands=True, sentinels=True):
        self.flat, self.spec = tree_flatten((args, kwargs))
        self.watch = Watch([fn, *(x for x in self.flat if not isinstance(x, torch.Tensor))])
        for x in self.flat:
            if isinstance(x, torch.Tensor) and x.device.type != "tpu" and x.dim():
                raise Refused("an argument is on the CPU")
            if isinstance(x, torch.Tensor) and x.requires_grad:
                raise Refused("an argument requires grad")
        optimizers = self.watch.optimizers
        _counts_to_device(optimizers)
        groups = [g for o in optimizers for g in o.param_groups]
        self.rates = [Rate(g) for g in groups if rates_as_operands and isinstance(g.get("lr"), float)]
        self.before = before = _Before(self.watch)
        self.once = False  # it cannot serve another call
        stand_ins = {}
        if sentinels:
            for p, grad in before.grads:
                if grad is None and p.device.type == "tpu":
                    p.grad = torch.empty_like(p)
                    stand_ins[id(p.grad)] = p, p.grad
        try:
            record = self._record(fn)
            if any(id(x) in stand_ins for x in record.tensors):
                raise _DependsOnGrads
            for p, stand_in in stand_ins.values():
                if p.grad is stand_in:
                    p.grad = None
            if not sentinels:
                for p, grad in before.grads:
                    if grad is None:
                        self.watch.note(ATTRIBUTE, p, "grad", None, "a gradient that there was not")
            self._check(record)
            self._begin_states(record)
            self._watch_states()
            self._register(record)
        except BaseException:
            before.restore()
            raise
        finally:
            del self.flat

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
                else:
                    self.results.append(("as it is", x))
            self.bound = _bound(self.before)
            return new + [x for *_, x in self.bound]

        with contextlib.ExitStack() as stack:
            stack.enter_context(mode)
            stack.enter_context(_optimizers(self.watch.optimizers, self.rates))
            stack.enter_context(mock.patch.object(torch.compiler, "_is_compiling_flag", True))
            stack.enter_context(_no_states_of_generators())
            stack.enter_context(fx_traceback.preserve_node_meta())
            module = make_fx(self._guarded(call), tracing_mode="real")(*fakes)
        _check_python(self.before, self.bound)
        for x in self.watch.tensors.values():
            vars(x).pop("proxy", None)
        record = _lifted(module, fakes, {})
        self.places = {id(x): i for i, x in enumerate(fakes) if isinstance(x, torch.Tensor)}
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
            if isinstance(x, FakeTensor) and id(x) not in self.places:
                raise Refused("the step uses a tensor of another trace")
            if x.device.type != "tpu" and (x.dim() or node in writes):
                raise Refused("the step uses a tensor on the CPU")
        output = record.module.graph.output_node()
        for node in output.args[0]:
            root = root_of(node)
            if node.op == "placeholder" or (root.op == "placeholder" and root in writes):
                raise Refused("the step returns a view of what it writes")
        lifted = {id(x) for x in record.tensors}
        for kind, container, key, _ in self.bound:
            if kind == "item" and id(self._stood(container, key)) in lifted:
                self.once = True  # it reads what it replaces: the next call's is another tensor
        for p, grad in self.before.grads:
            if grad is not None and id(grad) in lifted:
                self.watch.note(ATTRIBUTE, p, "grad", grad, "a gradient")

    def _stood(self, container, key):
        return next(value for _, c, k, value, _ in self.watch.places if c is container and k == key)

    def _begin_states(self, record):
        """State that optimizers have made is brought in from outside where it begins as a constant: then this program is the
        next call's too."""
        graph, kept = record.module.graph, []
        outputs = list(graph.output_node().args[0])
        n = len(outputs) - len(self.bound)
        for (kind, container, key, x), last in zip(self.bound, outputs[n:]):
            node = _made_by(last)
            real = _initial(node) if kind == "state" else None
            if real is None:
                self.once |= kind == "state"
                kept.append(((kind, container, key, x), last))
                continue
            with graph.inserting_before(next(iter(graph.nodes))):
                operand = graph.placeholder(node.name + "_state")
            operand.meta["val"] = x
            # placeholders are in the order of record.tensors
            record.tensors.insert(0, real)
            record.names.insert(0, key)
            node.replace_all_uses_with(operand)
            graph.erase_node(node)
            container[key] = real
        graph.output_node().args = (outputs[:n] + [last for _, last in kept],)
        self.bound = [what for what, _ in kept]
        record.module.recompile()

    def _watch_states(self):
        anew = {(id(container), key) for _, container, key, _ in self.bound}
        self.watch.places = [p for p in self.watch.places if (id(p[1]), p[2]) not in anew or p[0] != ITEM]
        for o in self.watch.optimizers:
            name = f"the state of {type(o).__name__}"
            self.watch.note(ITEM, vars(o), "state", o.state, name)
            self.watch.note(LENGTH, o.state, None, len(o.state), name)
            for state in o.state.values():
                self.watch.note(LENGTH, state, None, len(state), name)
                for key, value in state.items():
                    if (id(state), key) not in anew:
                        self.watch.note(ITEM, state, key, value, f"{name}: {key}")

    def _register(self, record):
        graph = record.module.graph
        nodes = graph.find_nodes(op="placeholder")
        writes = set(_written(graph))
        parts = [i for i, n in enumerate(nodes) if n in writes], [i for i, n in enumerate(nodes) if n not in writes]
        values = [n.meta["val"] for n in graph.output_node().args[0]]
        module = record.module

        def trace(operands):
            arguments = [None] * len(nodes)
            for where, given in zip(parts, operands):
                for i, x in zip(where, given):
                    arguments[i] = x
            with torch.no_grad():
                results = module(*arguments)
            torch.ops.torch_tpu.deliver(results)

        outputs = [(str(v.dtype).removeprefix("torch."), tuple(v.shape), tuple(v.stride())) for v in values]
        self.handle = _C.graph_register(trace, outputs)
        self.operands = [[record.tensors[i] for i in part] for part in parts]
        rates = {id(r.tensor): r for r in self.rates}
        self.given, self.following = [], []  # (operands, place, index of the argument or rate)
        for operands in self.operands:
            for place, x in enumerate(operands):
                if id(x) in self.places:
                    self.given.append((operands, place, self.places[id(x)]))
                    operands[place] = None
                elif id(x) in rates:
                    self.following.append((operands, place, rates[id(x)]))
        n = len(values) - len(self.bound)
        self.bindings = [(kind, container, key, n + k) for k, (kind, container, key, _) in enumerate(self.bound)]
        self.single = self.results == [("new", 0)] and self.returned.is_leaf()
        del self.bound, self.places

    def run(self, flat):
        for operands, place, i in self.given:
            operands[place] = flat[i]
        for operands, place, rate in self.following:
            operands[place] = rate.follow()
        grad = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        try:
            new = torch.ops.torch_tpu.graph_call(self.handle, *self.operands)
        finally:
            torch._C._set_grad_enabled(grad)
            for operands, place, _ in self.given:
                operands[place] = None
        for kind, container, key, k in self.bindings:
            if kind == "grad":
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


class _DependsOnGrads(Exception):
    """It matters that a parameter has no gradient yet."""


@contextlib.contextmanager
def _no_states_of_generators():
    """Random states are not recorded: what saves and restores them (checkpointing with dropout) would draw other numbers."""

    def refuse(*args, **kwargs):
        raise Refused("the step sets the state of a random generator (checkpointing: preserve_rng_state=False)")

    with mock.patch.object(torch.tpu, "set_rng_state", refuse), mock.patch.object(torch, "manual_seed", refuse):
        yield


def trace(fn, args, kwargs):
    """The step as Traced. Raises Refused."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

    reasons = []
    for rates in (True, False):
        for sentinels in (True, False):
            try:
                return Traced(fn, args, kwargs, rates, sentinels)
            except _DependsOnGrads:
                continue
            except (Refused, NotImplementedError, DataDependentOutputException, DynamicOutputShapeException, RuntimeError, TypeError, ValueError) as e:
                reasons.append(str(e).split("\n")[0] or type(e).__name__)
                break
    raise Refused(reasons[0])
