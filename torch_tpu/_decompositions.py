"""Decompositions that torch's own tables leave out: operators the CPU and CUDA have kernels for and nothing else.

Each function takes its operator's arguments and returns its results; all of it becomes one program."""
import torch

from ._fused import decomposes


@decomposes("embedding_renorm_")
def embedding_renorm_(weight, indices, max_norm, norm_type):
    norms = torch.linalg.vector_norm(weight, norm_type, 1)
    used = torch.zeros_like(norms, dtype=torch.bool).index_fill(0, indices.flatten(), True)
    scale = torch.where(used & (norms > max_norm), max_norm / (norms + 1e-7), torch.ones_like(norms))
    return weight.copy_(weight * scale.unsqueeze(1))


# ---- products of three ----
@decomposes("_trilinear")
def trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum over sumdim of i1 * i2 * i3, of which each lacks the dims that it is expanded by."""
    rank = i1.dim() + len(expand1)
    subscripts = [[d for d in range(rank) if d not in gone] for gone in (expand1, expand2, expand3)]
    return torch.einsum(i1, subscripts[0], i2, subscripts[1], i3, subscripts[2], [d for d in range(rank) if d not in sumdim])


# ---- compressed indices of sparse matrices ----
@decomposes("_convert_indices_from_coo_to_csr")
def coo_to_csr(rows, size, out_int32=False):
    bounds = torch.arange(size + 1, dtype=rows.dtype, device=rows.device)
    return torch.searchsorted(rows, bounds).to(torch.int32 if out_int32 else torch.int64)


@decomposes("_convert_indices_from_csr_to_coo")
def csr_to_coo(crow, col, out_int32=False, transpose=False):
    batches, nnz = crow[..., 0].numel(), col.shape[-1]
    dtype = torch.int32 if out_int32 else torch.int64
    entries = torch.arange(nnz, dtype=crow.dtype, device=crow.device).expand(*col.shape).contiguous()
    rows = torch.searchsorted(crow, entries, right=True).sub(1).to(dtype).reshape(-1)
    columns = col.to(dtype).reshape(-1)
    pair = [columns, rows] if transpose else [rows, columns]
    if crow.dim() == 1:
        return torch.stack(pair)
    batch = torch.arange(batches, dtype=dtype, device=crow.device).repeat_interleave(nnz, output_size=batches * nnz)
    outer = []
    for n in reversed(crow.shape[:-1]):
        outer.append(batch % n)
        batch = batch // n
    return torch.stack([*outer[::-1], *pair])


# ---- losses against class indices: one sample is a batch of one ----
def _per_class(grad, g, reduction, count):
    """g, [samples, classes], times the gradient of the reduced loss; count: what the mean divides by."""
    if reduction == 0:
        return g * grad.reshape(-1, 1)
    return g * (grad / count if reduction == 1 else grad)


@decomposes("multi_margin_loss")
def multi_margin_loss(x, target, p=1, margin=1, weight=None, reduction=1):
    """torch's own gives the loss of one vector a dim, as it does multilabel_margin_loss_forward's."""
    rows = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    at = target.reshape(-1, 1)
    z = (margin - rows.gather(1, at) + rows).clamp(min=0)
    z = (z if p == 1 else z * z) * (1 if weight is None else weight[at])
    loss = z.scatter(1, at, 0).sum(1) / rows.shape[1]
    return (loss.reshape(target.shape), loss.mean(), loss.sum())[reduction]


@decomposes("multi_margin_loss_backward")
def multi_margin_loss_backward(grad, x, target, p, margin, weight=None, reduction=1):
    rows = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    at = target.reshape(-1, 1)
    z = margin - rows.gather(1, at) + rows
    g = (z > 0).to(x.dtype) * (1 if p == 1 else 2 * z) / rows.shape[1]
    if weight is not None:
        g = g * weight[at]
    g = g.scatter(1, at, 0)
    g = g.scatter(1, at, -g.sum(1, keepdim=True))
    return _per_class(grad, g, reduction, rows.shape[0]).reshape(x.shape)


@decomposes("multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(x, target, reduction):
    rows = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    labels = target.reshape(rows.shape)
    counts = (labels >= 0).to(torch.int32).cumprod(1).bool()
    at = labels.clamp(min=0)
    is_target = torch.zeros_like(labels).scatter_reduce(1, at, counts.to(labels.dtype), "amax")
    z = 1 - rows.gather(1, at).unsqueeze(2) + rows.unsqueeze(1)
    loss = torch.where(counts.unsqueeze(2) & (is_target == 0).unsqueeze(1), z.clamp(min=0), 0).sum((1, 2)) / rows.shape[1]
    loss = (loss.reshape(x.shape[:-1]), loss.mean(), loss.sum())[reduction]
    return loss, is_target.to(x.dtype).reshape(target.shape)


@decomposes("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(grad, x, target, reduction, is_target):
    rows = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    labels = target.reshape(rows.shape)
    counts = (labels >= 0).to(torch.int32).cumprod(1).bool()  # labels end at the first negative one
    at = labels.clamp(min=0)
    z = 1 - rows.gather(1, at).unsqueeze(2) + rows.unsqueeze(1)  # [samples, labels, classes]
    hit = (counts.unsqueeze(2) & (is_target.reshape(rows.shape) == 0).unsqueeze(1) & (z > 0)).to(x.dtype)
    g = hit.sum(1).scatter_add(1, at, -hit.sum(2)) / rows.shape[1]
    return _per_class(grad, g, reduction, rows.shape[0]).reshape(x.shape)


# ---- nested tensors of the jagged layout: rows offsets[b] .. offsets[b + 1] belong to sequence b ----
@decomposes("_jagged_to_padded_dense_forward")
def jagged_to_padded(values, offsets, max_lengths, padding_value=0.0):
    if len(offsets) != 1:
        raise NotImplementedError("more than one jagged dim")
    begin, end = offsets[0][:-1].unsqueeze(1), offsets[0][1:].unsqueeze(1)
    place = begin + torch.arange(max_lengths[0], dtype=begin.dtype, device=begin.device)
    if values.shape[0] == 0:
        return values.new_full((*place.shape, *values.shape[1:]), padding_value)
    rows = values.index_select(0, place.clamp(max=values.shape[0] - 1).flatten()).unflatten(0, place.shape)
    there = (place < end).reshape(*place.shape, *[1] * (values.dim() - 1))
    return torch.where(there, rows, torch.full((), padding_value, dtype=values.dtype, device=values.device))


@decomposes("_padded_dense_to_jagged_forward")
def padded_to_jagged(dense, offsets, total_L=None):
    if len(offsets) != 1:
        raise NotImplementedError("more than one jagged dim")
    total = int(offsets[0][-1]) if total_L is None else total_L
    row = torch.arange(total, dtype=offsets[0].dtype, device=dense.device)
    sequence = torch.searchsorted(offsets[0], row, right=True) - 1
    place = row - offsets[0].index_select(0, sequence)
    kept = dense.flatten(0, 1).index_select(0, sequence * dense.shape[1] + place.clamp(max=dense.shape[1] - 1))
    inside = (place < dense.shape[1]).reshape(total, *[1] * (kept.dim() - 1))
    return torch.where(inside, kept, torch.zeros_like(kept))
