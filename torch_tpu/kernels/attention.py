"""Attention on TPUs by JAX's flash kernel, which keeps no scores: F.scaled_dot_product_attention within `with
flash():`.

It is taken where it can be (`takes`), unless torch.nn.attention.sdpa_kernel or torch.backends.cuda.enable_flash_sdp say
otherwise. On the CPU the kernel is interpreted, which is slow: the context is for TPUs, and for programs for them. The
backward computes the forward's row sums again."""
import functools

import torch
from torch.overrides import TorchFunctionMode

from ..pallas import jax_op

BLOCK = 128  # lengths are multiples of it


@functools.cache
def _operator():
    @jax_op("torch_tpu_kernels::flash_attention")
    def flash_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float) -> torch.Tensor:
        from jax.experimental.pallas.ops.tpu import flash_attention as flash

        rows = next(b for b in (512, 256, BLOCK) if q.shape[2] % b == 0)
        columns = next(b for b in (512, 256, BLOCK) if k.shape[2] % b == 0)
        sizes = flash.BlockSizes(
            block_q=rows,
            block_k_major=columns,
            block_k=columns,
            block_b=1,
            block_q_major_dkv=rows,
            block_k_major_dkv=columns,
            block_k_dkv=columns,
            block_q_dkv=rows,
            block_k_major_dq=columns,
            block_k_dq=columns,
            block_q_dq=rows,
        )
        return flash.flash_attention(q, k, v, causal=causal, sm_scale=scale, block_sizes=sizes)

    return flash_attention


def takes(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False) -> bool:
    """Whether the kernel computes this: tpu tensors [batch, heads, length, width] of bfloat16 or float32, lengths
    multiples of 128, widths 64 to 256, no mask but the causal one."""
    q, k, v = query, key, value
    if any(type(x).__name__ == "DTensor" for x in (q, k, v)):  # torch knows no placements of its results
        return False
    if any(x.device.type != "tpu" for x in (q, k, v)):
        return False
    if attn_mask is not None or dropout_p or not torch.backends.cuda.flash_sdp_enabled():
        return False
    if any(x.dim() != 4 or x.dtype != q.dtype for x in (q, k, v)) or q.dtype not in (torch.bfloat16, torch.float32):
        return False
    if (
        k.shape != v.shape
        or q.shape[-1] != k.shape[-1]
        or q.shape[-1] not in (64, 128, 256)
        or q.shape[0] != k.shape[0]
    ):
        return False
    heads = k.shape[1] and q.shape[1] % k.shape[1] == 0 if enable_gqa else q.shape[1] == k.shape[1]
    lengths = q.shape[2] and k.shape[2] and q.shape[2] % BLOCK == 0 and k.shape[2] % BLOCK == 0
    return bool(heads and lengths and not (is_causal and q.shape[2] != k.shape[2]))


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """F.scaled_dot_product_attention by the kernel, of what it takes."""
    q, k, v = query, key, value
    if q.shape[1] != k.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    return _operator()(q, k, v, bool(is_causal), float(q.shape[-1] ** -0.5 if scale is None else scale))


class flash(TorchFunctionMode):
    """Within it F.scaled_dot_product_attention is the kernel where that takes its arguments."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention and takes(*args, **kwargs):
            return attention(*args, **kwargs)
        return func(*args, **kwargs)
