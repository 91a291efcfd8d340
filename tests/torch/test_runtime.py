"""Streams, events, memory, fork, errors: what surrounds the operators."""
import gc
import os
import time

import pytest
import torch

pytestmark = pytest.mark.tpu


# ---- streams and events ----
def test_events_measure_work():
    a, b = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    x = torch.randn(500, 500, device="tpu")
    (x @ x).sum().item()
    a.record()
    start = time.perf_counter()
    for _ in range(20):
        x = (x @ x) * 1e-3
    b.record()
    b.synchronize()
    wall = (time.perf_counter() - start) * 1e3
    assert a.query() and b.query() and 0 < a.elapsed_time(b) <= wall * 1.5 + 1


def test_streams():
    s = torch.tpu.Stream()
    assert s.device.type == "tpu" and torch.tpu.current_stream() != s or True
    with torch.tpu.stream(s):
        assert torch.tpu.current_stream() == s
        y = torch.ones(3, device="tpu") * 2
        e = s.record_event()
    torch.tpu.default_stream().wait_event(e)
    s.synchronize()
    assert s.query() and torch.tpu.current_stream() == torch.tpu.default_stream() and y.sum().item() == 6
    with torch.tpu.stream(None):
        pass
    y.record_stream(s)


def test_accelerator_api():
    acc = torch.accelerator
    assert (
        acc.is_available()
        and acc.current_accelerator().type == "tpu"
        and acc.device_count() == torch.tpu.device_count()
    )
    acc.set_device_index(0)
    assert acc.current_device_index() == 0
    s = acc.current_stream()
    acc.set_stream(s)
    acc.synchronize()
    assert (
        acc.memory_allocated() >= 0
        and acc.max_memory_allocated() >= acc.memory_allocated()
        and acc.memory_stats() is not None
    )
    acc.reset_peak_memory_stats(), acc.reset_accumulated_memory_stats(), acc.empty_cache()
    assert acc.memory_reserved() >= 0 and acc.max_memory_reserved() >= 0
    with acc.device_index(0):
        pass


def test_synchronize_waits_for_everything():
    x = torch.randn(800, 800, device="tpu")
    for _ in range(5):
        x = (x @ x) * 1e-3
    torch.tpu.synchronize()
    e = torch.tpu.Event()
    e.record()
    assert e.query()


# ---- memory ----
@pytest.mark.strict("looks at memory that calls take at once")
def test_memory_is_flat_and_returns_to_zero():
    gc.collect()
    start = torch.tpu.memory_allocated()
    m = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).to("tpu")
    o = torch.optim.Adam(m.parameters())
    seen = []
    for _ in range(8):
        o.zero_grad()
        loss = m(torch.ones(4, 16, device="tpu")).square().mean()
        loss.backward()
        o.step()
        seen.append((torch.tpu.memory_allocated(), torch.tpu.memory_stats()["allocation.all.current"]))
    assert len(set(seen[3:])) == 1
    del m, o, loss
    gc.collect()
    torch.tpu.empty_cache()
    assert torch.tpu.memory_allocated() <= start


@pytest.mark.strict("looks at memory that calls take at once")
def test_memory_numbers():
    gc.collect()
    torch.tpu.reset_peak_memory_stats()
    before = torch.tpu.memory_allocated()
    x = torch.zeros(1000, device="tpu") + 1
    assert torch.tpu.memory_allocated() - before >= 4000
    del x
    assert torch.tpu.max_memory_allocated() >= before + 4000 and torch.tpu.memory_allocated() <= before + 64
    free, total = torch.tpu.mem_get_info()
    assert 0 <= free <= total and "allocated" in torch.tpu.memory_summary()


@pytest.mark.strict("looks at memory that calls take at once")
def test_what_is_written_in_place_is_not_counted_twice():
    x = torch.zeros(1 << 18, device="tpu")
    x.add_(1)
    torch.tpu.synchronize()
    torch.tpu.reset_peak_memory_stats()
    before = torch.tpu.memory_allocated()
    x.add_(1)
    x[:100] = 2
    torch._foreach_mul_([x], 2.0)
    assert torch.tpu.max_memory_allocated() - before < 1 << 18 and torch.tpu.memory_allocated() == before
    y = x.view_as(x).clone()  # shares the buffer: the write cannot have it
    x.add_(1)
    assert torch.tpu.memory_allocated() - before == 1 << 20 and y[0].item() == 4 and x[0].item() == 5


