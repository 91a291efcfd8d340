"""Programs written for a TPU: what TPUs lack is written by means of what they have. Any plugin runs them, with the same
values."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from torch_tpu.conformance import aot

CODE = """
import torch, torch_tpu, torch.nn.functional as F

def same(name, fn, *xs, rtol=0, atol=0):
    torch.testing.assert_close(fn(*[x.to("tpu") for x in xs]).cpu(), fn(*xs), rtol=rtol, atol=atol, msg=lambda m: f"{name}: {m}")

g = torch.Generator().manual_seed(0)
low, high = -2**63, 2**63 - 1
ends = torch.tensor([low, low + 1, -2**53 - 1, -2**32, -7, -2, -1, 1, 2, 3, 10, 2**24 + 1, 2**31, 2**32, 2**53 + 1, high - 1, high])
a, b = ends[:, None].expand(17, 17).contiguous(), ends.expand(17, 17).contiguous()
a[0, 6] = low + 5  # the lowest number by -1 traps on the CPU
bits = torch.randint(low, high, (2, 4000), generator=g)
shift = torch.randint(0, 63, (2, 4000), generator=g)
x, y = bits >> shift
y = torch.where(y == 0, 1, y)
for p, q in ((a, b), (x, y), (x[:0], y[:0]), (torch.tensor(-17), torch.tensor(5))):
    for mode in ("trunc", "floor"):
        same(mode, lambda p, q: torch.div(p, q, rounding_mode=mode), p, q)
    same("remainder", torch.remainder, p, q)
    same("fmod", torch.fmod, p, q)
    same("both", lambda p, q: torch.stack([p // q, p % q]), p, q)
zero = torch.zeros_like(x).to("tpu")
assert torch_tpu.eager_mode == "debug" or torch.div(x.to("tpu"), zero, rounding_mode="trunc").eq(-1).all() and torch.fmod(x.to("tpu"), zero).cpu().equal(x)
same("gcd", torch.gcd, x, y)
same("unravel_index", lambda x: torch.stack(torch.unravel_index(x, (7, 11, 13))), torch.arange(1001))

def longs(*shape):
    return torch.randint(low, high, shape, generator=g)
same("mm", torch.mm, longs(5, 7), longs(7, 11))
same("bmm", torch.bmm, longs(3, 5, 7), longs(3, 7, 2))
same("mv", torch.mv, longs(5, 7), longs(7))
same("dot", torch.dot, longs(7), longs(7))
same("einsum", lambda x, y: torch.einsum("abc,dcb->ad", x, y), longs(3, 5, 7), longs(2, 7, 5))
same("empty mm", torch.mm, longs(5, 0), longs(0, 3))
same("conv1d", lambda x, w: F.conv1d(x, w, padding=2, dilation=2), longs(2, 3, 11), longs(4, 3, 3))
same("conv2d", lambda x, w: F.conv2d(x, w, stride=(2, 3), padding=(1, 0), groups=2), longs(2, 4, 9, 11), longs(6, 2, 3, 2))
same("conv3d", F.conv3d, longs(1, 2, 4, 5, 6), longs(3, 2, 2, 3, 1))
same("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, groups=2), longs(2, 4, 5, 3), longs(4, 3, 3, 2))

def near(name, fn, x):
    same(name, fn, x, rtol=1e-12 if x.dtype in (torch.float64, torch.complex128) else 1e-4, atol=1e-12 if x.dtype in (torch.float64, torch.complex128) else 1e-3)
for n in (1, 2, 97, 360, 1021, 1031, 2062):
    z = torch.randn(3, n, dtype=torch.complex128, generator=g)
    near(f"fft {n}", torch.fft.fft, z)
    near(f"ifft {n}", torch.fft.ifft, z)
    near(f"rfft {n}", torch.fft.rfft, z.real)
    near(f"irfft {n}", lambda z: torch.fft.irfft(z, n=n), z[:, :n // 2 + 1])
w = torch.randn(2, 3, 2, 2, 2, generator=g)
z = torch.randn(4, 5, 6, 7, dtype=torch.complex128, generator=g)
near("fftn", torch.fft.fftn, z)
near("fft2 of other dims", lambda z: torch.fft.fft2(z, dim=(2, 0), norm="ortho"), z)
near("rfftn", torch.fft.rfftn, z.real)
near("irfftn", torch.fft.irfftn, z)
near("dilated conv3d", lambda x: F.conv3d(x, w.to(x.device), dilation=(2, 1, 3), padding=2), torch.randn(2, 3, 5, 6, 7, generator=g))
near("a large prime in f32", torch.fft.fft, torch.randn(2, 1031, dtype=torch.complex64, generator=g))
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The text of the programs that CODE makes for a TPU."""
    folder = tmp_path_factory.mktemp("programs")
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        env={**os.environ, "TORCH_TPU_TARGET": "tpu", "TORCH_TPU_DUMP": str(folder), "TORCH_TPU_FALLBACK": "error"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [path.read_text() for path in sorted(pathlib.Path(folder).glob("*.mlir"))]


def test_programs_for_a_tpu_give_the_same_values(programs):
    assert len(programs) > 50


def test_programs_for_a_tpu_have_nothing_that_tpus_lack(programs):
    assert [
        aot.refusal(text) for text in programs if aot.refusal(text) or re.search(r'"stablehlo\.fft".*1031', text)
    ] == []


def test_a_target_that_is_none_is_named():
    done = subprocess.run(
        [sys.executable, "-c", "import torch; torch.ones(2, device='tpu')"],
        capture_output=True,
        text=True,
        env={**os.environ, "TORCH_TPU_TARGET": "gpu"},
    )
    assert done.returncode != 0 and "TORCH_TPU_TARGET: expected tpu or cpu, got gpu" in done.stderr
