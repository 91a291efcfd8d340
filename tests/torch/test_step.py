"""torch_tpu.compile_step: a whole training step is one execution, and equals eager's."""
import collections
import os
import random
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import torch_tpu

pytestmark = [pytest.mark.tpu]
ALL = int(os.environ.get("TORCH_TPU_TEST_SAMPLES", "3")) > 3  # make test-all


def net(device, dropout=0.0):
    torch.manual_seed(1)
    m = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm(8), nn.Linear(8, 3)).to(device)
    return m, torch.randn(5, 6).to(device), torch.randn(5, 3).to(device)


def plain(m, optimizer, clip=None):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(m(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(m.parameters(), clip)
        optimizer.step()
        return loss

    return step


def same_models(m, reference, rtol=1e-3, atol=1e-5):
    for p, w in zip(m.parameters(), reference.parameters()):
        torch.testing.assert_close(p.cpu(), w, rtol=rtol, atol=atol)
        if w.grad is not None:
            torch.testing.assert_close(p.grad.cpu(), w.grad, rtol=rtol, atol=atol)
    for b, w in zip(m.buffers(), reference.buffers()):
        torch.testing.assert_close(b.cpu(), w, rtol=rtol, atol=atol)


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "AdamW amsgrad": lambda p: torch.optim.AdamW(p, lr=1e-2, amsgrad=True),
    "AdamW fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "AdamW for": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=False),
    "Adam": lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=1e-2),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
    "Adadelta": lambda p: torch.optim.Adadelta(p, lr=1.0),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=1e-2),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=1e-2),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=1e-2),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=1e-3),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=1e-2),
}


@pytest.mark.parametrize("name", OPTIMIZERS if ALL else ["SGD momentum", "AdamW", "AdamW fused", "NAdam"])
@pytest.mark.strict("counts executions, which fuse puts off")
def test_a_step_is_one_execution_and_rates_are_operands(name, counted, native):
    sides = []
    for device in ("cpu", "tpu"):
        m, x, y = net(device)
        optimizer = OPTIMIZERS[name](m.parameters())
        step = plain(m, optimizer, clip=0.5)
        sides.append(
            [
                m,
                x,
                y,
                torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
                torch_tpu.compile_step(step, fullgraph=True) if device == "tpu" else step,
            ]
        )
    losses = [[], []]

    def train(n):
        for _ in range(n):
            for (m, x, y, schedule, step), seen in zip(sides, losses):
                seen.append(step(x, y).detach())
                schedule.step()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # schedules that step first
        train(3)
        with counted() as c:
            train(5)
    assert c.executions == 5 and c.built == 0
    torch.testing.assert_close(torch.stack(losses[1]).cpu(), torch.stack(losses[0]), rtol=1e-4, atol=1e-5)
    same_models(sides[1][0], sides[0][0])


