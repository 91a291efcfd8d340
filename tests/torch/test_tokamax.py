"""Tokamax's functions as torch functions: what they compute, their derivatives, and their kernels for TPUs."""
import logging

import pytest
import torch
import torch.nn.functional as F

import torch_tpu
from torch_tpu import aot

pytest.importorskip("tokamax", reason="Tokamax is not installed: pip install --no-deps -r requirements-kernels.txt")
from torch_tpu.kernels import tokamax as tk  # noqa: E402

logging.getLogger("absl").setLevel(logging.ERROR)  # it warns where it has not been tuned
SIZES = torch.tensor([100, 28, 0, 128])


def arguments(*shapes):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(s, generator=generator) * 0.3 if isinstance(s, tuple) else s for s in shapes]


def sdpa(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)


def ragged(rows, matrices, sizes):
    return torch.cat([x @ w for x, w in zip(rows.split(SIZES.tolist()), matrices)])


LABELS = torch.randint(0, 2048, (1024,), generator=torch.Generator().manual_seed(1))
CASES = {  # function, torch's, arguments, Pallas kernels for a TPU with the backward
    "dot_product_attention": (
        lambda q, k, v: tk.dot_product_attention(q, k, v, is_causal=True),
        sdpa,
        arguments((1, 256, 4, 128), (1, 256, 2, 128), (1, 256, 2, 128)),
        3,
    ),
    "ragged_dot": (tk.ragged_dot, ragged, arguments((256, 128), (4, 128, 256), SIZES), 2),
    "gated_linear_unit": (
        lambda x, gate, up: tk.gated_linear_unit(x, (gate, up), activation="swish"),
        lambda x, gate, up: F.silu(x @ gate) * (x @ up),
        arguments((2, 64, 128), (128, 256), (128, 256)),
        0,
    ),
    "layer_norm": (
        lambda x, w, b: tk.layer_norm(x, w, b, epsilon=1e-5),
        lambda x, w, b: F.layer_norm(x, (256,), w, b, 1e-5),
        arguments((4, 16, 256), (256,), (256,)),
        0,
    ),
    "linear_softmax_cross_entropy_loss": (
        lambda x, w: tk.linear_softmax_cross_entropy_loss(x, LABELS.to(x.device), w, reduction="mean"),
        lambda x, w: F.cross_entropy(x @ w, LABELS),
        arguments((1024, 512), (512, 2048)),
        3,
    ),
}


def gradients(fn, args):
    out = fn(*args)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), [x for x in args if x.requires_grad])]


def on(device, args):
    return [x.to(device).requires_grad_(x.is_floating_point()) for x in args]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["strict", "fuse"])
def test_values_and_gradients(name, mode):
    fn, reference, args, _ = CASES[name]
    expected = gradients(reference, on("cpu", [x.clone() for x in args]))
    with torch_tpu.set_eager_mode(mode):
        got = gradients(fn, on("tpu", args))
    for a, b in zip(got, expected):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("topology", ["v6e:2x2", "tpu7x:2x2x1"])
def test_compiles_for_tpus(name, topology):
    fn, _, args, kernels = CASES[name]
    compiled = aot.compile(lambda *a: gradients(fn, a), tuple(on("cpu", [x.clone() for x in args])), topology=topology)
    assert compiled.program.count("tpu_custom_call") >= kernels


def test_no_logits_are_kept():
    with aot.fake():
        x, w = torch.zeros(8192, 1024, dtype=torch.bfloat16), torch.zeros(1024, 65536, dtype=torch.bfloat16)
        labels = torch.zeros(8192, dtype=torch.int32)
    compiled = aot.compile(tk.linear_softmax_cross_entropy_loss, (x, labels, w), topology="v6e:2x2")
    assert compiled.memory.temporaries < 8192 * 65536 / 10


def test_what_is_refused():
    x, w = torch.zeros(8, 128, device="tpu"), torch.zeros(128, 2, 256, device="tpu")
    with pytest.raises(ValueError, match="expected an activation of swish, gelu, .* or None, got 'x'"):
        tk.gated_linear_unit(x, w, activation="x")
    with pytest.raises(torch_tpu.pallas.KernelError, match="tokamax::dot_product_attention"):
        tk.dot_product_attention(x, x, x)
