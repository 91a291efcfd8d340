"""Models under torch.compile(backend="tpu"): forward, and fifty whole training steps, equal eager's.

Dynamo takes its time for a whole step: two small models, unless TORCH_TPU_TEST_SAMPLES is above 3 (make test-all),
which takes all of them, larger, and compares with the eager tpu as well."""
import os
import pathlib
import sys

import pytest
import torch

import torch_tpu
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import models  # noqa: E402

pytestmark = [pytest.mark.tpu, pytest.mark.usefixtures("fresh_dynamo")]
LARGE = int(os.environ.get("TORCH_TPU_TEST_SAMPLES", "3")) > 3
STEPS = 50


def gpt():
    layers, width, length = (4, 256, 64) if LARGE else (1, 32, 12)
    ids = torch.randint(0, 64, (3, length + 1))
    return models.GPT(layers, width, length, vocabulary=64), (ids[:, :-1],), ids[:, 1:].flatten()


def vit():
    return models.ViT(4, 128), (torch.randn(3, 3, 32, 32),), torch.randint(0, 10, (3,))


def resnet():
    return models.ResNet(32 if LARGE else 8), (torch.randn(4, 3, 16, 16),), torch.randint(0, 10, (4,))


def minilm():
    """The architecture of MiniLM with random weights; a padded batch, the mean of the hidden states, a class for each
    text."""
    transformers = pytest.importorskip("transformers")
    width, layers, length = 384, 6, 64
    config = transformers.BertConfig(
        vocab_size=200,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        max_position_embeddings=length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )

    class Embedded(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = transformers.BertModel(config)

        def forward(self, ids, mask):
            hidden = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
            weights = mask[..., None].to(hidden.dtype)
            return (hidden * weights).sum(1) / weights.sum(1)

    mask = (torch.arange(length) < torch.tensor([length, length - 3, length // 2])[:, None]).long()
    return Embedded(), (torch.randint(0, 200, (3, length)), mask), torch.tensor([1, 0, 2])


MODELS = {"GPT": gpt, "ResNet block": resnet, **({"ViT": vit, "MiniLM": minilm} if LARGE else {})}


def made(name, device="tpu"):
    torch.manual_seed(0)
    model, inputs, targets = MODELS[name]()
    return model.to(device), [x.to(device) for x in inputs], targets.to(device)


def stepper(model, inputs, targets):
    """A function of no arguments: one step of AdamW; returns the loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(*inputs).flatten(0, -2), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@pytest.mark.skipif(not LARGE, reason="the steps have it")
@pytest.mark.parametrize("name", MODELS)
def test_forward(name, counted, native):
    model, inputs, _ = made(name)
    model.eval()
    compiled = torch.compile(model, backend="tpu", fullgraph=True)
    with torch.no_grad():
        want = model(*inputs)
        compiled(*inputs)
        with counted() as c:
            got = compiled(*inputs)
    assert (c.executions, c.built) == (1, 0)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_fifty_training_steps(name, counted, native):
    compiled = torch.compile(stepper(*made(name)), backend="tpu")
    got = [compiled() for _ in range(10)]
    torch_tpu._C.fuse_wait(False)  # the graphs of a step become one program in the background
    got += [compiled() for _ in range(10)]
    torch_tpu._C.fuse_wait(False)
    with counted() as c:
        got += [compiled() for _ in range(STEPS - 20)]
    assert c.built == 0
    got = torch.stack(got).cpu()
    for device in ("cpu", "tpu") if LARGE else ("cpu",):  # tpu's eager equals the CPU's: test_gpt.py
        eager = stepper(*made(name, device))
        torch.testing.assert_close(got, torch.stack([eager() for _ in range(STEPS)]).cpu(), rtol=2e-3, atol=2e-4)
    assert got[-1] < 0.7 * got[0], got


@pytest.mark.strict("counts executions, which fuse puts off")
@pytest.mark.parametrize("name", MODELS)
def test_fifty_steps_of_one_program(name, counted, native):
    step = torch_tpu.compile_step(stepper(*made(name)), fullgraph=True)
    got = [step()]
    with counted() as c:
        got += [step() for _ in range(STEPS - 1)]
    assert c.built == 0 and c.executions == STEPS - 1
    eager = stepper(*made(name, "cpu"))
    torch.testing.assert_close(
        torch.stack(got).cpu(), torch.stack([eager() for _ in range(STEPS)]), rtol=2e-3, atol=2e-4
    )
