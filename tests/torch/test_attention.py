"""Attention by JAX's flash kernel: in programs for TPUs, and what it computes."""
import functools

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_tpu import aot
from torch_tpu.kernels.attention import attention, flash, takes

pytest.importorskip("jax", reason="the kernel is JAX's")
SDPA = torch.nn.functional.scaled_dot_product_attention


def gradients(fn, args):
    out = fn(*args)
    return [out, *torch.autograd.grad(out.float().square().sum(), args)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [2, 1])
def test_values_and_gradients(causal, heads):
    shapes = (1, 2, 256, 64), (1, heads, 256, 64), (1, heads, 256, 64)
    args = [torch.randn(s, requires_grad=True) for s in shapes]
    ours = [x.detach().to("tpu").requires_grad_() for x in args]
    options = {"is_causal": causal, "enable_gqa": heads == 1, "scale": 0.2}
    assert takes(*ours, **options) and not takes(*args, **options)
    expected = gradients(functools.partial(SDPA, **options), args)
    got = gradients(functools.partial(attention, **options), ours)
    for a, b in zip(got, expected):
        torch.testing.assert_close(a.cpu(), b, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("topology", ["v6e:2x2", "tpu7x:2x2x1"])
def test_a_tenth_of_the_memory(topology):
    with aot.fake():
        args = [torch.zeros(4, 32, 4096, 128, dtype=torch.bfloat16) for _ in range(3)]

    def plain(q, k, v):
        with sdpa_kernel(SDPBackend.MATH):
            return SDPA(q, k, v, is_causal=True)

    with flash():
        mine = aot.compile(lambda q, k, v: SDPA(q, k, v, is_causal=True), tuple(args), topology=topology)
        theirs = aot.compile(plain, tuple(args), topology=topology)
    assert mine.program.count("tpu_custom_call") == 1 and "tpu_custom_call" not in theirs.program
    # as the kernel says: products of about 4 * 4 * 32 * 4096 ** 2 * 128
    assert 1e12 < sum(mine.cost.matrix.values()) < 2e12
    assert mine.memory.temporaries < theirs.memory.temporaries / 10


@pytest.mark.parametrize("width", [64, 128, 256])
def test_backward_compiles(width):
    args = [torch.zeros(1, 2, 384, width, requires_grad=True) for _ in range(3)]
    with flash():
        compiled = aot.compile(lambda *a: gradients(SDPA, a), tuple(args), topology="v5e:2x2")
    assert compiled.program.count("tpu_custom_call") >= 3


def test_what_it_does_not_take():
    q = torch.zeros(1, 2, 128, 64, device="tpu")
    assert takes(q, q, q)
    assert not takes(q, q, q, torch.zeros(128, 128, device="tpu")) and not takes(q, q, q, dropout_p=0.1)
    assert (
        not takes(q[:, :, :100], q, q) and not takes(q.half(), q.half(), q.half()) and not takes(q, q[:, :1], q[:, :1])
    )
    assert not takes(q[:, :, :, :32], q[:, :, :, :32], q[:, :, :, :32]) and not takes(q, q, q[..., :32])
    longer = torch.zeros(1, 2, 256, 64, device="tpu")
    assert takes(q, longer, longer) and not takes(q, longer, longer, is_causal=True)
    with sdpa_kernel(SDPBackend.MATH):
        assert not takes(q, q, q)
    with flash():
        assert SDPA(q[:, :, :100], q, q).shape == (1, 2, 100, 64)
        named = SDPA(query=q, key=q, value=q)
        torch.testing.assert_close(named, attention(query=q, key=q, value=q))
