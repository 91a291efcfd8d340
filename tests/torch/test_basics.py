"""Devices and plain tensors: what every script does first."""
import copy
import pickle

import pytest
import torch


@pytest.mark.tpu
def test_device_names_and_predicates():
    assert torch.device("tpu").type == "tpu" and torch.device("tpu:0").index == 0
    x = torch.ones(2, 3, device="tpu")
    assert x.is_tpu and not x.cpu().is_tpu and x.device == torch.device("tpu", 0) and x.get_device() == 0
    assert type(x) is torch.Tensor and torch.get_device_module("tpu") is torch.tpu
    assert torch.ones(2).tpu().is_tpu and torch.nn.Linear(2, 2).tpu().weight.is_tpu
    assert x.untyped_storage().is_tpu


def test_factories_agree_with_cpu(dev):
    for make in (
        lambda d: torch.zeros(2, 3, device=d),
        lambda d: torch.ones(4, device=d, dtype=torch.int64),
        lambda d: torch.full((2, 2), 7.5, device=d),
        lambda d: torch.arange(3, 20, 4, device=d),
        lambda d: torch.arange(0.5, 3, 0.25, device=d),
        lambda d: torch.linspace(-1, 1, 7, device=d),
        lambda d: torch.eye(3, 5, device=d),
        lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
        lambda d: torch.tensor(3.5, device=d),
        lambda d: torch.empty(0, 3, device=d),
        lambda d: torch.zeros_like(torch.ones(3, 2, device=d).t()),
        lambda d: torch.tril(torch.ones(4, 4, device=d)),
        lambda d: torch.ones(2, device=d).new_full((3,), 2),
        lambda d: torch.complex(torch.ones(2, device=d), torch.ones(2, device=d)),
    ):
        got, want = make(dev), make("cpu")
        assert got.device.type == torch.device(dev).type
        assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
        assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ],
    ids=str,
)
def test_every_dtype_travels_both_ways(dev, dtype):
    x = torch.tensor([0, 1, 2, 3, 5, 1], dtype=torch.float32).to(dtype)
    y = x.to(dev)
    assert y.dtype == dtype and y.element_size() == x.element_size()
    assert torch.equal(y.cpu().float() if not dtype.is_complex else y.cpu(), x.float() if not dtype.is_complex else x)
    assert y.view(2, 3)[1].float().tolist() == [3, 5, 1] if not dtype.is_complex and dtype != torch.bool else True


@pytest.mark.parametrize(
    "source",
    [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64],
    ids=str,
)
def test_casts_agree_with_cpu(dev, source):
    x = torch.tensor([0.0, 1.0, 2.5, 3.0, 100.0]).to(source)
    for target in (
        torch.bool,
        torch.uint8,
        torch.int16,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.complex64,
    ):
        assert torch.equal(x.to(dev).to(target).cpu(), x.to(target)), target


def test_scalar_promotion(dev):
    a = torch.arange(3, dtype=torch.int32, device=dev)
    for other in (1, 1.5, True, torch.tensor(1, device=dev), torch.tensor(1), torch.tensor(1.5, dtype=torch.float64),
                  torch.ones(3, dtype=torch.float16, device=dev)):
        host = other.cpu() if isinstance(other, torch.Tensor) else other
        got, want = a * other, a.cpu() * host
        assert got.dtype == want.dtype and torch.equal(got.cpu(), want)
    assert (a / 2).dtype == torch.float32


def test_reading_values(dev):
    x = torch.tensor([[1.5, 2.0], [3.0, 4.0]], device=dev)
    assert (
        x.tolist() == [[1.5, 2.0], [3.0, 4.0]] and x[0, 0].item() == 1.5 and float(x[1, 1]) == 4.0 and bool(x[0, 0] > 1)
    )
    assert int(torch.tensor(7, device=dev)) == 7 and [row.sum().item() for row in x] == [3.5, 7.0]
    assert x.cpu().numpy().tolist() == x.tolist() and len(x) == 2 and 3.0 in x
    assert format(torch.tensor(1.25, device=dev), ".1f") == "1.2"


def test_printing(dev):
    x = torch.tensor([[1.0, float("nan")], [1e6, -2.0]], device=dev)
    text = repr(x)
    assert ("device='tpu:0'" in text) == (dev == "tpu") and "nan" in text
    assert text.replace(", device='tpu:0'", "").split() == repr(x.cpu()).split()
    assert (
        repr(torch.empty(0, device=dev))
        and repr(torch.arange(2000, device=dev))
        and repr(torch.ones(2, device=dev) > 0)
    )


def test_where_the_data_lives(dev):
    x = torch.zeros(8, device=dev)
    y = x[2:]
    assert y.data_ptr() == x.data_ptr() + 2 * 4 and x.data_ptr() != torch.zeros(8, device=dev).data_ptr()
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() and y.untyped_storage().nbytes() == 32
    assert x.is_set_to(x.view(8)) and not x.is_set_to(x.clone())


def test_deepcopy_and_pickle(dev):
    x = torch.arange(6.0, device=dev).view(2, 3)
    pair = copy.deepcopy([x, x.t()])
    assert pair[0].device == x.device and torch.equal(pair[0].cpu(), x.cpu())
    pair[0].add_(1)
    assert torch.equal(pair[1].t().cpu(), pair[0].cpu()) and x[0, 0].item() == 0  # the copies alias each other, not x
    y = pickle.loads(pickle.dumps(x.t()))
    assert y.device == x.device and y.stride() == (1, 3) and torch.equal(y.cpu(), x.t().cpu())
    p = torch.nn.Parameter(x.clone(), requires_grad=False)
    q = copy.deepcopy(p)
    assert isinstance(q, torch.nn.Parameter) and not q.requires_grad


def test_set_default_device(dev):
    with torch.device(dev):
        assert (
            torch.ones(2).device.type == torch.device(dev).type
            and torch.nn.Linear(2, 2).weight.device.type == torch.device(dev).type
        )
    assert torch.ones(2).device.type == "cpu"


def test_meta_and_to_empty(dev):
    with torch.device("meta"):
        m = torch.nn.Linear(3, 2)
    m = m.to_empty(device=dev)
    torch.nn.init.ones_(m.weight)
    torch.nn.init.zeros_(m.bias)
    assert m(torch.ones(1, 3, device=dev)).tolist() == [[3.0, 3.0]]


def test_dlpack_and_numpy_interplay(dev):
    x = torch.arange(4.0).to(dev)
    assert torch.from_numpy(x.cpu().numpy()).to(dev).sum().item() == 6
    with pytest.raises(TypeError):
        if dev == "cpu":
            raise TypeError
        x.numpy()
