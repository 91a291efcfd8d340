"""What users bring to the device besides plain float tensors: DLPack capsules, jagged nested tensors, narrow dtypes."""
import copy

import pytest
import torch

import torch_tpu


def test_dlpack_gives_the_same_memory():
    x = torch.arange(6.0, device="tpu").reshape(2, 3)
    for y in (torch.from_dlpack(x), torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))):
        assert y.device == x.device and y.data_ptr() == x.data_ptr()
        y.add_(1)
    assert torch.equal(x.cpu(), torch.arange(6.0).reshape(2, 3) + 2)
    # torch's storage is then shorter than the memory
    part = torch.from_dlpack(torch.arange(100000.0, device="tpu")[:2])
    assert (
        part.cpu().tolist() == [0, 1]
        and part.add_(1).tolist() == [1, 2]
        and part.copy_(torch.ones(2)).tolist() == [1, 1]
    )
    assert torch.ones(2).__dlpack_device__()[0] == 1  # the CPU's, as it was


def test_dlpack_of_views_with_an_offset():
    x = torch.arange(12.0, device="tpu").reshape(3, 4)
    for view in (x[1:], x[1, 2], x[:, 1:3], x.t()[2:], x[2:, 3:]):
        y, want = torch.from_dlpack(view), view.cpu()
        assert torch.equal(y.cpu(), want) and torch.equal((y + 1).cpu(), want + 1) and y.data_ptr() == view.data_ptr()
    torch.from_dlpack(x[1:]).mul_(-1)
    torch.from_dlpack(x[:, 3]).copy_(torch.zeros(3))
    assert x.tolist() == [[0, 1, 2, 0], [-4, -5, -6, 0], [-8, -9, -10, 0]]
    half = torch.from_dlpack(torch.arange(6, device="tpu").to(torch.int16)[1:])
    with pytest.raises(RuntimeError, match="begins inside of an element"):
        half[:4].view(torch.int32).cpu()


@pytest.mark.parametrize("lengths", [(2, 4, 1), (3, 0, 2)])
def test_jagged_tensors(lengths):
    parts = [torch.arange(n * 3.0).reshape(n, 3) + n for n in lengths]

    def run(v):
        x = torch.nested.nested_tensor(parts, layout=torch.jagged, device=v, requires_grad=True)
        w = torch.linspace(-1, 1, 12).reshape(3, 4).to(v).requires_grad_()
        y = (x @ w).to_padded_tensor(0.5)
        y.square().sum().backward()
        return y.detach(), w.grad, x.grad.values()

    before = torch_tpu.counters()["fallbacks"]
    for got, want in zip(run("tpu"), run("cpu")):
        torch.testing.assert_close(got.cpu(), want)
    assert torch_tpu.counters()["fallbacks"] == before


@pytest.mark.parametrize(
    "dtype",
    [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu],
)
def test_float8_casts_as_the_cpu(dtype):
    x = torch.cat([torch.logspace(-9, 5, 60, base=2.0), torch.tensor([0.0, 300.0, 1000.0, float("inf"), float("nan")])])
    x = torch.cat([x, -x])
    want = x.to(dtype)
    got = x.to("tpu").to(dtype).cpu()
    number = ~x.isnan()
    assert (
        torch.equal(got[number].view(torch.uint8), want[number].view(torch.uint8))
        and got[~number].float().isnan().all()
    )
    torch.testing.assert_close(want.to("tpu").float().cpu(), want.float(), equal_nan=True)


def test_packed_float4_is_moved_and_viewed():
    bits = torch.arange(24, dtype=torch.uint8).reshape(4, 6)
    x = bits.view(torch.float4_e2m1fn_x2).to("tpu")
    y = torch.cat([x, x]).t().contiguous()[1:, ::2].clone()
    assert y.dtype is torch.float4_e2m1fn_x2
    assert torch.equal(y.view(torch.uint8).cpu(), torch.cat([bits, bits]).t()[1:, ::2])
    with pytest.raises(Exception, match="Float4_e2m1fn_x2|packed"):
        x.float()


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_wide_unsigned_integers(dtype):
    top = torch.iinfo(dtype).max
    x = torch.tensor([0, 1, 5, top - 1, top], dtype=dtype)
    for fn in (lambda t: t * 3, lambda t: t & 6, lambda t: t == 5, lambda t: t.to(torch.int64), lambda t: t.double()):
        got, want = fn(x.to("tpu")), fn(x)
        assert got.dtype == want.dtype and torch.equal(got.cpu(), want)


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_transformer_encoder_makes_zeros_of_padding(activation, hooked):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation=activation)
    model = torch.nn.TransformerEncoder(layer, 2, norm=torch.nn.LayerNorm(16)).eval()
    x, aligned = torch.randn(3, 5, 16), torch.arange(5) >= torch.tensor([[3], [5], [2]])
    there = copy.deepcopy(model).to("tpu")
    for m in (model, there) if hooked else ():
        m.layers[1].register_forward_hook(lambda *a: None)  # keeps the layer off its one operator
    for padding in (aligned, aligned.roll(1, 1)):
        with torch.no_grad():
            want = model(x, src_key_padding_mask=padding)
            got = there(x.to("tpu"), src_key_padding_mask=padding.to("tpu"))
        assert type(got) is torch.Tensor
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


def test_padded_batches_refuse_what_layers_do_not():
    x, counts = torch.ones(2, 3, 4, device="tpu"), torch.tensor(
        [[True, True, False], [True, False, False]], device="tpu"
    )
    batch = torch._nested_tensor_from_mask(x, counts)
    assert batch.to_padded_tensor(7.0).cpu().equal(torch.where(counts.cpu()[..., None], 1.0, 7.0).expand(2, 3, 4))
    with pytest.raises(NotImplementedError, match="of a batch with padding"):
        batch.sum()
    for mask, says in (
        (counts.flip(1), "left-aligned"),
        (counts.int(), "ScalarType Bool, but got Int"),
        (counts[:, :2], "size should match"),
    ):
        with pytest.raises(RuntimeError, match=says):
            torch._nested_tensor_from_mask(x, mask)
