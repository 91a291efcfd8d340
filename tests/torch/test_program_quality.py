"""Programs of compiled graphs hold no line twice, move nothing back and forth, and no more than they need."""
import collections
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torch_tpu import _C

pytestmark = [
    pytest.mark.tpu,
    pytest.mark.usefixtures("fresh_dynamo"),
    pytest.mark.strict("looks at programs of their own"),
]

# Lines that are the same may stand twice if they have regions or draw, which these programs do not.
LINE = re.compile(r"^\s*(%\d+) = (.*)$", re.M)


def program(fn, *args):
    compiled = torch.compile(fn, backend="tpu", fullgraph=True)
    with torch.no_grad():
        _C.show_programs(True)
        try:
            compiled(*args)
        except RuntimeError:  # it is not run
            pass
        finally:
            (text,) = _C.shown_programs()
    return text


def counts(text):
    return collections.Counter(re.findall(r"stablehlo\.(\w+)", text))


def attention(x, weight, out):
    q, k, v = F.linear(x, weight).view(2, 8, 3, 4, 4).permute(2, 0, 3, 1, 4)
    return F.linear(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 8, 16), out)


def mlp(x, up, down):
    return F.linear(F.gelu(F.linear(x, up)), down)


def conv(x, kernel, scale, shift, mean, variance):
    return F.relu(F.batch_norm(F.conv2d(x, kernel, padding=1), mean, variance, scale, shift))


def adamw(p, grad, first, second):
    p = p * (1 - 1e-3)
    first, second = torch.lerp(first, grad, 0.1), second * 0.999 + grad * grad * 0.001
    return p - 1e-3 * first / (second.sqrt() / 0.03 + 1e-8), first, second


def ones(*shapes):
    return [torch.ones(s, device="tpu") for s in shapes]


CASES = {
    "attention": (attention, ones((2, 8, 16), (48, 16), (16, 16)), {"dot_general": 4, "transpose": 8, "convert": 0}),
    "mlp": (mlp, ones((4, 8), (32, 8), (8, 32)), {"dot_general": 2, "transpose": 2, "convert": 0}),
    "conv": (
        conv,
        ones((2, 3, 8, 8), (4, 3, 3, 3), 4, 4, 4, 4),
        {"convolution": 1, "transpose": 0, "convert": 0, "reshape": 4},
    ),
    "adamw": (adamw, ones(5, 5, 5, 5), {"broadcast_in_dim": 9, "transpose": 0, "convert": 0}),
}


@pytest.mark.parametrize("name", CASES)
def test_programs_hold_what_they_need(name):
    fn, args, most = CASES[name]
    text = program(fn, *args)
    lines = LINE.findall(text)
    twice = [line for line, n in collections.Counter(line for _, line in lines).items() if n > 1]
    assert not twice, twice
    made = dict(lines)
    for what in ("transpose", "reshape"):
        for line in made.values():
            operand = re.match(rf"stablehlo\.{what} (%\d+)", line)
            assert not (operand and made[operand[1]].startswith(f"stablehlo.{what} ")), line
    seen = counts(text)
    assert all(seen[op] <= n for op, n in most.items()), (most, dict(seen))


def test_parts_that_repeat_are_written_once_in_a_step():
    def step(x):
        return [torch.where(x > 0, x * 2 + i, x.t().contiguous().t() + 1) for i in range(3)]

    text = program(step, torch.ones(3, 4, device="tpu"))
    assert counts(text)["compare"] == 1 and counts(text)["multiply"] <= 2


def test_values_of_shared_lines():
    torch.manual_seed(0)
    x = torch.randn(3, 4)

    def f(x):
        y = x.t().reshape(4, 3).t()  # there and back
        z = x.reshape(12).reshape(2, 6).reshape(3, 4)
        x.mul_(2)
        return y + z, x.t().t() + x, (x > 0) & (y > 0), torch.where(x > 0, x, y), torch.where(x > 0, y, x)

    want, mine = x.clone(), x.to("tpu")
    for g, w in zip(torch.compile(f, backend="tpu")(mine), f(want)):
        torch.testing.assert_close(g.cpu(), w)
    torch.testing.assert_close(mine.cpu(), want)
