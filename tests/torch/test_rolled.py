"""scan_layers: layers as one loop, with the values, gradients and names of the layers one by one."""
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torch_tpu
from torch_tpu import _C, aot
from torch_tpu.aot import count, optimized, trace
from torch_tpu.plugin import KNOWN

DEVICE = "tpu"


class Layer(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.register_buffer("scale", torch.rand(()) + 0.5)

    def forward(self, x, shift=None, *, gain=1.0):
        y = self.down(F.silu(self.up(self.norm(x)))) * self.scale * gain
        return x + (y if shift is None else y + shift)


class Model(nn.Module):
    def __init__(self, n=3, roll=None):
        super().__init__()
        layers = nn.ModuleList([Layer() for _ in range(n)])
        self.layers = layers if roll is None else torch_tpu.scan_layers(layers, checkpoint=roll)

    def forward(self, x, shift, gain=1.0):
        if isinstance(self.layers, nn.ModuleList):
            for layer in self.layers:
                x = layer(x, shift, gain=gain)
            return x
        return self.layers(x, shift, gain=gain)


def run_program(made, given):
    """Runs a record: given, {name: tensor}. Its results, and what it has written by name."""
    nodes = made.module.graph.find_nodes(op="placeholder")
    writes = set(trace._written(made.module.graph))
    order = [i for i, n in enumerate(nodes) if n in writes], [i for i, n in enumerate(nodes) if n not in writes]
    tensors = [[given[made.names[i]].to(DEVICE) for i in part] for part in order]

    def traced(parts):
        arguments = [None] * len(nodes)
        for where, values in zip(order, parts):
            for i, x in zip(where, values):
                arguments[i] = x
        with torch.no_grad():
            torch.ops.torch_tpu.deliver(list(made.module(*arguments)))

    (output,) = made.module.graph.find_nodes(op="output")
    values = [n.meta["val"] for n in output.args[0]]
    handle = _C.graph_register(
        traced, [(str(v.dtype).removeprefix("torch."), tuple(v.shape), v.stride()) for v in values]
    )
    try:
        results = torch.ops.torch_tpu.graph_call(handle, *tensors)
    finally:
        _C.graph_release(handle)
    return [r.cpu() for r in results], {made.names[i]: x.cpu() for i, x in zip(order[0], tensors[0])}


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_rolled_step_is_that_of_the_layers_one_by_one(n):
    """Loss, gradients of parameters, of the input and of what all layers share, as the recorded program computes them
    here."""
    torch.manual_seed(n)
    plain = Model(n)
    x, shift = torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    loss = plain(x, shift, 0.5).pow(2).sum()
    names, parameters = zip(*plain.named_parameters())
    wanted = torch.autograd.grad(loss, [x, shift, *parameters])

    rolled = Model(n, roll=True)
    rolled.load_state_dict(plain.state_dict())

    def step(x, shift):
        loss = rolled(x, shift, 0.5).pow(2).sum()
        return [loss, *torch.autograd.grad(loss, [x, shift, *(p for p in held.values())])]

    with aot.fake():
        fake = Model(n, roll=True)
        given = torch.zeros(4, 8, requires_grad=True), torch.zeros(8, requires_grad=True)
    held = dict(fake.named_parameters())
    rolled, real = fake, rolled
    made = trace.record(step, given)
    state = {f"rolled.{k}": v.detach() for k, v in [*real.named_parameters(), *real.named_buffers()]}
    (found_loss, *found), _ = run_program(made, {"argument 0": x.detach(), "argument 1": shift.detach(), **state})
    torch.testing.assert_close(found_loss, loss.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-4, atol=1e-5)
    stacked = dict(zip(held, found[2:]))
    for name, grad in zip(names, wanted[2:]):
        _, i, rest = name.split(".", 2)
        torch.testing.assert_close(stacked[f"layers.{rest}"][int(i)], grad, rtol=1e-4, atol=1e-5)


def test_the_program_does_not_grow_with_the_layers():
    def text(n):
        with aot.fake():
            model, x, shift = Model(n, roll=True), torch.zeros(4, 8), torch.zeros(8)
            optimizer = torch.optim.AdamW(model.parameters())

        def step(x, shift):
            model(x, shift).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        return trace.lower(trace.record(step, (x, shift))).text

    twenty, forty = text(20), text(40)
    assert twenty.count("\n") == forty.count("\n") and twenty.count("stablehlo.while") == 2
    few, many = count.Counter(twenty).cost.matrix["f32"], count.Counter(forty).cost.matrix["f32"]
    assert many == 2 * few == 40 * 8 * 2 * 4 * 8 * 16  # forward, again, and twice as much backward, of two products


def test_without_gradients_nothing_is_kept():
    with aot.fake():
        model, x, shift = Model(3, roll=True), torch.zeros(4, 8), torch.zeros(8)
    with torch.no_grad():
        made = trace.record(model, (x, shift))
    text = trace.lower(made).text
    assert text.count("stablehlo.while") == 1 and "tensor<3x4x8xf32>" not in text
    torch.manual_seed(0)
    plain = Model(3)
    real = Model(3, roll=True)
    real.load_state_dict(plain.state_dict())
    x, shift = torch.randn(4, 8), torch.randn(8)
    given = {k: v.detach() for k, v in [*real.named_parameters(), *real.named_buffers()]}
    (found,), _ = run_program(made, {"argument 0": x, "argument 1": shift, **given})
    torch.testing.assert_close(found, plain(x, shift).detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("checkpoint", [True, False])
def test_layers_run_one_by_one_elsewhere(device, checkpoint):
    torch.manual_seed(0)
    plain = Model(3)
    rolled = Model(3, roll=checkpoint)
    assert set(rolled.state_dict()) == set(plain.state_dict())
    rolled.load_state_dict(plain.state_dict())
    plain.to(device), rolled.to(device)
    x, shift = torch.randn(4, 8, device=device), torch.randn(8, device=device)
    for model in (plain, rolled):
        model(x, shift).sum().backward()
    torch.testing.assert_close(rolled(x, shift), plain(x, shift))
    for i, layer in enumerate(plain.layers):
        torch.testing.assert_close(rolled.layers.up.weight.grad[i], layer.up.weight.grad)
    assert not rolled.eval().layers._layer[0].training


def test_layers_that_cannot_be_one_loop_are_refused():
    with pytest.raises(ValueError, match="layer 1 of another than layer 0"):
        torch_tpu.scan_layers([Layer(8), Layer(4)])
    with pytest.raises(ValueError, match="a layer or more"):
        torch_tpu.scan_layers([])
    one = Layer(8)
    with pytest.raises(ValueError, match="share no parameters"):
        torch_tpu.scan_layers([one, one])
    outside = nn.Parameter(torch.ones(8))

    class Uses(Layer):
        def forward(self, x):
            return super().forward(x) * outside

    with aot.fake():
        outside = nn.Parameter(torch.ones(8))
        model, x = torch_tpu.scan_layers([Uses(), Uses()]), torch.zeros(4, 8)
    with pytest.raises(NotImplementedError, match="a parameter of no layer"):
        trace.record(model, (x,))
    with aot.fake():
        model, x = torch_tpu.scan_layers([nn.BatchNorm1d(8), nn.BatchNorm1d(8)]), torch.zeros(4, 8)
    with pytest.raises(NotImplementedError, match="writes into what it was given"):
        trace.record(model, (x,))
    narrow = nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4)])
    with aot.fake():
        model, x = torch_tpu.scan_layers(narrow), torch.zeros(4, 8)
    with pytest.raises(
        ValueError, match=r"expected layers that return what they are given, \[4, 8\] of float32, got \[4, 4\]"
    ):
        trace.record(model, (x,))


