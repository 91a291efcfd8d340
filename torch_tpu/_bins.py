"""Decompositions of histograms and of reductions by segments: every element is told its bin or segment by a search
among edges, and one scatter brings them together. What lies in none goes to one place more, which is left out."""
import math

import torch

from ._registry import decomposes


# ---- histograms: x is [samples, dims] ----
def _check(x, bins, range, weight):
    dims = x.shape[-1]
    for d, n in enumerate(bins):
        torch._check(n > 0, lambda: f"torch.histogram(): bins must be > 0, but got {n} for dimension {d}")
    torch._check(
        range is None or len(range) == 2 * dims,
        lambda: f"torch.histogramdd: for a {dims}-dimensional histogram range should have {2 * dims} elements, but got {len(range)}",
    )
    for d, (low, high) in enumerate(zip(range[::2], range[1::2]) if range else ()):
        torch._check(math.isfinite(low) and math.isfinite(high),
                     lambda: f"torch.histogramdd: dimension {d}'s range [{low:g}, {high:g}] is not finite")
        torch._check(
            low <= high,
            lambda: f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {d}",
        )
    _check_weight(x, weight)


def _check_weight(x, weight):
    if not x.is_floating_point() or x.dtype == torch.float16:
        raise NotImplementedError(f'"histogramdd" not implemented for \'{x.dtype}\'')
    torch._check(
        weight is None or weight.shape == x.shape[:-1],
        lambda: "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost "
        f"dimension, but got input with shape {list(x.shape)} and weight with shape {list(weight.shape)}",
    )