def test_dropout_draws_eagers_numbers():
    seen = []
    for compiled in (False, True):
        m, x, y = net("tpu", dropout=0.5)
        step = plain(m, torch.optim.SGD(m.parameters(), lr=0.1))
        step = torch_tpu.compile_step(step, fullgraph=True) if compiled else step
        torch.manual_seed(5)
        seen.append([step(x, y).item() for _ in range(6)] + torch.rand(3, device="tpu").tolist())
    torch.testing.assert_close(torch.tensor(seen[0]), torch.tensor(seen[1]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_draw_their_numbers_again(reentrant):
    seen = []
    for compiled in (False, True):
        m, x, y = net("tpu", dropout=0.5)
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.mse_loss(checkpoint(m, x.detach().requires_grad_(), use_reentrant=reentrant), y)
            loss.backward()
            optimizer.step()
            return loss

        step = torch_tpu.compile_step(step, fullgraph=True) if compiled else step
        torch.manual_seed(5)
        seen.append([step(x, y).item() for _ in range(4)] + torch.rand(3, device="tpu").tolist())
    torch.testing.assert_close(torch.tensor(seen[0]), torch.tensor(seen[1]), rtol=1e-5, atol=1e-6)


def test_a_generator_of_the_users_is_refused_before_anything_runs():
    m, x, _ = net("tpu")
    g = torch.Generator("tpu").manual_seed(1)
    step = torch_tpu.compile_step(lambda x: (m(x) + torch.randn(5, 3, device="tpu", generator=g)).detach())
    with pytest.warns(UserWarning, match="operator by operator"):
        got = step(x)
    g.manual_seed(1)
    torch.testing.assert_close(got, (m(x) + torch.randn(5, 3, device="tpu", generator=g)).detach())


@pytest.mark.strict("counts executions, which fuse puts off")
def test_what_it_refers_to_is_looked_at_before_each_call(counted):
    m, x, y = net("tpu", dropout=0.5)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    scale = 1.0

    @torch_tpu.compile_step(fullgraph=True)
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(m(x), y) * scale
        loss.backward()
        optimizer.step()
        return loss

    step(x, y), step(x, y)
    assert step.programs == 1
    m.eval()
    with torch.no_grad():
        want = F.mse_loss(m(x), y).item()
    assert abs(step(x, y).item() - want) < 1e-5 and step.programs == 2
    scale = 2.0
    with torch.no_grad():
        want = 2 * F.mse_loss(m(x), y).item()
    assert abs(step(x, y).item() - want) < 1e-5 and step.programs == 3
    m[0].weight.requires_grad_(False)
    before = m[0].weight.clone()
    step(x, y)
    assert step.programs == 4 and torch.equal(m[0].weight, before)
    m[0].weight.requires_grad_(True)
    with counted() as c:
        step(x, y)
    assert step.programs == 4 and c.executions == 1
    m[0].weight = nn.Parameter(torch.zeros_like(m[0].weight))  # the optimizer has the old one
    with torch.no_grad():
        want = 2 * F.mse_loss(m(x), y).item()
    assert abs(step(x, y).item() - want) < 1e-5 and step.programs == 5
    optimizer.param_groups[0]["momentum"] = 0.5
    step(x, y), step(x, y)
    assert optimizer.state[m[0].bias]["momentum_buffer"].device.type == "tpu"
    m[0].register_forward_hook(lambda module, inputs, result: result * 0)
    with torch.no_grad():
        want = 2 * F.mse_loss(m(x), y).item()
    assert abs(step(x, y).item() - want) < 1e-5


def test_shapes_and_numbers_of_arguments():
    m, _, _ = net("tpu")
    forward = torch_tpu.compile_step(
        lambda x, n=2, *, parts: [m(x) * n, {"sum": sum(p.sum() for p in parts)}, n, "text"], fullgraph=True
    )
    for _ in range(2):
        for size in (5, 7):
            for n in (2, 3.5):
                x = torch.randn(size, 6, device="tpu")
                y, d, k, text = forward(x, n, parts=[x, x[0]])
                torch.testing.assert_close(y, m(x).detach() * n)
                torch.testing.assert_close(d["sum"], x.sum() + x[0].sum())
                assert (k, text) == (n, "text") and not y.requires_grad
    assert forward.programs == 4


def test_gradients_that_accumulate():
    for reset in ("outside", "never", "to zero"):
        models = []
        for device in ("cpu", "tpu"):
            m, x, y = net(device)
            optimizer = torch.optim.SGD(m.parameters(), lr=0.01)

            def step(x, y, m=m, optimizer=optimizer):
                if reset == "to zero":
                    optimizer.zero_grad(set_to_none=False)
                (m(x) - y).square().sum().backward()
                optimizer.step()

            step = torch_tpu.compile_step(step, fullgraph=True) if device == "tpu" else step
            for _ in range(5):
                if reset == "outside":
                    optimizer.zero_grad()
                step(x, y)
            models.append(m)
        same_models(models[1], models[0])


def test_gradients_are_kept_by_who_has_them():
    m, x, y = net("tpu")
    step = torch_tpu.compile_step(plain(m, torch.optim.SGD(m.parameters(), lr=0.1)), fullgraph=True)
    step(x, y)
    kept = m[0].weight.grad
    was = kept.clone()
    step(x * 2, y)
    assert torch.equal(kept, was) and not torch.equal(m[0].weight.grad, was)


def test_batch_norm_and_a_frozen_part():
    models = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(2)
        m = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)).to(device)
        m[0].requires_grad_(False)
        x, y = torch.randn(4, 3, 6, 6).to(device), torch.tensor([0, 1, 1, 0]).to(device)
        optimizer = torch.optim.AdamW(m.parameters(), lr=1e-2)

        def step(x, y, m=m, optimizer=optimizer):
            optimizer.zero_grad()
            F.cross_entropy(m(x), y).backward()
            optimizer.step()

        step = torch_tpu.compile_step(step, fullgraph=True) if device == "tpu" else step
        for _ in range(4):
            step(x, y)
        models.append(m)
    same_models(models[1], models[0])
    assert models[1][1].num_batches_tracked.item() == 4 and models[1][0].weight.grad is None


