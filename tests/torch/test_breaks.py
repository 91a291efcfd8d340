"""What once broke: refused calls, lazy conjugates, storages from outside, racing threads, interrupts, escaping traced
tensors.

Each case runs on the CPU too: both give the same values, or both raise the same words."""
import gc
import io
import pickle
import threading

import pytest
import torch

from conftest import DEVICE as DEV


def outcome(fn, device):
    torch.manual_seed(0)
    try:
        return "value", fn(device)
    except Exception as e:
        return type(e).__name__, str(e).split("\n")[0]


def changed(x, change):
    change(x)
    return x


def steps(d):
    return torch.arange(10.0, device=d)


def column(d):
    return torch.ones(3, 1, device=d).expand(3, 4)


def z(d):
    return torch.randn(4, 4, dtype=torch.complex64).to(d)


def slide(d):
    x = steps(d)
    x[1:] += x[1:]  # the same program but for an offset
    x[1:] += x[:-1]


def mask(d):
    return torch.tensor([True, False, True, False], device=d)


SAME = {
    "overlapping add": slide,
    "overlapping copy": lambda d: steps(d)[1:].copy_(steps(d)) and changed(steps(d), lambda x: x[1:].copy_(x[:-1])),
    "overlapping out": lambda d: changed(steps(d), lambda x: torch.add(x[1:], x[:-1], out=x[1:])),
    "expanded add_": lambda d: column(d).add_(1),
    "expanded exp_": lambda d: column(d).exp_(),
    "expanded uniform_": lambda d: column(d).uniform_(),
    "expanded scatter_": lambda d: column(d).scatter_(0, torch.zeros(1, 4, dtype=torch.long, device=d), 1.0),
    "expanded fill_": lambda d: column(d).fill_(2),
    "lazy conjugate in mm": lambda d: z(d).mH @ z(d),
    "lazy conjugate in bmm": lambda d: torch.bmm(z(d)[None].mH, z(d)[None].conj()),
    "lazy negative in mm": lambda d: z(d).conj().imag @ z(d).real,
    "complex order": lambda d: z(d) > 0,
    "complex max": lambda d: z(d).max(),
    "complex into real": lambda d: changed(torch.ones(2, device=d), lambda x: x.add_(1j)),
    "mask, too few values": lambda d: changed(
        torch.ones(4, device=d), lambda x: x.__setitem__(mask(d), torch.ones(3, device=d))
    ),
    "mask, values": lambda d: changed(
        torch.zeros(4, device=d), lambda x: x.__setitem__(mask(d), torch.arange(2.0, device=d))
    ),
    "mask of another shape": lambda d: changed(torch.ones(5, device=d), lambda x: x.__setitem__(mask(d), 1)),
    "negative integer power": lambda d: torch.tensor([1, 2], device=d) ** -1,
    "bitwise on floats": lambda d: torch.ones(2, device=d) & 1,
    "mm of two dtypes": lambda d: torch.ones(2, 3, device=d) @ torch.ones(3, 2, device=d).double(),
    "mm of bool": lambda d: torch.ones(2, 2, device=d).bool() @ torch.ones(2, 2, device=d).bool(),
    "conv of two dtypes": lambda d: torch.conv2d(
        torch.ones(1, 3, 4, 4, device=d), torch.ones(2, 3, 3, 3, device=d).double()
    ),
    "max of nothing": lambda d: torch.zeros(0, 3, device=d).max(),
    "max over an empty dim": lambda d: torch.zeros(0, 3, device=d).max(0),
    "index_select by a matrix": lambda d: torch.ones(2, 3, device=d).index_select(0, torch.tensor([[0]], device=d)),
    "multinomial of too many": lambda d: torch.multinomial(torch.ones(3, device=d), 5),
    "uniform_ backwards": lambda d: torch.empty(2, device=d).uniform_(1, 0),
    "randint of nothing": lambda d: torch.randint(5, 5, (2,), device=d),
    "bernoulli_ of 2": lambda d: torch.empty(2, device=d).bernoulli_(2),
    "copy of another shape": lambda d: torch.ones(2, 3, device=d).copy_(torch.ones(4)),
}