def test_a_memory_limit(python):
    code = """
import torch
x = torch.ones(10, device="tpu")
torch.tpu.set_per_process_memory_fraction(1e-6)
try:
    y = torch.ones(64 << 20, device="tpu") + 1
    print("no error")
except torch.OutOfMemoryError as e:
    print("OOM", e)
torch.tpu.set_per_process_memory_fraction(1.0)
print((x + 1).sum().item())
"""
    status, out, err = python(code)
    assert status == 0, err
    assert out.startswith("OOM") and out.strip().endswith("20.0")


# ---- errors, worded as PyTorch words them ----
def test_error_wording():
    x, y = torch.ones(2, 3, device="tpu"), torch.ones(4, 5, device="tpu")
    for f, kind in (
        (lambda a, b: a + b, RuntimeError),
        (lambda a, b: a @ b, RuntimeError),
        (lambda a, b: a.view(5), RuntimeError),
        (lambda a, b: a[7], IndexError),
        (lambda a, b: a.sum(4), IndexError),
        (lambda a, b: torch.cat([a, b]), RuntimeError),
        (lambda a, b: a.reshape(7), RuntimeError),
        (lambda a, b: a.expand(5, 5), RuntimeError),
        (lambda a, b: b.item(), RuntimeError),
        (lambda a, b: torch.nn.functional.linear(a, b), RuntimeError),
        (lambda a, b: a.long().mean(), RuntimeError),
    ):
        with pytest.raises(kind) as got:
            f(x, y)
        with pytest.raises(kind) as want:
            f(x.cpu(), y.cpu())
        first = str(want.value).split("\n")[0]
        assert str(got.value).split("\n")[0].replace("tpu", "cpu").split()[:4] == first.split()[:4], (
            str(got.value),
            first,
        )


def test_operands_on_two_devices():
    with pytest.raises(RuntimeError, match="[Ee]xpected all tensors to be on the same device"):
        torch.ones(2, device="tpu") + torch.ones(2)
    assert (torch.ones(2, device="tpu") + torch.tensor(1.0)).tolist() == [2, 2]


def test_numpy_is_refused():
    with pytest.raises(TypeError, match="can't convert tpu:0 device type tensor to numpy"):
        torch.ones(2, device="tpu").numpy()


def test_a_device_that_is_not_there():
    with pytest.raises((RuntimeError, ValueError), match="device"):
        torch.ones(2, device="tpu:63")


def test_python_survives_every_error():
    for _ in range(3):
        with pytest.raises(RuntimeError):
            torch.ones(2, 3, device="tpu") @ torch.ones(2, 3, device="tpu")
    assert torch.ones(2, device="tpu").sum().item() == 2


# ---- fork ----
def test_a_forked_child_gets_the_usual_error():
    torch.ones(1, device="tpu")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            torch.ones(2, device="tpu")
            text = "no error"
        except BaseException as e:
            text = str(e)
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    text = os.read(read, 4096).decode()
    os.waitpid(pid, 0)
    assert "Cannot re-initialize" in text and "fork" in text and "spawn" in text


def test_fork_before_first_use_is_fine(python):
    code = """
import os, torch
pid = os.fork()
if pid == 0:
    ok = (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
    os._exit(0 if ok else 1)
assert os.waitpid(pid, 0)[1] == 0
print(torch.ones(2, device="tpu").sum().item())
"""
    status, out, err = python(code)
    assert status == 0 and out.strip() == "2.0", err


# ---- threads ----
def test_many_threads_at_once():
    import threading

    failures = []

    def work(k):
        try:
            x = torch.full((4, k + 1), float(k), device="tpu")
            for _ in range(20):
                x = x + 1
            assert x.cpu().eq(k + 20).all()
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures
