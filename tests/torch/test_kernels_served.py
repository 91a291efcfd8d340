"""Products by groups and attention over pages: torch_tpu.kernels.experts and paged."""
import pytest
import torch

import torch_tpu
from torch_tpu import aot

pytest.importorskip("jax", reason="the kernels are JAX's")
from torch_tpu.kernels.experts import grouped_matmul  # noqa: E402
from torch_tpu.kernels.paged import paged_attention  # noqa: E402

TOPOLOGIES = ["v5e:2x2", "v6e:2x2", "tpu7x:2x2x1"]
SIZES = torch.tensor([40, 0, 17, 30])  # of 100 rows


def by_groups(rows, matrices, sizes):
    parts = [x @ w for x, w in zip(rows[: sum(sizes)].split(sizes.tolist()), matrices)]
    return torch.cat([*parts, rows.new_zeros(rows.shape[0] - sum(sizes), matrices.shape[2])])


def gradients(fn, rows, matrices, sizes):
    out = fn(rows, matrices, sizes)
    return [out.detach(), *torch.autograd.grad(out.float().square().sum(), [rows, matrices])]


@pytest.mark.parametrize("mode", ["strict", "fuse"])
def test_grouped_matmul(mode):
    args = torch.randn(100, 24, requires_grad=True), torch.randn(4, 24, 40, requires_grad=True)
    expected = gradients(by_groups, *args, SIZES)
    with torch_tpu.set_eager_mode(mode):
        got = gradients(grouped_matmul, *[x.detach().to("tpu").requires_grad_() for x in args], SIZES.to("tpu"))
    for a, b in zip(got, expected):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="do not fit"):
        grouped_matmul(args[0], args[1], SIZES[:3])
    for wrong in (SIZES.float(), SIZES.bool()):
        with pytest.raises(TypeError, match="sizes of integers"):
            grouped_matmul(args[0], args[1], wrong)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_grouped_matmul_for_tpus(topology, dtype):
    with aot.fake():
        args = (
            torch.zeros(1000, 256, dtype=dtype, requires_grad=True),
            torch.zeros(8, 256, 384, dtype=dtype, requires_grad=True),
            torch.zeros(8, dtype=torch.int64),
        )
    compiled = aot.compile(lambda *a: gradients(grouped_matmul, *a), args, topology=topology)
    assert compiled.program.count("tpu_custom_call") >= 3


@pytest.mark.parametrize("soft_cap", [None, 5.0])
def test_paged_attention(soft_cap):
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(s, generator=generator) for s in ((3, 4, 64), (2, 10, 16, 64), (2, 10, 16, 64)))
    lengths, pages = torch.tensor([1, 17, 48]), torch.tensor([[3, 0, 0], [7, 2, 0], [1, 9, 4]])
    expected = torch.empty_like(q)
    for i in range(3):
        keys, values = (x[:, pages[i]].flatten(1, 2)[:, : lengths[i]].repeat_interleave(2, 0) for x in (k, v))
        s = (keys @ q[i][:, :, None])[..., 0] / 8
        s = torch.tanh(s / soft_cap) * soft_cap if soft_cap else s
        expected[i] = (s.softmax(1)[:, None] @ values)[:, 0]
    got = paged_attention(*(x.to("tpu") for x in (q, k, v, lengths, pages)), soft_cap=soft_cap)
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="do not fit"):
        paged_attention(q, k, v, lengths[:2], pages)
    for wrong in (lengths[0], lengths[:, None]):
        with pytest.raises(ValueError, match="do not fit"):
            paged_attention(q, k, v, wrong, pages)
    with pytest.raises(ValueError, match="of 0 groups"):
        paged_attention(q, k[:0], v[:0], lengths, pages)
    with pytest.raises(TypeError, match="lengths of integers"):
        paged_attention(q, k, v, lengths.float(), pages)
    with pytest.raises(TypeError, match="floating"):
        paged_attention(q.int(), k, v, lengths, pages)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_paged_attention_for_tpus(topology):
    with aot.fake():
        q = torch.zeros(8, 32, 128, dtype=torch.bfloat16)
        k, v = (torch.zeros(8, 1000, 64, 128, dtype=torch.bfloat16) for _ in range(2))
        lengths, pages = torch.zeros(8, dtype=torch.int64), torch.zeros(8, 64, dtype=torch.int64)
    compiled = aot.compile(paged_attention, (q, k, v, lengths, pages), topology=topology)
    assert compiled.program.count("tpu_custom_call") == 1
    assert compiled.memory.temporaries < 2 * 8 * 1000 * 64 * 128 / 10  # the pages are read where they are
