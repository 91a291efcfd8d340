"""Compiled training steps: the CPU's losses, and one program where forward, backward and optimizer follow one
another."""
import pytest
import torch
from torch import nn

from torch_tpu import _C

pytestmark = [pytest.mark.tpu, pytest.mark.usefixtures("fresh_dynamo")]


def settled():
    """What is compiled in the background is there."""
    torch.tpu.synchronize()
    _C.fuse_wait(False)


def perceptron(device):
    torch.manual_seed(1)
    m = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).to(device)
    return m, torch.randn(5, 6).to(device), torch.randn(5, 3).to(device)


def stepper(device, update_compiled=True, clip=False, read_early=None):
    m, x, y = perceptron(device)
    optimizer = torch.optim.AdamW(m.parameters(), lr=1e-2)
    c = (lambda f: torch.compile(f, backend="tpu")) if device == "tpu" else (lambda f: f)
    forward, update = c(lambda: (m(x) - y).square().mean()), c(optimizer.step) if update_compiled else optimizer.step

    def step():
        optimizer.zero_grad()
        loss = forward()
        if read_early is not None:
            read_early.append(loss.item())
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(m.parameters(), 0.1)
        update()
        return loss.detach()

    return m, step


@pytest.mark.strict("counts executions, which fuse puts off")
# Executions of a step: the joined program, and what depends on nothing of it: the gradient of the loss to itself, the
# decay of AdamW's second moments.
@pytest.mark.parametrize("how, most", [({}, 2), ({"clip": True}, 2), ({"update_compiled": False, "clip": True}, 3)])
def test_a_step_is_one_program(how, most, counted):
    m, step = stepper("tpu", **how)
    reference, on_cpu = stepper("cpu", **how)
    for _ in range(6):
        step().item(), on_cpu().item()
        settled()
    with counted() as c:
        got = [step().item() for _ in range(3)]
    want = [on_cpu().item() for _ in range(3)]
    assert c.built == 0 and c.executions <= 3 * most, c.executions
    torch.testing.assert_close(torch.tensor(got), torch.tensor(want), rtol=1e-4, atol=1e-5)
    for p, w in zip(m.parameters(), reference.parameters()):
        torch.testing.assert_close(p.cpu(), w, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(p.grad.cpu(), w.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.strict("counts executions, which fuse puts off")
def test_steps_that_nobody_reads_are_joined_too(counted):
    m, step = stepper("tpu")
    reference, on_cpu = stepper("cpu")
    for _ in range(8):
        step(), on_cpu()
    _C.fuse_wait(False)
    for _ in range(3):
        step(), on_cpu()
    _C.fuse_wait(False)
    with counted() as c:
        for _ in range(5):
            last, want = step(), on_cpu()
    assert c.built == 0 and c.executions == 10
    assert abs(last.item() - want.item()) < 1e-4


def test_a_loss_that_is_read_before_its_backward():
    early, on_cpu = [], []
    late = [step().item() for _, step in [stepper("tpu", read_early=early)] for _ in range(6)]
    want = [step().item() for _, step in [stepper("cpu", read_early=on_cpu)] for _ in range(6)]
    torch.testing.assert_close(torch.tensor(early), torch.tensor(on_cpu), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.tensor(late), torch.tensor(want), rtol=1e-4, atol=1e-5)


def test_accumulated_gradients_and_values_between_graphs():
    results = []
    for device in ("cpu", "tpu"):
        m, x, y = perceptron(device)
        c = (lambda f: torch.compile(f, backend="tpu")) if device == "tpu" else (lambda f: f)
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        forward, update = c(lambda s: (m(x * s) - y).square().mean()), c(optimizer.step)
        seen = []
        for i in range(8):
            optimizer.zero_grad()
            for part in range(2):
                loss = forward(torch.tensor(1.0 + part))
                loss.backward()
            if i % 3 == 2:
                seen.append(m[0].weight.grad.norm().item())  # a reader where there was none before
            x.mul_(0.9)  # after the graphs have taken it
            update()
            seen.append(loss.item())
        results.append(torch.tensor(seen))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.strict("counts executions, which fuse puts off")
def test_graphs_by_themselves_run_at_once(counted):
    f = torch.compile(lambda x: (x * 2).tanh(), backend="tpu")
    x = torch.ones(3, device="tpu")
    f(x)
    with counted() as c:
        kept = [f(x) for _ in range(4)]
    assert c.executions == 4 and c.built == 0 and len(kept) == 4


def test_dropout_and_its_seed_in_joined_steps():
    def run():
        torch.manual_seed(3)
        m = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)).to("tpu")
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        x = torch.randn(5, 6).to("tpu")
        forward = torch.compile(lambda: m(x).square().mean(), backend="tpu")
        losses = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = forward()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            settled()
        return losses, torch.rand(3, device="tpu").tolist()

    one, rest = run()
    torch._dynamo.reset()
    two, again = run()
    assert rest == again and len(set(one)) == 8
    torch.testing.assert_close(torch.tensor(one), torch.tensor(two), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["AdamW", "NAdam", "Adamax"])
