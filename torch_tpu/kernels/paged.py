"""Attention of one new token for each sequence over keys and values in pages, for serving: JAX's kernel in programs for
TPUs where it takes the arguments (bfloat16, widths of 128 and multiples), XLA's form elsewhere."""
import torch

from ..pallas import jax_op
from .op import check_integers


@jax_op("torch_tpu_kernels::paged_attention")
def _paged_attention(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    lengths: torch.Tensor,
    pages: torch.Tensor,
    scale: float,
    soft_cap: float,
) -> torch.Tensor:
    import jax
    import jax.numpy as jnp
    from jax.extend import backend
    batch, heads, width = q.shape
    groups, _, size, _ = k_pages.shape
    many = pages.shape[1]
    fits = q.dtype == k_pages.dtype == jnp.bfloat16 and width % 128 == 0 and size % 8 == 0  # it rounds q to bfloat16
    if fits and backend.get_default_device().platform == "tpu":
        from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention as kernel
        block = max(n for n in range(1, many + 1) if many % n == 0 and (n == 1 or n * size <= 512))
        return kernel(
            (q * scale).astype(q.dtype),
            k_pages,
            v_pages,
            lengths,
            pages,
            attn_logits_soft_cap=soft_cap or None,
            pages_per_compute_block=block,
        )

    def whole(x):  # [batch, groups, length, width]
        return x[:, pages].transpose(1, 0, 2, 3, 4).reshape(batch, groups, many * size, width).astype(jnp.float32)

    k, v = whole(k_pages), whole(v_pages)
    q4 = q.reshape(batch, groups, heads // groups, width).astype(jnp.float32)
    s = jnp.einsum("bghd,bgld->bghl", q4, k, precision="highest") * scale
    if soft_cap:
        s = jnp.tanh(s / soft_cap) * soft_cap
    s = jnp.where(jnp.arange(many * size) < lengths[:, None, None, None], s, -jnp.inf)
    out = jnp.einsum("bghl,bgld->bghd", jax.nn.softmax(s, -1), v, precision="highest")
    return out.reshape(batch, heads, width).astype(q.dtype)


def paged_attention(q, k_pages, v_pages, lengths, pages, *, scale=None, soft_cap=None):
    """q: [batch, heads, width], of one token for each sequence. k_pages, v_pages: [groups, pages in all, page size,
    width], where heads are a multiple of groups. lengths: [batch], how many tokens a sequence has, at least 1. pages:
    [batch, pages of a sequence], which pages hold them, in order; all are valid numbers, also those past a length.
    scale: 1 / sqrt(width) if not given. soft_cap: scores become soft_cap * tanh(scores / soft_cap). Returns [batch,
    heads, width]."""
    if k_pages.shape != v_pages.shape or k_pages.dim() != 4 or q.dim() != 3 or q.shape[2] != k_pages.shape[3]:
        raise ValueError(f"paged_attention: expected q [batch, heads, width] and pages [groups, pages, size, width], "
                         f"got {list(q.shape)}, {list(k_pages.shape)} and {list(v_pages.shape)}")
    batch, heads, groups = q.shape[0], q.shape[1], k_pages.shape[0]
    if not groups or heads % groups or pages.dim() != 2 or not lengths.shape == pages.shape[:1] == (batch,):
        raise ValueError(f"paged_attention: {heads} heads of {groups} groups, lengths {list(lengths.shape)} and "
                         f"pages {list(pages.shape)} do not fit")
    if not q.is_floating_point() or not k_pages.is_floating_point() or k_pages.dtype != v_pages.dtype:
        raise TypeError(f"paged_attention: expected floating tensors, pages of one dtype, got {q.dtype}, "
                        f"{k_pages.dtype} and {v_pages.dtype}")
    check_integers("paged_attention", lengths=lengths, pages=pages)
    scale = q.shape[2] ** -0.5 if scale is None else scale
    return _paged_attention(q, k_pages, v_pages, lengths.int(), pages.int(), float(scale), float(soft_cap or 0))
