"""Decompositions of cdist, pdist and their gradients: sums over differences of all pairs of rows, fused into one pass.

Which formula is used for which p, and what it gives where a distance or a difference is 0, is as on the CPU."""
import math

import torch

from ._registry import decomposes

MOST_ROWS_BY_DIFFERENCES = 25  # beyond that, compute_mode 0 takes distances of p = 2 from a matrix product


def _differences(x1, x2):
    return x1.unsqueeze(-2) - x2.unsqueeze(-3)


def _norm(diff, p):
    if p == 0:
        return (diff != 0).to(diff.dtype).sum(-1)
    if p == 1:
        return diff.abs().sum(-1)
    if p == 2:
        return diff.square().sum(-1).sqrt()
    if math.isinf(p):
        return diff.abs().amax(-1)
    return diff.abs().pow(p).sum(-1).pow(1 / p)


def _norm_gradient(diff, grad, dist, p):
    """grad times the derivatives of _norm by each difference; grad and dist have a last dim of 1."""
    if p == 1:
        return diff.sign() * grad
    if math.isinf(p):
        return diff.sign() * (diff.abs() == dist) * grad
    if p == 2:
        share = diff * (grad / dist)
    elif p < 2:
        share = diff.sign() * diff.abs().pow(p - 1) * (grad / dist.pow(p - 1))
    else:
        share = diff * diff.abs().pow(p - 2) * (grad / dist.pow(p - 1))
    nothing = dist == 0
    if p < 1:
        nothing = nothing | (diff == 0)
    return torch.where(nothing, 0.0, share)


@decomposes("_euclidean_dist")
def euclidean_dist(x1, x2):
    squares1, squares2 = x1.square().sum(-1, True), x2.square().sum(-1, True)
    left = torch.cat([-2 * x1, squares1, torch.ones_like(squares1)], -1)
    right = torch.cat([x2, torch.ones_like(squares2), squares2], -1)
    return (left @ right.mT).clamp_min(0).sqrt()


@decomposes("_cdist_forward")
def cdist_forward(x1, x2, p, compute_mode):
    rows = max(x1.shape[-2], x2.shape[-2])
    if x1.shape[-1] == 0:
        batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return x1.new_zeros(*batch, x1.shape[-2], x2.shape[-2])
    if p == 2 and (compute_mode == 1 or (not compute_mode and rows > MOST_ROWS_BY_DIFFERENCES)):
        return euclidean_dist(x1, x2)
    return _norm(_differences(x1, x2), p)


@decomposes("_cdist_backward")
def cdist_backward(grad, x1, x2, p, cdist):
    if grad.numel() == 0 or x1.numel() == 0:
        return x1.new_zeros(x1.shape)  # not broadcast, as on the CPU
    if p == 0:
        batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return x1.new_zeros(*batch, *x1.shape[-2:])
    return _norm_gradient(_differences(x1, x2), grad.unsqueeze(-1), cdist.unsqueeze(-1), p).sum(-2)


def _pairs(n, device):
    """Of the elements above the diagonal of an n by n matrix, where they stand in it when flattened."""
    i, j = torch.triu_indices(n, n, 1, device=device)
    return i * n + j


@decomposes("_pdist_forward")
def pdist_forward(self, p=2.0):
    n = self.shape[0]
    if n <= 1 or self.shape[1] == 0:
        return self.new_zeros(n * (n - 1) // 2)
    return _norm(_differences(self, self), p).flatten()[_pairs(n, self.device)]


@decomposes("_pdist_backward")
def pdist_backward(grad, self, p, pdist):
    n = self.shape[0]
    if n <= 1 or p == 0 or self.shape[1] == 0:
        return self.new_zeros(self.shape)

    def square(x):
        upper = x.new_zeros(n * n).index_put((_pairs(n, x.device),), x).view(n, n)
        return upper + upper.mT

    return cdist_backward(square(grad), self, self, p, square(pdist))
