"""Ranges between tensors, and Kaiser windows, eager and as parts of a program."""

import pytest
import torch

import torch_tpu


@pytest.mark.parametrize("compiled", [False, True])
def test_kaiser_windows(compiled):
    def f(n, *args, device, dtype=None):
        return torch.kaiser_window(n, *args, device=device, dtype=dtype) + 0

    run = torch.compile(f, backend="tpu", fullgraph=True, dynamic=False) if compiled else f
    for args in [(0,), (1,), (2,), (9,), (9, False), (64, True, 3.5), (12, False, 0.0)]:
        torch.testing.assert_close(run(*args, device="tpu").cpu(), f(*args, device="cpu"), rtol=1e-5, atol=1e-6)
    got, want = [g(9, device=d, dtype=torch.float64) for g, d in ((run, "tpu"), (f, "cpu"))]
    torch.testing.assert_close(got.cpu(), want)


def test_refused_windows():
    for args, kwargs in [((-1,), {}), ((4,), {"dtype": torch.int32})]:
        with pytest.raises(RuntimeError) as want:
            torch.kaiser_window(*args, **kwargs)
        with pytest.raises(RuntimeError) as got:
            torch.kaiser_window(*args, **kwargs, device="tpu")
        assert str(got.value).split("\n")[0] == str(want.value).split("\n")[0]


@pytest.mark.parametrize("make", [torch.linspace, torch.logspace])
def test_ends_that_are_tensors_are_one_program(make):
    ends = [(torch.tensor(1.5), torch.tensor(3)), (torch.tensor(0.5), 2.0), (1, torch.tensor(2.5))]
    for start, end in ends:
        there = [x.to("tpu") if isinstance(x, torch.Tensor) else x for x in (start, end)]
        want = make(start, end, 7)

        def f(a, b):
            return make(a, b, 7, device="tpu") * 2

        torch.testing.assert_close(make(*there, 7, device="tpu").cpu(), want)
        torch.testing.assert_close(make(*there, 7), want)  # on the CPU, as torch does
        torch._dynamo.reset()
        run = torch.compile(f, backend="tpu", fullgraph=True, dynamic=False)
        for _ in range(2):
            torch.tpu.synchronize()
            before = torch_tpu.counters()["executions"]
            got = run(*there)
            torch.tpu.synchronize()
            executions = torch_tpu.counters()["executions"] - before
        assert executions == 1
        torch.testing.assert_close(got.cpu(), want * 2)
