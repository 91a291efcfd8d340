"""Which way a call goes: what fails takes another way for calls like it only, and defects of ours are not hidden."""
import pytest
import torch

import torch_tpu

pytestmark = pytest.mark.tpu
NAME = "linalg_cross"


class Flaky:
    """linalg_cross, decomposed but for two rows."""

    def __init__(self):
        self.tried = []

    def __call__(self, a, b, *, dim=-1):
        self.tried.append(a.shape[0])
        if a.shape[0] == 2:
            raise RuntimeError("not of two")
        return a.roll(-1, dim) * b.roll(1, dim) - a.roll(1, dim) * b.roll(-1, dim)


@pytest.fixture
def flaky():
    from torch_tpu import _decompose

    fn, before = Flaky(), _decompose._functions.get(NAME)
    _decompose._functions[NAME] = (fn, _decompose.overload(NAME), None)
    yield fn
    if before is None:
        del _decompose._functions[NAME]
    else:
        _decompose._functions[NAME] = before


def fallbacks():
    return torch_tpu.counters()["fallbacks"].get(NAME, 0)


@pytest.mark.filterwarnings("ignore:torch_tpu. aten..linalg_cross")
def test_a_decomposition_that_fails_fails_for_its_calls_only(flaky):
    def cross(n):
        a, b = torch.randn(n, 3, dtype=torch.float64), torch.randn(n, 3, dtype=torch.float64)
        torch.testing.assert_close(torch.linalg.cross(a.to("tpu"), b.to("tpu")).cpu(), torch.linalg.cross(a, b))

    before = fallbacks()
    cross(2)
    assert fallbacks() == before + 1
    cross(5)
    cross(6)
    assert fallbacks() == before + 1 and flaky.tried == [2, 5, 6]
    cross(2)  # known by now: not tried again
    assert fallbacks() == before + 2 and flaky.tried == [2, 5, 6]


def test_what_the_plugin_cannot_compile_is_not_computed_elsewhere(python):
    code = """
import torch
x = torch.arange(4.0).to("tpu")
try:
    x + x
except RuntimeError as e:
    print("raised:", e)
try:
    x + torch.ones(3).to("tpu")
except RuntimeError as e:
    print("refused:", e)
"""
    status, out, err = python(code, TORCH_TPU_XLA_OPTIONS="xla_no_such_option=1", TORCH_TPU_CACHE="0")
    assert status == 0, err
    assert "raised: No such compile option" in out, out
    assert "refused: The size of tensor a (4) must match the size of tensor b (3)" in out, out
    assert "runs on the CPU" not in err
