"""Device memory: numbers by device, who holds it, what happens when it is full, and that programs take over dead
memory."""
import gc
import json
import pathlib
import sys

import pytest
import torch
import torch.nn as nn
import torch_tpu

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import models  # noqa: E402

pytestmark = pytest.mark.tpu
MIB = 1 << 20


def peak_of(fn):
    """How much more than at the start was alive at once."""
    gc.collect()
    torch.tpu.synchronize()
    start = torch.tpu.memory_allocated()
    torch.tpu.reset_peak_memory_stats()
    kept = fn()  # noqa: F841: what nobody has is not computed in fuse mode
    torch.tpu.synchronize()
    return torch.tpu.max_memory_allocated() - start


def test_what_is_written_in_place_counts_once():
    x, y = torch.ones(MIB // 4, device="tpu"), torch.ones(MIB // 4, device="tpu")
    for fn in (lambda: x.add_(1), lambda: x.mul_(y), lambda: x[:100].zero_(), lambda: torch._foreach_add_([x, y], 1.0)):
        assert peak_of(fn) < 1000
    alias = x.detach()
    assert peak_of(lambda: alias.add_(1)) < 1000
    assert peak_of(lambda: x + 1) == MIB


def cpu_peak(step, tmp_path):
    """The same of torch's CPU allocator, as its profiler tells."""
    gc.collect()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as p:
        step()
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    events = [
        e["args"]
        for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        if e.get("name") == "[memory]"
    ]
    events = [e for e in events if e["Device Type"] == 0]
    start = events[0]["Total Allocated"] - events[0]["Bytes"]
    return max(e["Total Allocated"] for e in events) - start


def transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    return nn.Sequential(layer, nn.Linear(64, 512)), torch.randn(4, 32, 64), torch.randint(512, (4, 32))


def gpt():
    return models.GPT(2, 64, 64, vocabulary=512), torch.randint(512, (4, 64)), torch.randint(512, (4, 64))


def cnn():
    def block(i, o):
        return nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU()

    layers = (
        *block(3, 8),
        *block(8, 16),
        nn.MaxPool2d(2),
        *block(16, 16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    return nn.Sequential(*layers), torch.randn(8, 3, 24, 24), torch.randint(0, 10, (8,))


def limit(kind, mode):
    """What a step may take, in parts of what it takes on the CPU. 1.1 is the aim: where XLA's CPU client sees a whole
    step, it keeps GELU's erf for the backward, and copies of what goes through convolutions, which it computes channels
    last. The tiny transformer's peak on the CPU varies by a fifth from run to run."""
    if mode == "strict":
        return 1.1
    return {transformer: 1.6, gpt: 1.25, cnn: 1.7}[kind]


@pytest.mark.strict("chooses modes")
@pytest.mark.parametrize("mode", ["strict", "fuse", "compiled"])
@pytest.mark.parametrize(
    "kind, optimizer", [(transformer, "SGD"), (transformer, "AdamW"), (gpt, "AdamW"), (cnn, "AdamW")]
)
def test_a_train_step_takes_no_more_than_on_the_cpu(kind, optimizer, mode, tmp_path):
    def trainer(device):
        torch.manual_seed(0)
        model, x, y = kind()
        model, x, y = model.to(device), x.to(device), y.to(device)
        o = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-3, foreach=False)

        def step():
            o.zero_grad()
            nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten()).backward()
            o.step()

        if device == "tpu" and mode == "compiled":
            step = torch.compile(step)
        for _ in range(4):
            step()
            if device == "tpu":
                torch.tpu.synchronize()
                torch_tpu._C.fuse_wait(False)
        return step

    with torch_tpu.set_eager_mode("fuse" if mode == "fuse" else "strict"):
        there = peak_of(trainer("tpu"))
    step = trainer("cpu")
    here = max(cpu_peak(step, tmp_path) for _ in range(3))  # varies by a tenth with what autograd frees when
    assert there <= here * limit(kind, mode), (there, here)


@pytest.mark.strict("looks at memory that calls take at once")
def test_numbers_are_of_a_device(python):
    code = """
import torch, torch_tpu
x = torch.ones(1000, device="tpu:1") + 1
m = torch.tpu
print(m.memory_allocated(0), m.memory_allocated(1), m.max_memory_allocated(1) >= 4000, m.max_memory_allocated("tpu:0"))
m.reset_peak_memory_stats(1)
print(m.max_memory_allocated(1), m.memory_stats(1)["allocated_bytes.all.allocated"] >= 8000, torch.accelerator.memory_allocated(1))
print(torch_tpu.counters()["live_bytes"], [s["device"] for s in m.memory_snapshot()], m.memory_snapshot(0))
m.set_per_process_memory_fraction(1e-9, 1)
torch.ones(1000, device="tpu:0") + 1
try: torch.ones(1000, device="tpu:1") + 1
except torch.OutOfMemoryError as e: print("tpu:1" in str(e), m.memory_stats(0)["num_ooms"], m.memory_stats(1)["num_ooms"] > 0)
"""
    status, out, err = python(code, TORCH_TPU_CPU_DEVICES="2")
    assert status == 0, err
    assert out == "0 4000 True 0\n4000 True 4000\n4000 [1] []\nTrue 0 True\n", out


def test_a_full_memory_tells_who_holds_it(python):
    code = """
import torch
def make():
    return torch.ones(256, 1024, device="tpu") * 2
big = make()
small = torch.ones(16, dtype=torch.int8, device="tpu") + 1
torch.tpu.set_per_process_memory_fraction(3 * 2**20 / torch.tpu.mem_get_info()[1])
before = torch.tpu.memory_stats()
try: big.repeat(4, 1)
except torch.OutOfMemoryError as e: print(e)
after = torch.tpu.memory_stats()
print(after["num_ooms"] - before["num_ooms"], after["num_alloc_retries"] - before["num_alloc_retries"])
print((big + 1).sum().item(), issubclass(torch.OutOfMemoryError, RuntimeError), torch.OutOfMemoryError is torch.tpu.OutOfMemoryError)
"""
    status, out, err = python(code, TORCH_TPU_TRACE_STACKS="1")
    assert status == 0, err
    lines = out.splitlines()
    assert (
        lines[0] == "TPU out of memory. Tried to allocate 4.00 MiB on tpu:0, of which this process may use 3.00 MiB"
    ), out
    assert lines[1].startswith("  in use: 1.00 MiB in 2 buffers, at the peak ") and lines[1].endswith(
        "the largest:"
    ), out
    assert lines[2] == "    1.00 MiB float32[256, 1024] made by mul.Tensor at <string>:4 in make", out
    assert lines[3] == "    0.00 MiB int8[16] made by add.Tensor at <string>:6 in <module>", out
    assert "in repeat" in lines[4] and lines[4].endswith("at <string>:9 in <module>"), out
    assert lines[-2:] == ["1 1", "786432.0 True True"], out


@pytest.mark.strict("looks at memory that calls take at once")
def test_a_full_memory_is_tried_again_without_garbage(python):
    code = """
import gc, torch
gc.disable()
class Node: pass
a = Node(); a.me, a.x = a, torch.ones(1 << 18, device="tpu") + 1
del a
torch.tpu.set_per_process_memory_fraction(2.5 * 2**20 / torch.tpu.mem_get_info()[1])
x = torch.ones(1 << 18, device="tpu") * 3
s = torch.tpu.memory_stats()
print(x.sum().item(), s["num_ooms"], s["num_alloc_retries"])
"""
    assert python(code)[:2] == (0, "786432.0 0 1\n")  # a plugin may say what it thinks of code from the disk


@pytest.mark.strict("looks at memory that calls take at once")
def test_snapshot(python):
    code = """
import json, torch, torch.cuda._memory_viz as viz
def work():
    return torch.zeros(3, 5, device="tpu") + 1
x = work()
y = torch.arange(4, device="tpu").to(torch.float16)
s = torch.tpu.memory_snapshot()
print(json.dumps(s[0]["blocks"][0]), len(s), sum(b["size"] for g in s for b in g["blocks"]) == torch.tpu.memory_allocated())
print("device 0" in viz.segsum({"segments": s, "device_traces": []}).lower() or True)
assert x.data_ptr() in [g["address"] for g in s] and "largest:" in torch.tpu.memory_summary()
"""
    status, out, err = python(code, TORCH_TPU_TRACE_STACKS="1")
    assert status == 0, err
    block = json.loads(out.splitlines()[0].rsplit(" ", 2)[0])
    assert (
        block["size"] == 60
        and block["shape"] == [3, 5]
        and block["dtype"] == "float32"
        and block["state"] == "active_allocated"
    )
    assert block["operator"] == "add.Tensor" and block["frames"] == [
        {"filename": "<string>", "line": 4, "name": "work"}
    ]
    assert out.splitlines()[0].endswith("2 True")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_fused_window_takes_the_memory_of_inputs_that_are_dropped(dtype):
    state = [torch.ones(64, 1024, device="tpu", dtype=dtype), torch.zeros(64, 1024, device="tpu", dtype=dtype)]

    def step():
        x, y = state
        state[:] = x * 0.5 + y, y + 1
        del x, y  # nobody's when the window is flushed
        return state[1][0, 0].item()

    with torch_tpu.set_eager_mode("fuse"):
        values = []
        for _ in range(4):
            values.append(step())
            torch_tpu._C.fuse_wait(False)
        # XLA holds one of them twice while it runs
        assert peak_of(lambda: values.append(step())) <= state[0].nbytes + 1000
        keeper = list(state)  # the same window, but its inputs are somebody's
        values.append(step())
        assert torch.equal(keeper[1].cpu(), torch.full((64, 1024), 5, dtype=dtype)) and values == [1, 2, 3, 4, 5, 6]
        x, y = torch.ones(()), torch.zeros(())
        for _ in range(6):
            x, y = x * 0.5 + y, y + 1
        assert float(state[0][3, 3]) == float(x.to(dtype))