def test_the_host_does_a_few_things_for_all_parameters(name, monkeypatch):
    from torch_tpu.compile import parts

    made = []
    before = parts.Mixed.__init__
    monkeypatch.setattr(parts.Mixed, "__init__", lambda self, *args: (before(self, *args), made.append(self))[0])
    models_of = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(1)
        m = nn.Sequential(*[nn.Linear(3, 3) for _ in range(6)]).to(device)
        optimizer = getattr(torch.optim, name)(m.parameters(), lr=1e-2)
        step = torch.compile(optimizer.step, backend="tpu") if device == "tpu" else optimizer.step
        for _ in range(4):
            optimizer.zero_grad()
            m(torch.ones(2, 3, device=device)).square().sum().backward()
            step()
        models_of.append((m, optimizer))
    (reference, theirs), (m, ours) = models_of
    for p, w in zip(m.parameters(), reference.parameters()):
        torch.testing.assert_close(p.cpu(), w, rtol=1e-4, atol=1e-6)
    for s, w in zip(ours.state.values(), theirs.state.values()):
        assert s["step"] == w["step"] == 4
    calls = [
        n
        for mixed in made
        for kind, part, _ in mixed.steps
        if kind == "host"
        for n in part.module.graph.nodes
        if n.op == "call_function"
    ]
    work = [n for n in calls if "getitem" not in str(n.target)]
    each = [n for n in work if "_foreach" in str(n.target) or "copy" in str(n.target)]
    assert made and len(each) == len(made) and len(work) <= 36, [str(n.target) for n in work]  # one copy for all


@pytest.mark.parametrize("foreach", [False, True])
def test_momenta_that_a_schedule_changes(foreach):
    """A number that is a tensor in one use and has no such form in another is never the call's before."""

    def parameters(device, backend):
        torch._dynamo.reset()
        p = torch.nn.Parameter(torch.ones(4, device=device))
        optimizer = torch.optim.AdamW([p], 0.1, foreach=foreach)

        def step(t):
            optimizer.zero_grad()
            ((p - t) ** 2).sum().backward()
            optimizer.step()

        step = torch.compile(step, backend=backend)
        seen = []
        for i in range(6):
            optimizer.param_groups[0]["betas"] = (0.95 - 0.01 * i, 0.999)
            step(torch.arange(4.0, device=device) * (i % 3))
            seen.append(p.detach().cpu().clone())
        return seen

    torch.testing.assert_close(parameters("tpu", "tpu"), parameters("cpu", "aot_eager"))


def test_a_number_of_two_kinds_of_use():
    class Settings:
        pass

    def run(device, backend):
        torch._dynamo.reset()
        settings, m = Settings(), torch.ones(3, device=device)
        g, t = torch.arange(3.0, device=device), torch.tensor(3.0, device=device)

        def step():
            b = settings.b
            return m.lerp(g, 1 - b) + torch.nn.functional.leaky_relu(g - 1, b) + (1 - b**t)

        step = torch.compile(step, backend=backend)
        found = []
        for i in range(5):
            settings.b = 0.95 - 0.1 * i
            found.append(step().cpu())
        return found

    torch.testing.assert_close(run("tpu", "tpu"), run("cpu", "aot_eager"))