def _edges(x, bins, range):
    """Edges of equal bins over the range, or over that of the data, counted from the nearer end as linspace does."""
    edges = []
    for d, n in enumerate(bins):
        if range is not None:
            low, high = x.new_full((), range[2 * d]), x.new_full((), range[2 * d + 1])
        elif x.shape[0] == 0:
            low, high = x.new_zeros(()), x.new_ones(())
        else:
            low, high = x[:, d].amin(), x[:, d].amax()
        flat = low == high
        low, high = torch.where(flat, low - 0.5, low), torch.where(flat, high + 0.5, high)
        i = torch.arange(n + 1, device=x.device).to(x.dtype)
        step = (high - low) / n
        edges.append(torch.where(i < (n + 1) // 2, low + step * i, high - step * (n - i)))
    return edges


def _count(x, edges, weight, density):
    inside, index, sizes = None, 0, [e.shape[0] - 1 for e in edges]
    for d, (e, n) in enumerate(zip(edges, sizes)):
        column = x[:, d].contiguous()
        within = (column >= e[0]) & (column <= e[-1])
        inside = within if inside is None else inside & within
        index = index * n + (torch.searchsorted(e, column, right=True) - 1).clamp(max=n - 1)
    total = math.prod(sizes)
    index = torch.where(inside, index, total)
    values = x.new_ones(x.shape[:1]) if weight is None else weight.reshape(-1).to(x.dtype)
    counts = x.new_zeros(total + 1).scatter_add(0, index, values)[:total].reshape(sizes)
    if density:
        counts = counts / counts.sum()
        for d, e in enumerate(edges):
            counts = counts / e.diff().reshape([-1 if k == d else 1 for k in range(len(edges))])
    return counts


def _rows(x):
    return x.reshape(-1, x.shape[-1])


@decomposes("histogram.bin_ct")
def histogram_of_count(self, bins=100, range=None, weight=None, density=False):
    x, weight = self.reshape(-1, 1), None if weight is None else weight.reshape(-1)
    _check(x, [bins], range, weight)
    edges = _edges(x, [bins], range)
    return _count(x, edges, weight, density), edges[0]


@decomposes("histogram.bins_tensor")
def histogram_of_edges(self, bins, weight=None, density=False):
    x, weight = self.reshape(-1, 1), None if weight is None else weight.reshape(-1)
    _check_weight(x, weight)
    return _count(x, [bins.contiguous()], weight, density), bins.clone()


@decomposes("_histogramdd_bin_edges")
def histogramdd_edges(self, bins, range=None, weight=None, density=False):
    _check(self, bins, range, weight)
    return _edges(_rows(self), bins, range)


@decomposes("_histogramdd_from_bin_cts")
def histogramdd_of_counts(self, bins, range=None, weight=None, density=False):
    _check(self, bins, range, weight)
    return _count(_rows(self), _edges(_rows(self), bins, range), weight, density)


@decomposes("_histogramdd_from_bin_tensors")
def histogramdd_of_edges(self, bins, weight=None, density=False):
    _check_weight(self, weight)
    return _count(_rows(self), [b.contiguous() for b in bins], weight, density)


# ---- segments along a dim ----
def _segments(data, lengths, offsets, axis):
    """data as [outer, size, inner]; the segment of each of its elements, of their shape; lengths as [outer, segments,
    1]."""
    if offsets is None:
        offsets = torch.nn.functional.pad(lengths.cumsum(-1), (1, 0))
    outer, size = math.prod(data.shape[:axis]), data.shape[axis]
    offsets = offsets.reshape(outer, offsets.shape[-1])
    place = torch.arange(size, device=data.device, dtype=offsets.dtype).expand(outer, size).contiguous()
    count = offsets.shape[1] - 1
    segment = torch.searchsorted(offsets[:, 1:].contiguous(), place, right=True)
    segment = torch.where(place >= offsets[:, :1], segment, count)
    x = data.reshape(outer, size, math.prod(data.shape[axis + 1:]))
    return x, segment.unsqueeze(2).expand(x.shape), offsets.diff(dim=1).unsqueeze(2)


def _together(x, segment, count, how, start):
    return x.new_full((x.shape[0], count + 1, x.shape[2]), start).scatter_reduce(1, segment, x, how)[:, :count]


def _apart(y, segment):
    """What each element's segment has; 0 for elements of none."""
    return torch.nn.functional.pad(y, (0, 0, 0, 1)).gather(1, segment)


@decomposes("segment_reduce")
def segment_reduce(data, reduce, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    torch._check(indices is None, lambda: "segment_reduce(): indices based reduction is not supported yet.")
    torch._check(
        lengths is not None or offsets is not None,
        lambda: "segment_reduce(): Either lengths or offsets must be defined.",
    )
    axis = axis % data.dim()
    if offsets is None and not unsafe:
        torch._check(not bool((lengths < 0).any()), lambda: "lengths contains negative value!")
        torch._check(
            bool((lengths.sum(-1) == data.shape[axis]).all()),
            lambda: "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.",
        )
    x, segment, lengths = _segments(data, lengths, offsets, axis)
    how, start = {
        "sum": ("sum", 0),
        "mean": ("sum", 0),
        "prod": ("prod", 1),
        "max": ("amax", -math.inf),
        "min": ("amin", math.inf),
    }[reduce]
    y = _together(x, segment, lengths.shape[1], how, start if initial is None else initial)
    if reduce == "mean":
        y = torch.where(lengths > 0, y / lengths.to(y.dtype), math.nan if initial is None else y)
    return y.reshape(*data.shape[:axis], y.shape[1], *data.shape[axis + 1:]).contiguous()


@decomposes("_segment_reduce_backward")
def segment_reduce_backward(grad, output, data, reduce, lengths=None, offsets=None, axis=0, initial=None):
    axis = axis % data.dim()
    x, segment, lengths = _segments(data, lengths, offsets, axis)
    count = lengths.shape[1]
    g, y = (t.reshape(x.shape[0], count, x.shape[2]) for t in (grad, output))
    if reduce == "sum":
        r = _apart(g, segment)
    elif reduce == "mean":
        r = _apart(g / lengths.clamp(min=1).to(g.dtype), segment)
    elif reduce == "prod":
        # Beside a 0 or a NaN nothing can be divided by: the product of the others, which has the other zeros and NaNs.
        nan, zero = x.isnan(), x == 0
        odd = nan | zero
        plain = _together(torch.where(odd, 1, x), segment, count, "prod", 1 if initial is None else initial)
        nans, zeros = (
            _apart(_together(t.to(x.dtype), segment, count, "sum", 0), segment) - t.to(x.dtype) for t in (nan, zero)
        )
        others = torch.where(
            nans > 0, math.nan, torch.where(zeros > 0, 0 * _apart(plain, segment), _apart(plain, segment))
        )
        r = torch.where(odd, _apart(g, segment) * others, _apart(g * y, segment) / x)
    else:
        hit = x.isnan() | (x == _apart(y, segment))
        hits = _apart(_together(hit.to(x.dtype), segment, count, "sum", 0), segment)
        g = _apart(g, segment)
        # the CPU shares out gradients above 0 only
        r = torch.where(hit, torch.where(g > 0, g / hits.clamp(min=1), g), 0)
    return torch.where(segment < count, r, 0).reshape(data.shape)