def test_what_cannot_be_one_program_runs_as_ever():
    m, x, y = net("tpu")
    reference, xc, yc = net("cpu")
    optimizer, theirs = torch.optim.AdamW(m.parameters(), lr=1e-2), torch.optim.AdamW(reference.parameters(), lr=1e-2)

    def reading(step):
        def run(x, y):
            loss = step(x, y)
            return loss if loss.item() < 1e9 else None

        return run

    ours, on_cpu = torch_tpu.compile_step(reading(plain(m, optimizer))), reading(plain(reference, theirs))
    with pytest.warns(UserWarning, match=r"runs operator by operator: the step reads a value"):
        got = [ours(x, y).item() for _ in range(4)]
    torch.testing.assert_close(
        torch.tensor(got), torch.tensor([on_cpu(xc, yc).item() for _ in range(4)]), rtol=1e-4, atol=1e-5
    )
    same_models(m, reference)
    with pytest.raises(RuntimeError, match="is not one program: the step reads a value"):
        torch_tpu.compile_step(reading(plain(m, optimizer)), fullgraph=True)(x, y)


count = 0


def test_what_is_wrong_is_said_and_the_next_call_is_right():
    m, x, y = net("tpu")
    step = torch_tpu.compile_step(lambda x: m(x).detach())
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        step(torch.ones(2, 5, device="tpu"))
    assert not step.refused
    torch.testing.assert_close(step(x), m(x).detach())


