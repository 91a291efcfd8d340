"""Eager modes: how they are set, where they hold, the names that programs use."""
import threading

import pytest
import torch
import torch_tpu
from torch_tpu._internal import execution_mode, sync

pytestmark = pytest.mark.tpu
Mode = torch.tpu.EagerMode


@pytest.fixture(autouse=True)
def strict():
    before = torch_tpu.eager_mode
    torch_tpu.set_eager_mode("strict")
    yield
    torch_tpu.set_eager_mode(before)


def test_names():
    assert (
        torch_tpu.eager_mode == "strict" and torch_tpu.eager_mode is Mode.STRICT and str(Mode.DEFER_AND_FUSE) == "fuse"
    )
    assert (
        execution_mode.EagerMode is Mode
        and execution_mode.set_eager_mode is torch.tpu.set_eager_mode is torch_tpu.set_eager_mode
    )
    for mode in ("debug", "fuse", Mode.STRICT):
        torch_tpu.set_eager_mode(mode)
        assert torch_tpu.eager_mode == execution_mode.eager_mode == mode
    with pytest.raises(ValueError, match="expected strict, debug or fuse, got loose"):
        torch_tpu.set_eager_mode("loose")
    with pytest.raises(AttributeError, match="no attribute"):
        torch_tpu.loose


def elsewhere():
    seen = []
    t = threading.Thread(target=lambda: seen.append(torch_tpu.eager_mode))
    t.start()
    t.join()
    return seen[0]


def test_a_call_is_for_the_process_and_a_context_for_its_thread():
    torch_tpu.set_eager_mode("debug")
    assert elsewhere() == "debug"
    with torch_tpu.set_eager_mode("fuse"):
        assert torch_tpu.eager_mode == "fuse" and elsewhere() == "debug"
        with torch_tpu.set_eager_mode("strict"):
            assert torch_tpu.eager_mode == "strict" and elsewhere() == "debug"
        assert torch_tpu.eager_mode == "fuse"
        torch_tpu.set_eager_mode("strict")  # of the rest of this context
        assert torch_tpu.eager_mode == "strict" and elsewhere() == "debug"
    assert torch_tpu.eager_mode == "debug"
    with pytest.raises(KeyError), torch_tpu.set_eager_mode("strict"):
        raise KeyError
    assert torch_tpu.eager_mode == "debug"


def test_backward_runs_in_the_mode_of_its_context():
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append((torch_tpu.eager_mode, threading.get_ident()))
            return g * 2

    def run():
        Look.apply(torch.ones(2, device="tpu", requires_grad=True)).sum().backward()

    run()
    with torch_tpu.set_eager_mode("debug"):
        run()
        with torch_tpu.set_eager_mode("fuse"):
            run()
        run()
    run()
    assert [mode for mode, _ in seen] == ["strict", "debug", "fuse", "debug", "strict"]
    assert threading.get_ident() not in [thread for _, thread in seen]


def test_the_environment_says_how_a_process_begins(python):
    code = "import torch, torch_tpu; print(torch_tpu.eager_mode)"
    none = dict(TORCH_TPU_EAGER_MODE=None, TORCH_TPU_DEFER_AND_FUSE=None)
    for env, mode in (
        ({}, "strict"),
        ({"TORCH_TPU_EAGER_MODE": "debug"}, "debug"),
        ({"TORCH_TPU_DEFER_AND_FUSE": "1"}, "fuse"),
        ({"TORCH_TPU_DEFER_AND_FUSE": "0"}, "strict"),
        ({"TORCH_TPU_DEFER_AND_FUSE": "1", "TORCH_TPU_EAGER_MODE": "strict"}, "strict"),
    ):
        assert python(code, **{**none, **env}) == (0, mode + "\n", ""), env
    late = "import torch, os; os.environ['TORCH_TPU_{}'] = '{}'; torch.ones(1, device='tpu'); import torch_tpu; print(torch_tpu.eager_mode)"
    assert python(late.format("DEFER_AND_FUSE", 1), **none) == (0, "fuse\n", "")
    status, out, err = python(late.format("EAGER_MODE", "loose"), **none)
    assert status and "TORCH_TPU_EAGER_MODE: expected strict, debug or fuse, got loose" in err


@pytest.mark.parametrize("mode", ["strict", "fuse"])
def test_switches_for_every_mode(python, mode):
    code = """
import torch
x, i = torch.arange(3.0, device="tpu"), torch.tensor([0, 9], device="tpu")
try: print(x[i].tolist())
except IndexError as e: print(e)
"""
    env = {"TORCH_TPU_EAGER_MODE": mode}
    assert python(code, TORCH_TPU_ENABLE_DEBUG_CHECKS="0", **env)[1] == "[0.0, 2.0]\n"
    assert python(code, TORCH_TPU_ENABLE_DEBUG_CHECKS="1", **env)[1].startswith(
        "index 9 is out of bounds for dimension 0 with size 3"
    )
    assert python(code, TORCH_TPU_LAUNCH_BLOCKING="1", **env)[1] == "[0.0, 2.0]\n"


def test_synchronize_takes_tensors():
    x = torch.ones(3, device="tpu")
    for arguments in ((), (x,), ([x, torch.ones(1)],), (None,)):
        sync.synchronize(*arguments)
        sync.synchronize(*arguments, wait=False)