@pytest.mark.parametrize("name", SAME)
def test_as_on_the_cpu(name):
    want, got = outcome(SAME[name], "cpu"), outcome(SAME[name], DEV)
    assert got[0] == want[0], got
    if want[0] != "value":
        assert got[1] == want[1]
    elif isinstance(want[1], torch.Tensor):
        torch.testing.assert_close(got[1].cpu(), want[1])


@pytest.mark.tpu
def test_more_dims_than_there_can_be():
    with pytest.raises(NotImplementedError, match="at most 32 dims"):
        torch.ones([1] * 40, device=DEV)
    x = torch.ones(2, device=DEV)
    for _ in range(38):
        x = x.unsqueeze(0)
    with pytest.raises(NotImplementedError, match="at most 32 dims"):
        x.add(1)


def test_legacy_serialization_and_pickle():
    x = torch.arange(8.0).to(DEV)
    file = io.BytesIO()
    torch.save([x, x[2:], x[:0].clone()], file, _use_new_zipfile_serialization=False)
    file.seek(0)
    a, b, empty = torch.load(file)
    b.add_(1)
    assert a.device == x.device and a.tolist() == [0, 1, 3, 4, 5, 6, 7, 8] and empty.numel() == 0
    a, b = pickle.loads(pickle.dumps((x[1:3], x[::2])))
    assert a.tolist() == [1, 2] and b.tolist() == [0, 2, 4, 6]


def test_threads_that_write_and_read_one_tensor():
    p, seen, errors = torch.ones(1000, device=DEV), [], []

    def run(step):
        try:
            for _ in range(100):
                step()
        except Exception as e:
            errors.append(e)

    def read():
        v = (p * 1).cpu()
        seen.append((v.min().item(), v.max().item()))

    threads = [threading.Thread(target=run, args=(s,)) for s in (lambda: p.add_(1), read, lambda: p.add_(1), read)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    if DEV == "tpu":
        assert p[0].item() == 201 and all(low == high >= 1 for low, high in seen)


@pytest.mark.tpu
def test_refused_calls_leave_nothing_behind():
    import torch_tpu

    def live():
        gc.collect()
        c = torch_tpu.counters()
        return c["live_storages"], c["live_buffers"], c["live_bytes"]

    calls = [lambda: torch.ones(2, 3, device=DEV) @ torch.ones(2, 3, device=DEV), lambda: column(DEV).add_(1),
             lambda: torch.ones(1, device=DEV).expand(2**40).add(1), lambda: torch.ones(2, device=DEV) + torch.ones(2),
             lambda: torch.ones(2, 3, device=DEV).resize_(2**45), lambda: SAME["mask, too few values"](DEV)]
    for call in calls:
        outcome(call, DEV)
    before = live()
    for call in 3 * calls:
        assert outcome(call, DEV)[0] != "value"
    assert live() == before


@pytest.mark.tpu
def test_an_interrupted_decomposition_interrupts(python):
    code = (
        "import torch, torch_tpu\n"
        "def stop(name, args): raise KeyboardInterrupt\n"
        "torch_tpu._C.set_decompose(stop)\n"
        "def use(x): return x\n"
        "try:\n"
        "    x = torch.nn.functional.grid_sample(torch.rand(1, 1, 4, 4, device='tpu'), torch.rand(1, 4, 3, 2, device='tpu'), align_corners=False)\n"
        "    [use(i) for i in range(10)]\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    for first in "", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n":  # as jobs in the background begin
        status, out, err = python(first + code, TORCH_TPU_FALLBACK="silent")
        assert status == 0 and "interrupted" in out, err


def test_out_may_be_an_operand(dev):  # the CPU's own result is then undefined
    x = torch.arange(9.0).reshape(3, 3)
    y = x.to(dev)
    torch.mm(y, y.t(), out=y)
    assert torch.equal(y.cpu(), x @ x.t())
