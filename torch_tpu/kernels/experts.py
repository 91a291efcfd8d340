"""Products of rows with the matrix of their group, as mixtures of experts need: JAX's megablox kernel in programs for
TPUs, XLA's ragged product elsewhere."""
import torch

from ..pallas import jax_op
from .op import check_integers

TILE = 128


@jax_op("torch_tpu_kernels::grouped_matmul")
def _grouped_matmul(
    rows: torch.Tensor, matrices: torch.Tensor, sizes: torch.Tensor, precision: str
) -> torch.Tensor:
    import jax
    import jax.numpy as jnp
    from jax.extend import backend
    n = rows.shape[0]
    whole = rows.dtype.itemsize > 2
    with jax.default_matmul_precision(precision if whole else None):
        if backend.get_default_device().platform != "tpu" or not n or rows.dtype.itemsize > 4:
            return jax.lax.ragged_dot(rows, matrices, sizes)
        from jax.experimental.pallas.ops.tpu.megablox import ops
        dtype = rows.dtype
        if dtype == jnp.float16:  # which TPUs lack
            rows, matrices = rows.astype(jnp.float32), matrices.astype(jnp.float32)
        rows = jnp.pad(rows, ((0, -n % TILE), (0, 0)))
        used = jnp.arange(rows.shape[0])[:, None] < sizes.sum()  # it writes no others
        out = ops.gmm(jnp.where(used, rows, 0), matrices, sizes, rows.dtype, (TILE, TILE, TILE))
        return jnp.where(used, out, 0)[:n].astype(dtype)


def grouped_matmul(rows, matrices, sizes):
    """[n, k] x [groups, k, m] -> [n, m]: the first sizes[0] rows with the first matrix, the next sizes[1] with the
    second. sizes: [groups], integers, on the device; rows beyond their sum are 0. With gradients of rows and matrices.
    bfloat16 is added up in float32; float32 is multiplied as torch.get_float32_matmul_precision() says."""
    if rows.dim() != 2 or matrices.dim() != 3 or sizes.dim() != 1:
        raise ValueError(f"grouped_matmul: expected rows [n, k], matrices [groups, k, m] and sizes [groups], got "
                         f"{list(rows.shape)}, {list(matrices.shape)} and {list(sizes.shape)}")
    if rows.shape[1] != matrices.shape[1] or sizes.shape[0] != matrices.shape[0] or rows.dtype != matrices.dtype:
        raise ValueError(f"grouped_matmul: rows {rows.dtype} {list(rows.shape)}, matrices {matrices.dtype} "
                         f"{list(matrices.shape)} and sizes {list(sizes.shape)} do not fit")
    check_integers("grouped_matmul", sizes=sizes)
    precision = {"highest": "highest", "high": "high", "medium": "default"}[torch.get_float32_matmul_precision()]
    return _grouped_matmul(rows, matrices, sizes.int(), precision)
