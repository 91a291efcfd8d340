"""Decompositions over singular values and eigenvalues, and of what functions of matrices are made of."""
import torch

from ._registry import decomposes


def _tolerances(x, atol, rtol):
    """As tensors: what is given; else no absolute one, and a relative one of rounding unless an absolute one above 0
    was given."""
    eps = torch.finfo(x.dtype).eps * max(x.shape[-2:])
    if rtol is None:
        rtol = x.new_full((), eps, dtype=torch.float64)
        if atol is not None:
            rtol = torch.where(atol > 0, torch.zeros_like(rtol), rtol)
    if atol is None:
        atol = x.new_zeros((), dtype=torch.float64)
    return atol.unsqueeze(-1), rtol.unsqueeze(-1)


@decomposes("linalg_pinv.atol_rtol_tensor")
def pinv(self, *, atol=None, rtol=None, hermitian=False):
    if self.numel() == 0:
        return self.new_empty(self.mT.shape)
    atol, rtol = _tolerances(self, atol, rtol)
    if hermitian:
        values, u = torch.linalg.eigh(self)
        sizes, v = values.abs(), u
        largest = sizes.amax(-1, keepdim=True)
    else:
        u, values, vh = torch.linalg.svd(self, full_matrices=False)
        sizes, v = values, vh.mH
        largest = sizes[..., :1]
    kept = sizes > torch.maximum(atol, rtol * largest)
    inverse = torch.where(kept, values.reciprocal(), 0.0).to(self.dtype)
    return (v * inverse.unsqueeze(-2)) @ u.mH


@decomposes("_compute_linear_combination")
def linear_combination(x, coefficients):
    """[terms, ...] by [results, terms]: the results."""
    return torch.tensordot(coefficients, x, 1)
