"""F.scaled_dot_product_attention by a kernel that keeps no scores (flash.py): in programs for TPUs by itself, elsewhere
within `with flash():`.

csrc/shim/attention.cpp decides which calls; others, and all where JAX is missing, are torch's plain form. Off, as on
other devices, with torch.nn.attention.sdpa_kernel(SDPBackend.MATH) or torch.backends.cuda.enable_flash_sdp(False), or
within `with flash(False):`. On the CPU the kernel is interpreted, which is slow: for tests."""
import contextlib
import warnings
from typing import Optional

import torch

from ..kernels.text import Spec
from ..pallas import signature
from ..pallas.op import JaxKernel


@contextlib.contextmanager
def flash(enabled=True):
    """Within it, on this thread, attention is the kernel wherever that takes the arguments; with False nowhere."""
    before = torch.ops.torch_tpu.attention_wants(1 if enabled else 2)
    try:
        yield
    finally:
        torch.ops.torch_tpu.attention_wants(before)


def choices() -> dict:
    """How many calls for TPUs were the kernel and, by reason, torch's plain form: {"the flash kernel": 3, ...}."""
    names, counts = torch.ops.torch_tpu.attention_choices()
    return {n: c for n, c in zip(names, counts) if c}


def flash_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: Optional[torch.Tensor],
    causal: bool,
    scale: float,
    precision: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    from torch_tpu.kernels.flash import forward
    return forward(q, k, v, mask, causal, scale, precision)


def flash_backward(
    gradient: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: Optional[torch.Tensor],
    out: torch.Tensor,
    logs: torch.Tensor,
    causal: bool,
    scale: float,
    precision: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    from torch_tpu.kernels.flash import backward
    return backward(gradient, q, k, v, mask, out, logs, causal, scale, precision)


# ---- without JAX ----
def _scores(q, k, mask, causal, scale):
    """In float32; k with as many heads as q."""
    s = q.float() @ k.float().mT * scale
    if mask is not None:
        s = s.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else s + mask.float()
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), float("-inf"))
    return s


def _shared(q, *xs):
    return [x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in xs]


def plain_forward(q, k, v, mask, causal, scale, precision):
    k, v = _shared(q, k, v)
    s = _scores(q, k, mask, causal, scale)
    logs = s.logsumexp(3)
    logs = logs.masked_fill(logs == float("-inf"), float("inf"))
    return ((s - logs[..., None]).exp() @ v.float()).to(q.dtype), logs


def plain_backward(gradient, q, k, v, mask, out, logs, causal, scale, precision):
    g, groups = gradient.float(), k.shape[1]
    k, v = _shared(q, k, v)
    p = (_scores(q, k, mask, causal, scale) - logs[..., None]).exp()
    s = p * (g @ v.float().mT - (g * out.float()).sum(3, keepdim=True)) * scale
    dk, dv = (x.unflatten(1, (groups, -1)).sum(2).to(q.dtype) for x in (s.mT @ q.float(), p.mT @ g))
    return (s @ k.float()).to(q.dtype), dk, dv


class _Attention(JaxKernel):
    """A kernel that is plain torch where it is told a negative precision (attention.cpp), and in a process without JAX,
    unless another has stored it."""

    def __init__(self, fn, plain, returned):
        sign = signature.of(fn.__name__, fn)
        super().__init__(f"torch_tpu_kernels::{fn.__name__}", fn, sign, sign.schema, returned)
        self._plain = plain

    def _lower(self, *args, **kwargs):
        if args[-1] < 0:
            return self._plain(*args, **kwargs)
        try:
            return super()._lower(*args, **kwargs)
        except ImportError as e:
            warnings.warn(f"attention keeps all scores: {e}", stacklevel=2)
            return self._plain(*args, **kwargs)


def _of_forward(args):
    q, v = args[0], args[2]
    return Spec(q.dtype, (*q.shape[:3], v.shape[3])), Spec(torch.float32, tuple(q.shape[:3]))


def _of_backward(args):
    return tuple(Spec(x.dtype, tuple(x.shape)) for x in args[1:4])


FORWARD = _Attention(flash_forward, plain_forward, _of_forward)
BACKWARD = _Attention(flash_backward, plain_backward, _of_backward)
