"""Getting data in and out: checkpointing, loaders, files, copies."""
import os

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_replays_dropout(dev, reentrant):
    x = torch.ones(256, device=dev, requires_grad=True)
    y = checkpoint(lambda t: nn.functional.dropout(t * 2, 0.5), x, use_reentrant=reentrant)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), y.detach())
    assert 0 < (y == 0).sum().item() < 256


def test_checkpoint_in_autocast(dev):
    m = nn.Linear(4, 4).to(dev)
    x = torch.ones(2, 4, device=dev, requires_grad=True)
    with torch.autocast(dev, dtype=torch.bfloat16):
        y = checkpoint(m, x, use_reentrant=False)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert m.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_with_workers_and_pinned_memory(dev, workers):
    data = TensorDataset(torch.arange(40.0).view(20, 2), torch.arange(20))
    loader = DataLoader(data, batch_size=6, shuffle=True, num_workers=workers, pin_memory=dev == "tpu",
                        generator=torch.Generator().manual_seed(3))
    seen = []
    for x, y in loader:
        if dev == "tpu":
            assert x.is_pinned()
        x, y = x.to(dev, non_blocking=True), y.to(dev, non_blocking=True)
        assert torch.equal(x[:, 0].cpu(), 2.0 * y.cpu())
        seen += y.tolist()
    assert sorted(seen) == list(range(20))


@pytest.mark.tpu
def test_pinned_memory():
    x = torch.arange(5.0).pin_memory()
    assert x.is_pinned() and not torch.ones(2).is_pinned()
    assert torch.equal(x.to("tpu", non_blocking=True).cpu(), x)


def test_a_non_blocking_upload_owns_what_it_reads(dev):
    for n in (3, 100_000):
        x = torch.full((n,), 1.0)
        y = x.to(dev, non_blocking=True)
        if dev == "cpu":
            y = y.clone()
        x.fill_(2.0)
        assert y.sum().item() == n


def test_save_and_load(dev, tmp_path):
    m = nn.Linear(3, 2).to(dev)
    view = torch.arange(6.0, device=dev).view(2, 3).t()
    torch.save({"model": m.state_dict(), "view": view, "pair": [view, view[0]]}, tmp_path / "x.pt")
    for target in (None, "cpu", dev):
        got = torch.load(tmp_path / "x.pt", map_location=target)
        assert got["view"].device.type == (target or torch.device(dev).type) and got["view"].stride() == (1, 3)
        assert torch.equal(got["model"]["weight"].cpu(), m.weight.detach().cpu())
        got["pair"][1].fill_(9)
        assert got["pair"][0][0].tolist() == [9, 9]


@pytest.mark.tpu
def test_a_saved_file_loads_without_torch_tpu(python, tmp_path):
    file = str(tmp_path / "x.pt")
    torch.save(
        {"w": torch.arange(4.0, device="tpu"), "p": nn.Parameter(torch.ones(2, device="tpu", dtype=torch.bfloat16))},
        file,
    )
    code = f"""
import sys, torch
got = torch.load({file!r}, map_location="cpu")
assert "torch_tpu" not in sys.modules
print(got["w"].tolist(), got["p"].dtype, got["w"].device)
"""
    status, out, err = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert status == 0, err
    assert out.split() == "[0.0, 1.0, 2.0, 3.0] torch.bfloat16 cpu".split()


def test_safetensors(dev, tmp_path):
    st = pytest.importorskip("safetensors.torch")
    m = nn.Linear(3, 2).to(dev)
    st.save_model(m, str(tmp_path / "m.safetensors"))
    st.save_file({"a": torch.arange(3, device=dev)}, str(tmp_path / "a.safetensors"))
    assert st.load_file(str(tmp_path / "a.safetensors"))["a"].tolist() == [0, 1, 2]
    other = nn.Linear(3, 2).to(dev)
    st.load_model(other, str(tmp_path / "m.safetensors"))
    assert torch.equal(other.weight.detach().cpu(), m.weight.detach().cpu())


def test_copies_between_devices(dev):
    host = torch.zeros(3, 4)
    host[1] = torch.ones(4, device=dev)
    host[:, 2] = torch.arange(3.0, device=dev)
    assert host.tolist() == [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 2, 0]]
    there = torch.zeros(4, 3, device=dev)
    there.t().copy_(host)
    there[0] = torch.tensor([7, 8, 9])
    there[1:3, 1] = torch.tensor([0.5, 0.25], dtype=torch.float64)
    assert there.tolist() == [[7, 8, 9], [0, 0.5, 0], [0, 0.25, 2], [0, 1, 0]]
    torch.testing.assert_close(torch.empty(3, 4).copy_(there.t()), there.t().cpu())
    assert there.to(dev) is there and there.to(dev, copy=True) is not there


def test_multiprocessing_gets_host_tensors(dev):
    assert os.getpid() and torch.ones(2, device=dev).cpu().share_memory_().sum() == 2
