"""Decompositions of embedding_bag, of its gradients, and of embeddings of a largest norm.

A bag's number is found for each index by a search in the offsets; sums are additions into bags. A maximum takes two
such passes, one for the value and one for the first index that has it. Indices equal to padding_idx belong to no
bag."""
import torch

from ._internal import execution_mode
from ._registry import decomposes, wide

SUM, MEAN, MAX = range(3)


def _bags(indices, offsets, include_last_offset):
    """How many bags, and the bag of each index."""
    begin = offsets[:-1] if include_last_offset else offsets
    place = torch.arange(indices.shape[0], device=indices.device, dtype=offsets.dtype)
    return begin.shape[0], torch.searchsorted(begin[1:], place, right=True).to(indices.dtype)


def _largest(rows, bag, n_bags, counted, indices):
    """Maxima of the rows of each bag, and the index that gave each."""
    wide = bag[:, None].expand(rows.shape)
    order = torch.arange(rows.shape[0], device=rows.device)[:, None].expand(rows.shape)
    n, never = rows.shape[0], float("-inf")
    top = rows.new_full((n_bags, rows.shape[1]), never)
    top = top.scatter_reduce(0, wide, torch.where(counted, rows, never), "amax")
    found = counted & ((rows == top.index_select(0, bag)) | rows.isnan())
    first = torch.full(top.shape, n, device=rows.device).scatter_reduce(0, wide, torch.where(found, order, n), "amin")
    some = first < n
    if n == 0:
        return torch.zeros_like(top), first
    source = indices.index_select(0, first.clamp(max=n - 1).reshape(-1)).reshape(top.shape)
    return torch.where(some, top, 0), torch.where(some, source, 0)


def _check_offsets(indices, offsets):
    """In Debug mode, which reads them. The tail of the first message is how torch prints the tensor's kind."""
    if offsets.numel() == 0:
        return
    first, last, kind = int(offsets[0]), int(offsets[-1]), "Long" if offsets.dtype == torch.int64 else "Int"
    torch._check(
        first == 0,
        lambda: "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
        f"However, got {first}\n[ torch.{kind}Tensor{{}} ]",
    )
    torch._check(
        last <= indices.shape[0],
        lambda: f"offsets[-1] can not be greater than input's length {indices.shape[0]} but got offsets[-1] "
        f"of {last}",
    )


@decomposes("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=SUM, sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=-1):
    if execution_mode.eager_mode == "debug" and not offsets.is_meta:
        _check_offsets(indices, offsets)
    n_bags, bag = _bags(indices, offsets, include_last_offset)
    rows = wide(weight.index_select(0, indices))
    counted = (
        (indices != padding_idx)[:, None] if padding_idx >= 0 else torch.ones_like(indices, dtype=torch.bool)[:, None]
    )
    size = torch.zeros_like(offsets, dtype=indices.dtype).index_add(0, bag, counted[:, 0].to(indices.dtype))
    if mode == MAX:
        value, source = _largest(rows, bag, n_bags, counted, indices)
        return value.to(weight.dtype), bag, size, source.to(indices.dtype)
    if per_sample_weights is not None:
        rows = rows * wide(per_sample_weights)[:, None]
    value = rows.new_zeros(n_bags, weight.shape[1]).index_add(0, bag, torch.where(counted, rows, 0))
    if mode == MEAN:
        value = value / size[:n_bags, None].clamp(min=1)
    return value.to(weight.dtype), bag, size, torch.zeros_like(size)


@decomposes("_embedding_bag_dense_backward")
def embedding_bag_backward(grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
                           per_sample_weights, padding_idx=-1):
    g = wide(grad)
    total = g.new_zeros(num_weights, grad.shape[1])
    if mode == MAX:
        part = torch.where(bag_size[: grad.shape[0], None] > 0, g, 0)
        return total.scatter_add(0, maximum_indices.to(torch.int64), part).to(grad.dtype)
    rows = g.index_select(0, offset2bag)
    if mode == MEAN:
        rows = rows / bag_size.index_select(0, offset2bag)[:, None]
    if per_sample_weights is not None:
        rows = rows * wide(per_sample_weights)[:, None]
    if scale_grad_by_freq:
        count = torch.zeros(num_weights, device=grad.device, dtype=torch.int64).index_add(
            0, indices, torch.ones_like(indices, dtype=torch.int64)
        )
        rows = rows / count.index_select(0, indices)[:, None]
    if padding_idx >= 0:
        rows = torch.where((indices != padding_idx)[:, None], rows, 0)
    return total.index_add(0, indices, rows).to(grad.dtype)


@decomposes("_embedding_bag_backward")
def embedding_bag_backward_any(
    grad,
    indices,
    offsets,
    offset2bag,
    bag_size,
    maximum_indices,
    num_weights,
    scale_grad_by_freq,
    mode,
    sparse,
    per_sample_weights,
    padding_idx=-1,
):
    if sparse:
        raise NotImplementedError("sparse gradients of embedding_bag on tpu")
    return embedding_bag_backward(
        grad,
        indices,
        offset2bag,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )


@decomposes("_embedding_bag_per_sample_weights_backward")
def embedding_bag_per_sample_weights_backward(grad, weight, indices, offsets, offset2bag, mode, padding_idx=-1):
    dot = (wide(grad).index_select(0, offset2bag) * wide(weight).index_select(0, indices)).sum(1)
    if padding_idx >= 0:
        dot = torch.where(indices != padding_idx, dot, 0)
    return dot.to(grad.dtype)


@decomposes("embedding_renorm_")
def embedding_renorm_(weight, indices, max_norm, norm_type):
    norms = torch.linalg.vector_norm(weight, norm_type, 1)
    used = torch.zeros_like(norms, dtype=torch.bool).index_fill(0, indices.flatten(), True)
    scale = torch.where(used & (norms > max_norm), max_norm / (norms + 1e-7), torch.ones_like(norms))
    return weight.copy_(weight * scale.unsqueeze(1))
