"""Decompositions for nested tensors of the jagged layout: rows offsets[b] .. offsets[b + 1] belong to sequence b."""
import torch

from ._registry import decomposes


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
