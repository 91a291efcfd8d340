"""Helion's kernels on tpu tensors, as they are: its Pallas backend runs on torch_tpu._internal.pallas."""
import os

import pytest
import torch
import torch.nn.functional as F

import torch_tpu
from torch_tpu import aot

os.environ.setdefault("HELION_BACKEND", "pallas")
helion = pytest.importorskip("helion", reason="Helion is not installed: pip install --no-deps helion==1.5.1")
hl = pytest.importorskip("helion.language")


def kernel(*sizes):
    return helion.kernel(config=helion.Config(block_sizes=list(sizes)), static_shapes=True)


@kernel(8)
def softmax(x: torch.Tensor) -> torch.Tensor:
    n, _ = x.size()
    out = torch.empty_like(x)
    for t in hl.tile(n):
        v = x[t, :].to(torch.float32)
        e = torch.exp(v - torch.amax(v, dim=1, keepdim=True))
        out[t, :] = (e / torch.sum(e, dim=1, keepdim=True)).to(x.dtype)
    return out


@kernel(8)
def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    n, d = x.size()
    out = torch.empty_like(x)
    for t in hl.tile(n):
        v = x[t, :].to(torch.float32)
        centred = v - (torch.sum(v, -1) / d)[:, None]
        variance = torch.sum(centred * centred, -1) / d
        scaled = centred * torch.rsqrt(variance + 1e-5)[:, None] * w[:].to(torch.float32)
        out[t, :] = (scaled + b[:].to(torch.float32)).to(x.dtype)
    return out


@kernel(128, 128, 128)
def linear_gelu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    _, n = w.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tm, tn in hl.tile([m, n]):
        acc = hl.zeros([tm, tn], dtype=torch.float32)
        for tk in hl.tile(k):
            acc = torch.addmm(acc, x[tm, tk], w[tk, tn])
        acc = acc + b[tn]
        out[tm, tn] = (0.5 * acc * (1 + torch.tanh(0.7978845608 * (acc + 0.044715 * acc * acc * acc)))).to(x.dtype)
    return out


@kernel(1, 128, 128)
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    h, m, _ = q.size()
    n, d = k.size(1), hl.specialize(q.size(2))
    out, kt = torch.empty_like(q), k.transpose(1, 2)
    for th, tm in hl.tile([h, m]):
        most = hl.full([th, tm], float("-inf"), dtype=torch.float32)
        total = torch.full_like(most, 1.0)
        acc = hl.zeros([th, tm, d], dtype=torch.float32)
        queries = q[th, tm, :]
        for tn in hl.tile(n):
            s = torch.bmm(queries, kt[th, :, tn]) * d ** -0.5
            now = torch.maximum(most, torch.amax(s, -1))
            p, fade = torch.exp(s - now[:, :, None]), torch.exp(most - now)
            total = total * fade + torch.sum(p, -1)
            acc = torch.baddbmm(acc * fade[:, :, None], p.to(v.dtype), v[th, tn, :])
            most = now
        out[th, tm, :] = (acc / total[:, :, None]).to(out.dtype)
    return out


@kernel(8, 128)
def segmented_sum(x: torch.Tensor, segments: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    s, d = like.size()
    out = torch.empty_like(like)
    for ts, td in hl.tile([s, d]):
        hit = (segments[:][None, :] == ts.index[:, None]).to(torch.float32)
        out[ts, td] = torch.matmul(hit, x[:, td])
    return out


def arguments(*shapes):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(s, generator=generator) for s in shapes]


SEGMENTS = torch.arange(128, dtype=torch.int32) ** 2 // 1100
CASES = {
    "softmax": (softmax, lambda x: x.softmax(1), arguments((64, 256))),
    "layer_norm": (layer_norm, lambda x, w, b: F.layer_norm(x, (256,), w, b), arguments((64, 256), 256, 256)),
    "linear_gelu": (
        linear_gelu,
        lambda x, w, b: F.gelu(x @ w + b, approximate="tanh"),
        arguments((256, 128), (128, 256), 256),
    ),
    "attention": (attention, F.scaled_dot_product_attention, arguments(*[(2, 256, 128)] * 3)),
    "segmented_sum": (
        segmented_sum,
        lambda x, i, like: torch.zeros(16, 128).index_add(0, i, x),
        [arguments((128, 128))[0], SEGMENTS, torch.zeros(16, 128)],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["strict", "fuse"])
def test_values(name, mode):
    run, reference, args = CASES[name]
    with torch_tpu.set_eager_mode(mode):
        for _ in range(2):
            torch.testing.assert_close(run(*[x.to("tpu") for x in args]).cpu(), reference(*args), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("topology", ["v6e:2x2", "tpu7x:2x2x1"])
def test_compiles_for_tpus(name, topology):
    run, _, args = CASES[name]
    assert aot.compile(lambda *a: run(*a), tuple(args), topology=topology).program.count("tpu_custom_call") == 1
