"""A training step that is one program takes no more memory than the same step on torch's CPU, plus a tenth.

What is compared is what the process has resident at its peak, as the kernel counts it: it includes what the program takes for
itself, which no count of buffers shows, and what torch's CPU kernels take beside its allocator. Strict mode's buffers are counted
in tests/torch/test_memory.py: its resident peak depends on how many programs run at once."""
import pathlib
import re

import pytest

pytestmark = pytest.mark.tpu
BENCH = pathlib.Path(__file__).parents[2] / "bench"

PEAKS = """
import ctypes, gc, sys
import torch, torch_tpu
from torch import nn
from torch.nn import functional as F
sys.path.insert(0, {bench!r})
import models

def gpt():
    return models.GPT(2, 128, 128, vocabulary=1024), torch.randint(0, 1024, (8, 128)), torch.randint(0, 1024, (8, 128))

def cnn():
    block = lambda i, o: [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU()]
    model = nn.Sequential(*block(3, 32), *block(32, 64), nn.MaxPool2d(2), *block(64, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return model, torch.randn(16, 3, 48, 48), torch.randint(0, 10, (16,))

def resident(what):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(what))

def peak(device, mode):
    if device == "tpu":
        torch_tpu.set_eager_mode("strict" if mode == "compiled" else mode)
    torch.manual_seed(0)
    model, x, y = {model}()
    model, x, y = model.to(device), x.to(device), y.to(device).flatten()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    if mode == "compiled":
        step = torch.compile(step)
    least = None
    for i in range(12):
        gc.collect()
        if device == "tpu":
            torch.tpu.synchronize()
            torch_tpu._C.fuse_wait(False)
        ctypes.CDLL(None).malloc_trim(0)
        before = resident("VmRSS")
        open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
        step()
        if i > 3:
            least = min(least or 1 << 60, resident("VmHWM") - before)
    return least

for device, mode in (("cpu", "eager"), ("tpu", "fuse"), ("tpu", "compiled")):
    print(mode, peak(device, mode))
"""


@pytest.mark.parametrize("model", ["gpt", "cnn"])
def test_a_step_as_one_program_takes_no_more_than_on_the_cpu(python, model):
    status, out, err = python(PEAKS.format(bench=str(BENCH), model=model), timeout=600)
    assert status == 0, err
    peaks = {mode: int(n) for mode, n in re.findall(r"^(\w+) (\d+)$", out, re.M)}
    assert len(peaks) == 3 and peaks["eager"] > 20 << 20, out
    for mode, n in peaks.items():
        assert n <= 1.1 * peaks["eager"], {mode: n >> 10 for mode, n in peaks.items()}
