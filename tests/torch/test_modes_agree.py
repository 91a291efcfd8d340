"""Strict, debug and fuse are ways of running one program: they give equal results, and random numbers to the bit.

`python tests/run.py --mode fuse` runs the whole suite in a mode; this file is the sample that always runs."""
import os
import sys

import pytest
import torch
import torch_tpu
from torch import nn
from torch.nn import functional as F

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "..", "models")]
import test_fuzz_views  # noqa: E402
import test_gpt  # noqa: E402
import test_rng  # noqa: E402

pytestmark = pytest.mark.tpu
OTHERS = ["debug", "fuse"]


def in_mode(mode, program):
    """The program's results on the host, and the state of the generator after it."""
    torch.manual_seed(4)
    with torch_tpu.set_eager_mode(mode):
        results = program()
        results = [t.detach().cpu() for t in (results if isinstance(results, (list, tuple)) else [results])]
        return results, torch.tpu.get_rng_state()


def agree(program, mode, exactly=False, near=None):
    """near: a tolerance, where the dtypes of results do not tell it."""
    (want, state), (got, other) = in_mode("strict", program), in_mode(mode, program)
    assert torch.equal(state, other)
    for a, b in zip(got, want, strict=True):
        if exactly:
            assert a.dtype == b.dtype and torch.equal(a, b)
        else:
            torch.testing.assert_close(a, b, rtol=near, atol=near, equal_nan=True)
    again, _ = in_mode(mode, program)  # from what the first run left in caches
    for a, b in zip(again, got, strict=True):
        tolerance = 0 if exactly else near
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("mode", OTHERS)
def test_random_streams_are_the_same_numbers(mode):
    def draw_all():
        g = torch.Generator(device="tpu").manual_seed(9)
        drawn = [draw("tpu") for draw in test_rng.DRAWS.values()] + [draw("tpu", g) for draw in test_rng.DRAWS.values()]
        torch.rand(7, device="tpu")  # drawn and dropped: the stream moves on all the same
        x = torch.ones(50, device="tpu")
        return [*drawn, F.dropout(x, 0.3), torch.randn(5, device="tpu"), F.dropout(x, 0.3) * 2, torch.rand_like(x)]

    agree(draw_all, mode, exactly=True)


@pytest.mark.parametrize("mode", OTHERS)
@pytest.mark.parametrize(
    "options", [{}, {"checkpointed": True}, {"accumulate": 2}, {"autocast": torch.bfloat16}], ids=str
)
def test_training_with_dropout(mode, options):
    # a program of many operators rounds to bfloat16 less often than they do one by one
    near = 2e-3 if options else None
    agree(lambda: test_gpt.train("tpu", 6, {"foreach": True}, dropout=0.1, **options), mode, near=near)


@pytest.mark.parametrize("mode", OTHERS)
def test_in_place_writes_and_views(mode):
    def program():
        x = torch.arange(24.0, device="tpu").view(4, 6)
        y, z = x.clone(), x[1:3].t()
        for i in range(3):
            z.mul_(2)
            x[i] = y[3 - i]
            x[:, i].add_(z[0, 0])
            y = y.t().contiguous().view(4, 6)
            y[y > 20] = -1.0
            x, y = y, x
        counts = torch.zeros(5, dtype=torch.long, device="tpu").index_add_(
            0, torch.tensor([1, 1, 3], device="tpu"), torch.ones(3, dtype=torch.long, device="tpu")
        )
        return [
            x,
            y,
            z,
            counts,
            x.sum(0),
            torch.cat([y, z.t()]),
            x.max(1).indices,
            x.nonzero(),
            torch.stack([z, z]).cumsum(0),
        ]

    agree(program, mode)


@pytest.mark.parametrize("mode", OTHERS)
def test_convolutions_and_buffers(mode):
    def program():
        m = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(5)
        ).to("tpu")
        o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        x, y, losses = torch.randn(6, 3, 8, 8, device="tpu"), torch.randint(0, 5, (6,), device="tpu"), []
        for _ in range(4):
            o.zero_grad()
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            o.step()
            losses.append(loss.detach())
        return [torch.stack(losses), *m.state_dict().values()]

    agree(program, mode)


@pytest.mark.parametrize("mode", OTHERS)
def test_random_programs_of_views(mode):
    with torch_tpu.set_eager_mode(mode):
        test_fuzz_views.test_random_programs()


@pytest.mark.parametrize("mode", OTHERS)
def test_errors_are_raised_by_the_call(mode):
    x = torch.ones(2, 3, device="tpu")
    with torch_tpu.set_eager_mode(mode):
        y = x + 1
        with pytest.raises(RuntimeError, match="The size of tensor a"):
            y + torch.ones(4, device="tpu")
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            torch.ones(2, device="tpu", requires_grad=True).add_(1)
        assert y.tolist() == [[2.0] * 3] * 2
