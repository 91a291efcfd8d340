"""torch_tpu.compile_step: whatever a step refers to in Python, its calls give what the function itself gives, and no
fake tensor is left anywhere."""
import collections
import contextvars
import dataclasses
import functools
import os
import queue
import sys
import threading
import types
import warnings
import weakref

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

import torch_tpu


def first(x):
    assert type(x) is not FakeTensor
    return x.flatten()[0].item()


def same_as_eager(make, change=lambda: None, programs=None):
    """make() -> (function of a tensor, what it fills or None), new at each call. Both are called before and after the
    change. programs: how many there are afterwards."""
    x = torch.full((2, 3), 2.0, device="tpu")
    (fn, filled), (eager, _) = make(), make()
    step = torch_tpu.compile_step(fn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for what in (lambda: None, lambda: None, lambda: None, change, lambda: None):
            what()
            assert first(step(x)) == pytest.approx(first(eager(x)))
    assert not any(isinstance(x, FakeTensor) for x in filled or ())
    assert programs is None or step.programs == programs, step.refused


SPACE, BAG, VARIABLE, TABLE = (
    types.SimpleNamespace(a=1.0),
    {"a": 1.0, "b": 3.0},
    contextvars.ContextVar("variable", default=1.0),
    {},
)
SCALE = 2.0
SETTINGS = types.ModuleType("torch_tpu_test_settings")
SETTINGS.__file__, SETTINGS.SCALE = "/nowhere/settings.py", 2.0


class Key:
    pass


KEY = Key()
WEAK = weakref.WeakKeyDictionary({KEY: 2.0})


class One:
    factor = 1.0


class Other(One):
    factor = 4.0


@functools.singledispatch
def factor_for(x):
    return 2.0


class Meta(type):
    factor = 2.0


class OfMeta(metaclass=Meta):
    pass


def imports(x):
    from torch_tpu_test_settings import SCALE

    return x * SCALE


def changing(case):
    """(function, change, programs)."""
    one, name = One(), "factor"
    other = types.SimpleNamespace(one=One())
    other.one.own_factor = 2.0
    return {
        "a computed name": (lambda x: x * getattr(one, name), lambda: setattr(one, name, 3.0), 2),
        "vars()": (lambda x: x * sum(vars(other.one).values()), lambda: setattr(other.one, "own_factor", 3.0), 2),
        "a metaclass": (lambda x: x * OfMeta.factor, lambda: setattr(Meta, "factor", 4.0), 2),
        "a computed variable": (lambda x: x * float(os.environ.get("TORCH_TPU_TEST_" + name, 1)),
                                lambda: os.environ.__setitem__("TORCH_TPU_TEST_factor", "5"), 2),
        "an attribute appears": (lambda x: x * getattr(SPACE, "more", 2.0), lambda: setattr(SPACE, "more", 3.0), 2),
        "the order of a dict": (lambda x: x * list(BAG.values())[0], lambda: BAG.update(a=BAG.pop("a")), 2),
        "a context variable": (lambda x: x * VARIABLE.get(), lambda: VARIABLE.set(5.0), 0),
        "globals()": (lambda x: x * globals()["SCALE"], lambda: globals().update(SCALE=7.0), 2),
        "eval()": (lambda x: x * eval("SCALE + 1"), lambda: globals().update(SCALE=9.0), 2),
        "an import": (imports, lambda: setattr(SETTINGS, "SCALE", 4.0), 2),
        "a class of an object": (lambda x: x * one.factor, lambda: setattr(one, "__class__", Other), 2),
        "a weak dict": (lambda x: x * WEAK[KEY], lambda: WEAK.update({KEY: 6.0}), 2),
        "overloads": (lambda x: x * factor_for(3), lambda: factor_for.register(int, lambda x: 5.0), None),
    }[case]


@pytest.mark.parametrize(
    "case",
    [
        "a computed name",
        "vars()",
        "a metaclass",
        "a computed variable",
        "an attribute appears",
        "the order of a dict",
        "a context variable",
        "globals()",
        "eval()",
        "an import",
        "a class of an object",
        "a weak dict",
        "overloads",
    ],
)
def test_what_changes_is_seen(case, monkeypatch):
    monkeypatch.setenv("TORCH_TPU_TEST_factor", "2")
    monkeypatch.setitem(sys.modules, "torch_tpu_test_settings", SETTINGS)
    fn, change, programs = changing(case)
    same_as_eager(lambda: (fn, None), change, programs)


@functools.lru_cache
def kept(n):
    return torch.full((n,), 2.0, device="tpu")


def filling(case):
    """(function, what it fills)."""
    lines, layer = [], nn.Identity()
    if case == "lru_cache":
        kept.cache_clear()
        return lambda x: x * kept(3), [kept(3)]
    if case == "a table":

        def fn(x, table={}):
            if "mask" not in table:
                table["mask"] = torch.full((3,), 2.0, device="tpu")
            return x * table["mask"]

        return fn, fn.__defaults__[0].values()
    if case == "cached_property":

        class Layer(nn.Module):
            @functools.cached_property
            def tensor(self):
                return torch.full((3,), 2.0, device="tpu")

            @functools.cached_property
            def number(self):
                return 3.0

            def forward(self, x):
                return x * self.tensor * self.number

        layer = Layer()
        return layer, vars(layer).values()
    if case == "a queue":
        waiting = queue.Queue()
        return lambda x: (waiting.put(x * 2), x * waiting.qsize())[1], waiting.queue
    if case == "a deque":
        last = collections.deque(maxlen=2)
        return lambda x: (last.append(x * 2), x * len(last))[1], last
    if case == "a hook's list":
        layer.register_forward_hook(lambda module, given, result: lines.append(result))
        return lambda x: layer(x) * len(lines), lines
    if case == "an iterator":
        numbers = iter(range(9))
        return lambda x: x * next(numbers), None
    if case == "a counter":
        layer.calls = 0

        def counted(x):
            layer.calls += 1
            return x * layer.calls

        return counted, None
    return {"print": lambda x: (lines.append(f"{x}"), x)[1]}[case], lines


@pytest.mark.parametrize(
    "case,programs",
    [
        ("lru_cache", 1),
        ("a table", 1),
        ("cached_property", 1),
        ("a queue", 0),
        ("a deque", 0),
        ("a hook's list", 0),
        ("an iterator", 0),
        ("a counter", 0),
        ("print", 0),
    ],
)
def test_what_a_step_fills(case, programs):
    same_as_eager(lambda: filling(case), programs=programs)


class Momentum(torch.optim.Optimizer):
    """Keeps a tensor where no torch code looks."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
        self.momentum = None

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            self.momentum = p.grad if self.momentum is None else self.momentum * 0.5 + p.grad
            p.sub_(self.momentum * 0.1)


def test_tensors_that_an_optimizer_keeps_itself():
    sides = []
    for device in ("tpu", "cpu"):
        layer = nn.Linear(3, 1, bias=False).to(device)
        nn.init.constant_(layer.weight, 0.5)
        optimizer, x = Momentum(layer.parameters()), torch.arange(12.0, device=device).reshape(4, 3) / 7

        def step(layer=layer, optimizer=optimizer, x=x):
            optimizer.zero_grad()
            loss = layer(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        fn = torch_tpu.compile_step(step) if device == "tpu" else step
        got = [fn().item() for _ in range(3)]
        optimizer.momentum = None
        sides.append(got + [fn().item() for _ in range(3)])
    assert sides[0] == pytest.approx(sides[1], rel=1e-4)


def test_parameters_without_shapes():
    layer = nn.LazyLinear(4).to("tpu")
    step = torch_tpu.compile_step(lambda x: layer(x))
    for _ in range(3):
        x = torch.randn(2, 3, device="tpu")
        torch.testing.assert_close(step(x), layer(x).detach())
    assert step.programs == 1


def test_zeros_of_both_signs_and_nan_are_numbers():
    step = torch_tpu.compile_step(lambda x, zero: 1 / (x * zero))
    x = torch.ones(2, device="tpu")
    assert [step(x, zero)[0].item() for zero in (0.0, -0.0)] == [float("inf"), -float("inf")]
    for _ in range(3):
        step(x, float("nan"))
    assert step.programs == 3


@dataclasses.dataclass
class Result:
    loss: object


def test_objects_that_a_step_returns_hold_what_it_computed():
    step = torch_tpu.compile_step(lambda x: Result(x * 2))
    with pytest.warns(UserWarning, match="returns an object of class Result"):
        for _ in range(2):
            assert first(step(torch.ones(2, device="tpu")).loss) == 2


def quietly(fn, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fn(*args)


def test_arguments_that_share_memory():
    def writes(x, y):
        x.add_(1)
        return y * 1

    def reads(x, y):
        return x * 100 + y

    for fn in (writes, reads):
        step = torch_tpu.compile_step(fn)
        for pick in (
            lambda a, b: (a[:4], b[:4]),
            lambda a, b: (a[:4], a[:4]),
            lambda a, b: (a[:4], a[2:6]),
            lambda a, b: (a[:4], b[:4]),
            lambda a, b: (a[:4],) * 2,
            lambda a, b: (b[:4], a[:4]),
        ):
            a, b = torch.arange(8.0), torch.arange(8.0) * 3
            found = quietly(step, *pick(a.to("tpu"), b.to("tpu")))
            assert found.cpu().tolist() == fn(*pick(a, b)).tolist()


def test_arguments_that_the_step_refers_to():
    w = torch.ones(2, device="tpu")
    step = torch_tpu.compile_step(lambda x: (x.add_(1), w * 1)[1])
    for x, expected in ((torch.zeros(2, device="tpu"), 1), (w, 2), (w.view(2), 3), (torch.zeros(2, device="tpu"), 3)):
        assert first(quietly(step, x)) == expected


def test_a_view_of_what_is_written():
    b, p = torch.zeros(4, device="tpu"), nn.Parameter(torch.ones(4, device="tpu"))
    view, tied, o = b[:2], p.detach(), torch.optim.SGD([p], 0.1)

    def step():
        b.add_(1)
        return view * 1

    def train():
        o.zero_grad()
        (p**2).sum().backward()
        o.step()
        return tied.sum()

    step, train = torch_tpu.compile_step(step), torch_tpu.compile_step(train)
    for i in range(3):
        assert first(quietly(step)) == i + 1
        assert quietly(train).item() == pytest.approx(4 * 0.8 ** (i + 1))


def test_state_of_optimizers_put_anew():
    def run(device, wrap):
        p = nn.Parameter(torch.ones(4, device=device))
        o = torch.optim.Adam([p], 0.1)

        def plain(t):
            o.zero_grad()
            ((p - t) ** 2).sum().backward()
            o.step()

        step, t = wrap(plain), torch.arange(4.0, device=device)
        for i in range(8):
            if i == 2:
                o.state.clear()
                plain(t)
            if i == 5:
                o.state[p]["step"] = torch.tensor(100.0)
            step(t)
        return p.detach().cpu(), float(o.state[p]["step"])

    (p, count), (q, expected) = run("tpu", torch_tpu.compile_step), run("cpu", lambda f: f)
    assert count == expected
    torch.testing.assert_close(p, q)


def test_a_stale_backward_raises():
    p = nn.Parameter(torch.ones(3, device="tpu"))
    o = torch.optim.SGD([p], 1.0)

    @torch_tpu.compile_step
    def step():
        o.zero_grad()
        (p**2).sum().backward()
        o.step()

    step()
    step()
    loss = (p**3).sum()
    step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_gradient_that_is_set_to_none():
    p = nn.Parameter(torch.ones(4, device="tpu"))
    o = torch.optim.SGD([p], 0.25)
    micro = torch_tpu.compile_step(lambda: (p * 1).sum().backward())
    update = torch_tpu.compile_step(lambda: (o.step(), o.zero_grad()))
    for i in range(3):
        micro()
        micro()
        quietly(update)
        assert first(p) == 1 - 0.5 * (i + 1) and p.grad is None


def test_a_scaler_of_losses():
    p = nn.Parameter(torch.ones(4, device="tpu"))
    o, scaler = torch.optim.SGD([p], 0.25), torch.amp.GradScaler("tpu", init_scale=8.0)

    @torch_tpu.compile_step
    def step():
        o.zero_grad()
        scaler.scale(p.sum()).backward()
        scaler.step(o)
        scaler.update()

    for i in range(3):
        quietly(step)
        assert first(p) == 1 - 0.25 * (i + 1)
    assert "GradScaler" in next(iter(step.refused.values()))


@pytest.mark.parametrize("kind", ["bound", "proxy", "view", "weak"])
def test_what_leads_to_others(kind):
    class Scale:
        value = 1.0

    def make():
        table, held = {"s": 1.0}, Scale()
        reached.append((table, held))
        get, proxy, view, weak = table.get, types.MappingProxyType(table), table.values(), weakref.ref(held)
        return {
            "bound": lambda x: x * get("s"),
            "proxy": lambda x: x * proxy["s"],
            "view": lambda x: x * sum(view),
            "weak": lambda x: x * weak().value,
        }[kind], None

    def change():
        for table, held in reached:
            table["s"] = held.value = 3.0

    reached = []
    same_as_eager(make, change)


def test_an_optimizer_of_another_thread():
    def make():
        p = nn.Parameter(torch.ones(2, device="tpu"))
        p.grad = torch.ones(2, device="tpu")
        return torch.optim.SGD([p], 0.1)

    def other():
        try:
            theirs.step()
        except BaseException as e:
            errors.append(e)

    own, theirs, errors = make(), make(), []
    from torch_tpu.step.record import _optimizers

    with _optimizers([own], []):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert not errors
