"""FlexAttention under torch.compile: one program forward and one backward, equal to the CPU's arithmetic."""

import math

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import torch_tpu


@pytest.fixture(autouse=True)
def not_in_debug_mode():
    if torch_tpu.eager_mode == "debug":
        pytest.skip("Debug mode refuses an index of compiled FlexAttention that is in range: docs/progress.md")


def causal(b, h, q, k):
    return q >= k


def distance(score, b, h, q, k):
    return score + (q - k) * 0.1


def plain(q, k, v, bias=None, mask=None):
    """The same on the CPU; bias [q, k] is added to scores, mask [q, k] says which count."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return (scores.softmax(-1).to(v.dtype) @ v).float().sin().sum()


def leaves(heads, length, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    made = [torch.randn(2, h, length, 16, dtype=dtype) for h in heads]
    return [x.clone().requires_grad_() for x in made], [x.to("tpu").requires_grad_() for x in made]


def check(f, expected, cpu, tpu, tolerance=1e-4, executions=2):
    """Values and gradients, and that the second call is one execution and its backward another: executions; None: not
    looked at."""
    expected.backward()
    for _ in range(2):
        for x in tpu:
            x.grad = None
        gradient = torch.ones((), device="tpu")
        torch.tpu.synchronize()
        before = torch_tpu.counters()
        loss = f(*tpu)
        loss.backward(gradient)
        torch.tpu.synchronize()
        after = torch_tpu.counters()
    if executions is not None:
        assert after["executions"] - before["executions"] == executions
    assert after["compiles"] == before["compiles"] and after["fallbacks"] == before["fallbacks"]
    torch.testing.assert_close(loss.cpu(), expected.detach(), rtol=tolerance, atol=tolerance)
    for x, y in zip(tpu, cpu):
        torch.testing.assert_close(x.grad.cpu(), y.grad, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("masked, scored", [(False, True), (True, False), (True, True)])
def test_scores_and_masks(masked, scored):
    n = 160
    cpu, tpu = leaves((2, 2, 2), n)
    block = create_block_mask(causal, None, None, n, n, device="tpu") if masked else None
    f = torch.compile(
        lambda q, k, v: flex_attention(q, k, v, distance if scored else None, block).sin().sum(),
        backend="tpu",
        fullgraph=True,
    )
    i = torch.arange(n)
    bias = (i[:, None] - i) * 0.1 if scored else None
    check(f, plain(*cpu, bias, i[:, None] >= i if masked else None), cpu, tpu)


def test_what_functions_capture_has_gradients():
    n = 96
    cpu, tpu = leaves((4, 2, 2), n)  # grouped queries too
    slope = torch.randn(4)
    cpu.append(slope.clone().requires_grad_())
    tpu.append(slope.to("tpu").requires_grad_())

    def f(q, k, v, slope):
        def biased(score, b, h, q_at, k_at):
            return score + slope[h] * (q_at - k_at)

        return flex_attention(q, k, v, biased, enable_gqa=True).sin().sum()

    i = torch.arange(n)
    expected = plain(*cpu[:3], cpu[3][:, None, None] * (i[:, None] - i))
    check(torch.compile(f, backend="tpu", fullgraph=True), expected, cpu, tpu, 1e-3)


def test_bfloat16():
    cpu, tpu = leaves((2, 2, 2), 64, torch.bfloat16)
    f = torch.compile(lambda q, k, v: flex_attention(q, k, v).float().sin().sum(), backend="tpu", fullgraph=True)
    check(f, plain(*cpu), cpu, tpu, 5e-2)


def test_lengths_that_vary():
    f = torch.compile(lambda q, k, v: flex_attention(q, k, v, distance).sin().sum(), backend="tpu", dynamic=True)
    for n in (40, 52):
        cpu, tpu = leaves((2, 2, 2), n)
        i = torch.arange(n)
        check(f, plain(*cpu, (i[:, None] - i) * 0.1), cpu, tpu, executions=None)