@pytest.mark.parametrize("what", ["a global", "a schedule", "an attribute", "the host", "an argument on the host"])
def test_refusals_leave_all_as_it_was(what):
    m, x, y = net("tpu")
    m.calls = 0
    optimizer = torch.optim.AdamW(m.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    inner = plain(m, optimizer)

    def step(x, y):
        global count
        loss = inner(x.to("tpu"), y)
        if what == "a global":
            count += 1
        elif what == "a schedule":
            schedule.step()
        elif what == "an attribute":
            m.calls += 1
        elif what == "the host":
            return loss.cpu()
        return loss

    before = [p.clone() for p in m.parameters()]
    with pytest.raises(RuntimeError, match="is not one program"):
        torch_tpu.compile_step(step, fullgraph=True)(x.cpu() if what == "an argument on the host" else x, y)
    assert all(torch.equal(p, b) and p.grad is None for p, b in zip(m.parameters(), before))
    assert not optimizer.state and optimizer.param_groups[0]["lr"] == 1e-2 and m.calls == 0 and count == 0
    assert optimizer.param_groups[0]["capturable"] is False


def test_state_goes_to_disk_and_back(tmp_path):
    m, x, y = net("tpu")
    optimizer = torch.optim.AdamW(m.parameters(), lr=1e-2)
    step = torch_tpu.compile_step(plain(m, optimizer), fullgraph=True)
    for _ in range(3):
        step(x, y)
    torch.save([m.state_dict(), optimizer.state_dict()], tmp_path / "state")
    want = [step(x, y).item() for _ in range(3)]
    state, of_optimizer = torch.load(tmp_path / "state")
    m.load_state_dict(state)
    optimizer.load_state_dict(of_optimizer)
    torch.testing.assert_close(
        torch.tensor([step(x, y).item() for _ in range(3)]), torch.tensor(want), rtol=1e-5, atol=1e-6
    )
    reference, xc, yc = net("cpu")
    theirs = torch.optim.AdamW(reference.parameters(), lr=1e-2)
    reference.load_state_dict({k: v.cpu() for k, v in state.items()})
    theirs.load_state_dict(torch.load(tmp_path / "state", map_location="cpu")[1])
    on_cpu = plain(reference, theirs)
    torch.testing.assert_close(
        torch.tensor([on_cpu(xc, yc).item() for _ in range(3)]), torch.tensor(want), rtol=1e-4, atol=1e-5
    )


def test_tensors_that_a_step_binds():
    class Averaged(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("mean", torch.zeros(3))
            self.last = None

        def forward(self, x):
            self.last = self.layer(x)
            self.mean = self.mean * 0.5 + self.last.detach().mean(0) * 0.5
            return self.last - self.mean

    sides = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(0)
        m = Averaged().to(device)
        step = torch_tpu.compile_step(m, fullgraph=True) if device == "tpu" else m
        x = torch.ones(2, 3, device=device)
        sides.append([t.detach().cpu() for i in range(3) for t in (step(x * i), m.last, m.mean)])
    torch.testing.assert_close(sides[0], sides[1])


class Settings:
    scale = 1.0
    parts = {"a"}


class Slots:
    __slots__ = ("scale",)


class Scaled(nn.Module):
    scale = 1.0

    def __init__(self):
        super().__init__()
        self.layer, self.slots = nn.Linear(3, 3), Slots()
        self.slots.scale = 1.0

    def forward(self, x):
        more = 3.0 if getattr(self, "use_more", False) else 1.0
        return self.layer(x) * self.scale * Settings.scale * len(Settings.parts) * self.slots.scale * more * input()


def input():
    return 1.0


@pytest.mark.parametrize(
    "change",
    [
        lambda m, patch: patch.setattr(Scaled, "scale", 2.0),
        lambda m, patch: setattr(m, "scale", 2.0),
        lambda m, patch: setattr(m, "use_more", True),
        lambda m, patch: patch.setattr(Settings, "scale", 2.0),
        lambda m, patch: patch.setattr(Settings, "parts", {"a", "b"}),
        lambda m, patch: setattr(m.slots, "scale", 2.0),
        lambda m, patch: patch.setattr(Scaled, "forward", lambda self, x: self.layer(x) * 5),
        lambda m, patch: patch.setitem(globals(), "input", lambda: 4.0),
        lambda m, patch: setattr(m, "forward", lambda x: x * 2),
        lambda m, patch: setattr(m.layer.weight, "data", torch.ones(3, 3, device="tpu")),
        lambda m, patch: m.bfloat16(),
    ],
    ids=[
        "class",
        "shadow",
        "getattr",
        "namespace",
        "set",
        "slots",
        "method",
        "builtin's name",
        "instance's method",
        "data",
        "dtype",
    ],
)
def test_what_a_class_holds_is_looked_at(change, monkeypatch):
    m = Scaled().to("tpu")
    x = torch.ones(2, 3, device="tpu")
    step = torch_tpu.compile_step(lambda x: m(x.to(m.layer.weight.dtype)), fullgraph=True)
    torch.testing.assert_close(step(x), m(x).detach())
    change(m, monkeypatch)
    torch.testing.assert_close(step(x), m(x.to(m.layer.weight.dtype)).detach())


def test_what_a_refused_step_filled_is_as_it_was():
    m, x, y = net("tpu")
    inner, losses, stats, seen, n = plain(m, torch.optim.SGD(m.parameters(), lr=0.1)), [], {}, {0}, 0

    def step(x, y):
        nonlocal n
        n += 1
        loss = inner(x, y)
        losses.append(loss), seen.add(n)
        stats["loss"] = step.last = loss
        return loss

    compiled = torch_tpu.compile_step(step)
    with pytest.warns(UserWarning, match="operator by operator: the step changes"):
        got = [compiled(x, y).item() for _ in range(4)]
    assert [loss.item() for loss in losses] == got and n == 4 and seen == {0, 1, 2, 3, 4}
    assert stats["loss"].item() == step.last.item() == got[-1]


def test_attributes_that_appear_in_a_step():
    class Keeping(nn.Linear):
        def forward(self, x):
            self.last = super().forward(x)
            return self.last * 2

    m = Keeping(3, 3).to("tpu")
    step = torch_tpu.compile_step(m, fullgraph=True)
    for i in range(3):
        y = step(torch.full((2, 3), float(i), device="tpu"))
        torch.testing.assert_close(m.last * 2, y)


@pytest.mark.parametrize("draw", [random.random, np.random.random, lambda: torch.manual_seed(3).initial_seed()])
def test_numbers_drawn_on_the_host_are_drawn_in_each_call(draw):
    x = torch.ones(2, device="tpu")
    step = torch_tpu.compile_step(lambda x: x * draw())
    state = random.getstate(), np.random.get_state()
    with pytest.warns(UserWarning, match="draws random numbers on the host|operator by operator"):
        got = [step(x)[0].item() for _ in range(4)]
    random.setstate(state[0]), np.random.set_state(state[1])
    torch.testing.assert_close(got, [float(torch.tensor(draw() * 1.0)) for _ in range(4)])


def test_hooks_of_tensors_and_optimizers_are_seen():
    m = nn.Linear(3, 1, bias=False).to("tpu")
    optimizer = torch.optim.SGD(m.parameters(), lr=1.0)

    @torch_tpu.compile_step(fullgraph=True)
    def step(x):
        optimizer.zero_grad()
        m(x).sum().backward()
        optimizer.step()

    def change():
        before = m.weight.detach().clone()
        step(torch.ones(1, 3, device="tpu"))
        return (before - m.weight.detach())[0, 0].item()

    assert abs(change() - 1) < 1e-5
    handle = m.weight.register_hook(lambda grad: grad * 2)
    assert abs(change() - 2) < 1e-5
    handle.remove()
    assert abs(change() - 1) < 1e-5
    optimizer.register_step_pre_hook(lambda *_: m.weight.grad.mul_(3) is None or None)
    assert abs(change() - 3) < 1e-5


@pytest.mark.parametrize("held", [collections.deque([2.0]), iter([2.0, 3.0]), np.ones(2)])
def test_what_cannot_be_watched_is_refused(held):
    with pytest.raises(RuntimeError, match="cannot be watched"):
        torch_tpu.compile_step(lambda x: x * next(iter(held)), fullgraph=True)(torch.ones(2, device="tpu"))


def test_environment_variables_are_looked_at(monkeypatch):
    step = torch_tpu.compile_step(lambda x: x * float(os.environ.get("TORCH_TPU_TEST_FACTOR", "1")), fullgraph=True)
    x = torch.ones(2, device="tpu")
    assert step(x)[0].item() == 1
    monkeypatch.setenv("TORCH_TPU_TEST_FACTOR", "2")
    assert step(x)[0].item() == 2


def test_numbers_that_change_all_the_time_end_in_a_warning():
    step = torch_tpu.compile_step(lambda x, i: x + i)
    x = torch.zeros(2, device="tpu")
    with pytest.warns(UserWarning, match="programs are not enough"):
        assert [step(x, i)[0].item() for i in range(20)] == list(range(20))
    assert step.programs == 16


def test_errors_of_python_are_those_of_the_step():
    step = torch_tpu.compile_step(lambda x: x.nothing)
    with pytest.raises(AttributeError, match="nothing"):
        step(torch.ones(2, device="tpu"))


SCRIPT = """
import sys, torch, torch_tpu
from torch import nn
torch.manual_seed(0)

class Model(nn.Module):
    factor = {factor}

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)) * self.factor)

m = Model().to("tpu")
optimizer = torch.optim.AdamW(m.parameters(), lr=0.1)

@torch_tpu.compile_step(fullgraph=True)
def step(x):
    optimizer.zero_grad()
    loss = m(x).square().sum()
    loss.backward()
    optimizer.step()
    return loss

losses = [step(torch.ones(3, 4, device="tpu")).item() for _ in range(3)]
counts = torch_tpu.counters()
print(losses, counts["compiles"], counts["executions"], "torch_tpu.step.record" in sys.modules)
"""


FINDER = """  # as editable installs have one
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        return None

sys.meta_path.insert(0, Finder())
"""


def test_a_second_process_neither_traces_nor_compiles(python, tmp_path):
    def run(factor):
        (tmp_path / "script.py").write_text(SCRIPT.replace("{factor}", factor))
        (tmp_path / "finder.py").write_text(FINDER)
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import finder, runpy; runpy.run_path({str(tmp_path / 'script.py')!r})"
        status, out, err = python(code, TORCH_TPU_CACHE_DIR=str(tmp_path / "cache"), TORCH_TPU_KEEP_STEPS="1")
        assert status == 0, err
        return out.split("] ")

    cold, warm, other = run("1.0"), run("1.0"), run("2.0")
    assert cold[1].split()[2] == "True" and warm[1].split()[0::2] == ["0", "False"]
    assert cold[0] == warm[0] != other[0] and other[1].split()[2] == "True"


class Made(collections.OrderedDict):
    """Gives something new for each key, as the activations of transformers do."""

    def __getitem__(self, key):
        return super().__getitem__(key)()


MADE = Made(gelu=torch.nn.GELU)


def test_what_a_dict_holds_is_not_what_it_gives():
    @torch_tpu.compile_step
    def step(x):
        return MADE["gelu"](x) * 2

    x = torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(step(x.to("tpu")).cpu(), F.gelu(x) * 2)
    assert dict.items(MADE) == {"gelu": torch.nn.GELU}.items()


def test_steps_of_a_package_are_not_followed_far():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_embd=32,
        n_layer=2,
        n_head=2,
        vocab_size=50,
        bos_token_id=1,
        eos_token_id=2,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
    )
    torch.manual_seed(0)
    reference = transformers.GPT2LMHeadModel(config)
    m = transformers.GPT2LMHeadModel(config).to("tpu")
    m.load_state_dict(reference.state_dict())
    ids = torch.randint(2, 50, (2, 8))

    def training(m, ids):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)

        def step():
            optimizer.zero_grad()
            loss = m(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    step, eager = torch_tpu.compile_step(training(m, ids.to("tpu")), fullgraph=True), training(reference, ids)
    for _ in range(3):
        torch.testing.assert_close(step().cpu(), eager(), rtol=1e-4, atol=1e-5)
    (_, program), = step.known[next(iter(step.known))]
    assert step.programs == 1 and len(program.watch.places) < 2000  # everything that its classes mention is 38,000
    # an attribute of a package's object
    m.transformer.h[0].attn.scaling = reference.transformer.h[0].attn.scaling = 2.0
    torch.testing.assert_close(step().cpu(), eager(), rtol=1e-4, atol=1e-5)


class Trainer:
    def __init__(self, factor):
        self.factor = factor

    @torch_tpu.compile_step(fullgraph=True)
    def step(self, x):
        return x * self.factor


def test_methods_are_steps_of_their_objects():
    x = torch.ones(2, device="tpu")
    two, three = Trainer(2.0), Trainer(3.0)
    assert [t.step(x)[0].item() for t in (two, three, two)] == [2, 3, 2]
    two.factor = 5.0
    assert two.step(x)[0].item() == 5


FACTORS = [2.0]


def hidden(x):
    return x * FACTORS[0]


def test_what_is_called_by_ways_that_cannot_be_followed_is_watched_too():
    calls = {"hid" + "den": None}
    step = torch_tpu.compile_step(lambda x: globals()["hid" + next(iter(calls))[3:]](x), fullgraph=True)
    x = torch.ones(2, device="tpu")
    assert step(x)[0].item() == 2
    FACTORS[0] = 3.0
    try:
        assert step(x)[0].item() == 3
    finally:
        FACTORS[0] = 2.0


def test_what_can_reach_too_much_is_refused():
    held = list(range(5000))
    step = torch_tpu.compile_step(lambda x: x * held[1])
    with pytest.warns(UserWarning, match="too many to be watched"):
        assert step(torch.ones(2, device="tpu"))[0].item() == 1
