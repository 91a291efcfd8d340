"""Which way a call goes: what fails takes another way for calls like it only, and defects of ours are not hidden."""
import sys

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


@pytest.mark.strict("what a plugin refuses raises when it is compiled, in fuse at the flush")
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


def python_calls(f):
    """(file, function) of every call that the interpreter makes during f()."""
    seen = []
    sys.setprofile(
        lambda frame, event, _: (
            seen.append((frame.f_code.co_filename, frame.f_code.co_name)) if event == "call" else None
        )
    )
    try:
        f()
    finally:
        sys.setprofile(None)
    return seen


def test_an_optimizer_does_not_look_for_the_plugin_at_every_step():
    p = torch.nn.Parameter(torch.ones(3, device="tpu"))
    optimizer = torch.optim.AdamW([p], lr=0.1)
    p.grad = torch.ones_like(p)
    optimizer.step()
    calls = python_calls(optimizer.step)
    assert calls and not [c for c in calls if "glob" in c[0] or "importlib" in c[0]], calls


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: torch.arange(7, **k),
        lambda **k: torch.arange(0.5, 3.2, 0.25, **k),
        lambda **k: torch.linspace(0, 1, 9, **k),
        lambda **k: torch.eye(4, **k),
    ],
)
def test_a_factory_asks_meta_once(make):
    want = make()
    for _ in range(2):
        torch.testing.assert_close(make(device="tpu").cpu(), want)
    calls = python_calls(lambda: make(device="tpu"))
    assert not [c for c in calls if "site-packages" in c[0]], calls


def test_outs_that_are_empty_get_the_sizes_of_their_call(dev):
    for n in (3, 5, 3):
        out = torch.empty(0, device=dev)
        torch.add(torch.ones(n, device=dev), 1, out=out)
        assert out.tolist() == [2.0] * n
    for end in (3, 6, 3):
        assert torch.arange(end, device=dev).tolist() == list(range(end))
        assert torch.arange(1, end, 2, device=dev).tolist() == list(range(1, end, 2))
        assert torch.arange(0, end, 0.5, device=dev).shape[0] == 2 * end
    out = torch.empty(0, 4, device=dev)  # empty, but neither of one dim nor new
    torch.mul(torch.ones(2, 2, device=dev), 3, out=out)
    assert out.tolist() == [[3.0, 3.0]] * 2
    assert torch.logspace(0, 2, 3, device=dev).tolist() == [1.0, 10.0, 100.0]
