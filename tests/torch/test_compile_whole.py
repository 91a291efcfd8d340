"""torch.compile(step, options={"step": True}): the step is one program where it can be, and Dynamo's graphs where
not."""
import warnings

import pytest
import torch
from torch import nn


INPUT = torch.arange(12.0).reshape(4, 3) / 7


def training(device, reads=False):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item() if reads else loss.detach()

    return step


def losses(step, x, n=4):
    return torch.stack([torch.as_tensor(step(x)).cpu() for _ in range(n)])


@pytest.mark.strict("counts executions, which fuse puts off")
@pytest.mark.parametrize("backend", [None, "tpu"])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_step_is_one_execution(backend, fullgraph, counted):
    named = {"backend": backend} if backend else {}
    step = torch.compile(training("tpu"), fullgraph=fullgraph, options={"step": True}, **named)
    x = INPUT.to("tpu")
    got = losses(step, x)
    with counted() as c:
        last = step(x)
    assert (c.executions, c.built, step.programs) == (1, 0, 1)
    want = losses(training("cpu"), INPUT, 5)
    torch.testing.assert_close(torch.cat([got, last.cpu()[None]]), want, rtol=1e-4, atol=1e-5)


def test_what_is_no_program_is_graphs():
    step = torch.compile(training("tpu", reads=True), backend="tpu", options={"step": True})
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with pytest.warns(UserWarning, match="runs as several graphs: the step reads a value"):
        got = losses(step, INPUT.to("tpu"))
    torch.testing.assert_close(got, losses(training("cpu", reads=True), INPUT), rtol=1e-4, atol=1e-5)
    assert step.programs == 0 and torch._dynamo.utils.counters["stats"]["unique_graphs"] > before
    with pytest.raises(RuntimeError, match="is not one program: the step reads a value"):
        torch.compile(training("tpu", reads=True), backend="tpu", fullgraph=True, options={"step": True})(
            INPUT.to("tpu")
        )


def test_it_can_be_turned_off():
    eager = torch.compile(training("tpu"), disable=True, options={"step": True})
    stepped = torch.compile(training("tpu"), options={"step": True})
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(losses(eager, INPUT.to("tpu")), losses(stepped, INPUT.to("tpu")))
    assert not hasattr(eager, "programs") and stepped.programs == 0
    graphs = torch.compile(lambda x: x * 2, options={"step": False})
    torch.testing.assert_close(graphs(INPUT.to("tpu")).cpu(), INPUT * 2)
    assert not hasattr(graphs, "programs")


def test_options_that_do_not_go_together():
    for kept, match in (({"step": 1}, "expected a bool"), ({"step": True, "buckets": [8]}, "no other option")):
        with pytest.raises(ValueError, match=match):
            torch.compile(lambda x: x, backend="tpu", options=kept)
    with pytest.raises(ValueError, match="no dynamic sizes"):
        torch.compile(lambda x: x, backend="tpu", dynamic=True, options={"step": True})
    with pytest.raises(ValueError, match="is for a function"):
        torch.compile(nn.Linear(2, 2), backend="tpu", options={"step": True})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.compile(options={"step": True})(lambda x: x + 1)(torch.ones(2, device="tpu")).tolist() == [2, 2]
