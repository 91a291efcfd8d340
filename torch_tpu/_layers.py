"""Decompositions of pieces of nn layers that torch has kernels for on the CPU and CUDA, and nothing else."""
import torch

from ._registry import decomposes


# ---- nn.Bilinear ----
@decomposes("_trilinear")
def trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum over sumdim of i1 * i2 * i3, of which each lacks the dims that it is expanded by."""
    rank = i1.dim() + len(expand1)
    subscripts = [[d for d in range(rank) if d not in gone] for gone in (expand1, expand2, expand3)]
    return torch.einsum(i1, subscripts[0], i2, subscripts[1], i3, subscripts[2], [d for d in range(rank) if d not in sumdim])
