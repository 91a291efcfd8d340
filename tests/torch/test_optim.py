"""Optimizers: the CPU's parameters after a few steps, and no compile when the learning rate changes."""
import copy

import pytest
import torch
from torch import nn

CASES = [
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (torch.optim.Adam, {"lr": 0.01}),
    (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    (torch.optim.AdamW, {"lr": 0.01}),
    (torch.optim.RMSprop, {"lr": 0.01}),
    (torch.optim.Adagrad, {"lr": 0.1}),
]
WAYS = ["foreach", "fused", "single"]


def steps(make, device, model, n=4):
    m = copy.deepcopy(model).to(device)
    optimizer = make(m.parameters())
    x = torch.linspace(-1, 1, 12).view(4, 3).to(device)
    for i in range(n):
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * 0.9
        optimizer.zero_grad()
        (m(x) - 1).square().mean().backward()
        optimizer.step()
    return [p.detach().cpu() for p in m.parameters()]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_steps_agree_with_cpu(dev, case, way):
    kind, options = CASES[case]
    if way == "fused" and kind is torch.optim.RMSprop:
        pytest.skip("torch has no fused RMSprop")
    if way == "fused" and kind is torch.optim.Adagrad and dev == "tpu":
        pytest.skip("torch allows fused Adagrad on the CPU only")
    flags = {"foreach": {"foreach": True}, "fused": {"fused": True}, "single": {"foreach": False}}[way]
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    got = steps(lambda p: kind(p, **options, **flags), dev, model)
    want = steps(lambda p: kind(p, **options, foreach=False), "cpu", model)
    for g, w in zip(got, want):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)


@pytest.mark.strict("counts compiles, which fuse puts off")
@pytest.mark.tpu
@pytest.mark.parametrize("flags", [{}, {"foreach": True}, {"fused": True}], ids=str)
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_learning_rates_do_not_compile(counted, kind, flags):
    m = nn.Linear(3, 2).to("tpu")
    optimizer = kind(m.parameters(), lr=0.1, weight_decay=0.01, **flags)

    def step(lr):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        m(torch.ones(2, 3, device="tpu")).square().sum().backward()
        optimizer.step()

    step(0.1), step(0.05), step(0.025)
    with counted() as c:
        for i in range(10):
            step(0.01 / (i + 1))
    assert c.built == 0


def test_clipping_and_schedules(dev):
    results = []
    for d in (dev, "cpu"):
        torch.manual_seed(0)
        m = nn.Linear(4, 4).to(d)
        o = torch.optim.SGD(m.parameters(), lr=0.5)
        s = torch.optim.lr_scheduler.CosineAnnealingLR(o, 5)
        norms = []
        for _ in range(5):
            o.zero_grad()
            m(torch.ones(2, 4, device=d)).square().sum().backward()
            norms.append(nn.utils.clip_grad_norm_(m.parameters(), 0.5).item())
            o.step()
            s.step()
        nn.utils.clip_grad_value_(m.parameters(), 0.01)
        results.append((norms, m.weight.detach().cpu(), m.weight.grad.cpu()))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    torch.testing.assert_close(results[0][1], results[1][1])
    torch.testing.assert_close(results[0][2], results[1][2])


def test_state_moves_with_load(dev):
    m = nn.Linear(2, 2)
    o = torch.optim.AdamW(m.parameters())
    m(torch.ones(1, 2)).sum().backward()
    o.step()
    moved = copy.deepcopy(m).to(dev)
    p = torch.optim.AdamW(moved.parameters())
    p.load_state_dict(o.state_dict())
    assert p.state[moved.weight]["exp_avg"].device == moved.weight.device
    p.step()


@pytest.mark.tpu
def test_lbfgs_and_a_tensor_learning_rate():
    m = nn.Linear(2, 1).to("tpu")
    x, y = torch.eye(2, device="tpu"), torch.tensor([[1.0], [2.0]], device="tpu")
    o = torch.optim.LBFGS(m.parameters())

    def closure():
        o.zero_grad()
        loss = (m(x) - y).square().sum()
        loss.backward()
        return loss

    for _ in range(5):
        o.step(closure)
    assert closure().item() < 1e-3
    o = torch.optim.Adam(m.parameters(), lr=torch.tensor(0.1))
    closure(), o.step()