def test_what_checkpointing_computes_again_waits_for_its_gradient():
    """Else the compiler takes it for what forward has computed, and keeps that. Values are those without
    checkpointing."""
    from torch.utils.checkpoint import checkpoint

    with aot.fake():
        model, x = nn.ModuleList([Layer(), Layer()]), torch.zeros(4, 8)
    parameters = list(model.parameters())

    def result(x):
        loss = x.pow(2).sum()
        return [loss, *torch.autograd.grad(loss, parameters)]

    def keeps(x):
        for layer in model:
            x = layer(x)
        return result(x)

    def checkpoints(x):
        for layer in model:
            x = checkpoint(layer, x, use_reentrant=False)
        return result(x)

    kept, again = trace.record(keeps, (x,)), trace.record(checkpoints, (x,))
    barriers = again.module.graph.find_nodes(op="call_function", target=torch.ops.torch_tpu.barrier.default)
    inputs = dict(zip(again.module.graph.find_nodes(op="placeholder"), again.names))
    waiting = {inputs.get(n.args[0]) for n in barriers}
    assert {f"model.{k}" for k, _ in model.named_parameters() if "down" not in k} <= waiting and not any(
        n.args[1] in inputs for n in barriers
    )
    assert "barrier" not in str(kept.module.graph) and trace.lower(again).text.count("optimization_barrier") == len(
        barriers
    )
    torch.manual_seed(0)
    real = nn.ModuleList([Layer(), Layer()])
    given = {f"model.{k}": v.detach() for k, v in [*real.named_parameters(), *real.named_buffers()]}
    given["argument 0"] = torch.randn(4, 8)
    for found, wanted in zip(run_program(again, given)[0], run_program(kept, given)[0]):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(KNOWN["libtpu"]() is None, reason="libtpu compiles for TPUs, and it is not installed")
def test_a_tpu_computes_again_what_is_checkpointed_and_knows_how_often_loops_run():
    from torch.utils.checkpoint import checkpoint

    with aot.fake():
        model, x = nn.ModuleList([Layer(64), Layer(64)]), torch.zeros(256, 64)

    def keeps(x):
        for layer in model:
            x = layer(x)
        x.sum().backward()

    def checkpoints(x):
        for layer in model:
            x = checkpoint(layer, x, use_reentrant=False)
        x.sum().backward()

    kept, again = (aot.compile(fn, (x,), topology="v6e:2x2") for fn in (keeps, checkpoints))
    product = 2 * 256 * 64 * 128
    assert again.plugin_cost["flops"] >= kept.plugin_cost["flops"] + product
    with aot.fake():
        rolled = torch_tpu.scan_layers([Layer(64) for _ in range(7)])
    compiled = aot.compile(lambda x: rolled(x).sum().backward(), (x,), topology="v6e:2x2")
    assert 7 in {i.times for i in optimized.instructions(compiled.optimized())}


def test_what_layers_take_from_outside_is_part_of_the_program():
    with aot.fake():
        table, x = torch.zeros(8), torch.zeros(4, 8)

    class Takes(Layer):
        def forward(self, x):
            return super().forward(x, table)

    with aot.fake():
        model = torch_tpu.scan_layers([Takes() for _ in range(2)])
    made = trace.record(lambda x: model(x).sum().backward(), (x,))
    assert trace.lower(made).text.count("stablehlo.while") == 2
