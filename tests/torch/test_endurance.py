"""Long runs: thousands of steps leave memory where it was, and threads that train at once, with autograd's threads and
a DataLoader's workers beside them, compute what each computes alone.

TORCH_TPU_TEST_STEPS says how many steps the long run takes (2,000 otherwise)."""
import os
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("TORCH_TPU_TEST_STEPS", 2000))

LONG_RUN = """
import ctypes, gc, sys
import torch, torch_tpu
from torch.nn import functional as F

steps = int(sys.argv[1]) if len(sys.argv) > 1 else {steps}
mode = "{mode}"
torch_tpu.set_eager_mode("strict" if mode == "compiled" else mode)

class Heap(ctypes.Structure):  # glibc's struct mallinfo2
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Heap

def taken():
    torch.tpu.synchronize()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    c, heap = torch_tpu.counters(), mallinfo2()
    resident = int(open("/proc/self/statm").read().split()[1]) * 4096
    return [c["live_buffers"], c["live_bytes"], c["live_storages"]], heap.uordblks + heap.hblkhd, resident

torch.manual_seed(0)
data = torch.randn(64, 16, device="tpu")
for i in range(30000):  # fills the table of numbers that were sent, which keeps the last ones
    data[0, :4] * (0.1 + i)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 16)).to("tpu")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2 * steps)  # at a rate of 0 the decay is by 1: another program
forward = torch.compile(model) if mode == "compiled" else model
first = last = None
for i in range(steps + 1):
    x = data[i % 57:i % 57 + 8]
    optimizer.zero_grad()
    loss = (forward(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    schedule.step()
    if i % 50 == 0:
        last = loss.item()
    first = last if first is None else first
    del loss, x
    if i in (steps // 2 - 600, steps // 2 - 300):  # where windows begin follows from where the last was asked for
        torch.tpu.synchronize()
        torch_tpu._C.fuse_wait(False)
    if i == steps // 2:
        torch_tpu._C.fuse_wait(False)
        middle, c = taken(), torch_tpu.counters()
end, d = taken(), torch_tpu.counters()
assert last < first / 2, (first, last)
assert end[0] == middle[0], (middle, end)
assert not torch_tpu.counters()["fallbacks"]
print(d["compiles"] - c["compiles"], end[1] - middle[1], end[2] - middle[2])
"""


@pytest.mark.tpu
@pytest.mark.parametrize("mode", ["strict", "fuse", "compiled"])
def test_thousands_of_steps_keep_memory_flat(python, mode):
    status, out, err = python(LONG_RUN.format(steps=STEPS, mode=mode), timeout=1200)
    assert status == 0, err
    compiles, heap, resident = map(int, out.split())
    # The plugin remembers up to 1,024 uses of a buffer before it sweeps, so the heap rises and falls by some hundred
    # KB.
    assert compiles == 0 and heap < (1 << 20) and resident < (8 << 20), out


# Nothing in the threads draws from torch's default generators: their locks, as every lock of the process, are in a
# worker as they were when it was forked off.
def model_of(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def train(model, data, shared, workers, device):
    model.to(device)
    loader = DataLoader(data, batch_size=4, num_workers=workers, timeout=60 * bool(workers),
                        generator=torch.Generator())
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-2), []
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.to(device) + shared), y.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


@pytest.mark.parametrize("mode", ["strict", "fuse", "debug"])
def test_threads_train_at_once_beside_workers(dev, mode):
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(48, 8), torch.randint(0, 4, (48,)))
    shared, got = torch.randn(8), {}
    want = {k: train(model_of(k), data, shared, 0, "cpu") for k in range(4)}
    models = {k: model_of(k) for k in want}

    def work(k, on_device):
        try:
            got[k] = train(models[k], data, on_device, k % 2 * 2, dev)
        except BaseException as error:
            got[k] = error

    def run():
        on_device = shared.to(dev)
        threads = [threading.Thread(target=work, args=(k, on_device)) for k in want]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    if dev == "tpu":
        import torch_tpu

        before = torch_tpu.eager_mode
        torch_tpu.set_eager_mode(mode)  # of the process: of all its threads
        try:
            run()
        finally:
            torch_tpu.set_eager_mode(before)
    else:
        run()
    for k, losses in want.items():
        assert torch.is_tensor(got[k]), got[k]
        torch.testing.assert_close(got[k], losses, rtol=1e-4, atol=1e-5)
