"""Decompositions of operators that read an image where another tensor says: grid_sampler and fractional max pooling.

A grid sample is separable: along each dim, an element of the grid gives a few taps (place, whether it lies inside,
weight and the weight's derivative), and a value is the sum over all combinations of them. Rows of channels are read and
added to, all combinations at once. Padding modes and roundings follow torch's GridSampler.h; the cubic kernel is Keys'
with a = -3/4."""
import math
from typing import NamedTuple

import torch

from ._registry import decomposes, wide

LINEAR, NEAREST, CUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


class Taps(NamedTuple):
    """What the elements of a grid read along one dim: [taps, elements] each."""

    at: torch.Tensor  # place along the dim, inside of it
    inside: torch.Tensor  # False: what is read there is 0
    weight: torch.Tensor
    slope: torch.Tensor  # of the weight, to the grid


# ---- places ----
def _reflected(x, size, align):
    """x mirrored at the image's edges until it is inside, and the sign of its slope."""
    low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
    if span == 0:
        return torch.zeros_like(x), torch.zeros_like(x)
    away = (x - low).abs()
    extra, odd = away.fmod(span), (away / span).floor().remainder(2) != 0
    sign = torch.where((x < low) != odd, -1.0, 1.0).to(x.dtype)
    return torch.where(odd, span - extra, extra) + low, sign


def _inside(x, size, nan_place):
    """x clipped to the image, and where that leaves it alone."""
    y = torch.where(x.isnan(), float(nan_place), x.clamp(0, size - 1))
    return y, ((x > 0) & (x < size - 1)).to(x.dtype)


def _padded(x, size, padding, align, nan_place):
    slope = torch.ones_like(x)
    if padding == REFLECTION:
        x, slope = _reflected(x, size, align)
    if padding != ZEROS:
        x, kept = _inside(x, size, nan_place)
        slope = slope * kept
    return x, slope


def _taps_of(place, size, weight, slope):
    inside = (place >= 0) & (place < size)
    return Taps(torch.where(inside, place, 0).to(torch.int64), inside, weight, slope)


def _cubic_weights(t):
    """Weights of the four taps around a place t beyond the second, and their derivatives."""
    a = -0.75

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1, (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a

    sides = far(t + 1), near(t), near(1 - t), far(2 - t)
    return torch.stack([w for w, _ in sides]), torch.stack([d if k < 2 else -d for k, (_, d) in enumerate(sides)])


def _rounded(x):
    """x, so that no compiler makes one rounding of its product and what is added next: gradients to the grid show a
    place's last digit."""
    most = torch.finfo(x.dtype).max
    return x.clamp(-most, most)


def _taps(x, size, mode, padding, align, nan_place):
    scale = (size - 1) / 2 if align else size / 2
    x = (x + 1) / 2 * (size - 1) if align else (_rounded((x + 1) * size) - 1) / 2
    if mode == CUBIC:
        first = x.floor()
        weight, slope = _cubic_weights(x - first)
        places = torch.stack([first - 1, first, first + 1, first + 2])
        return _taps_of(_padded(places, size, padding, align, nan_place)[0], size, weight, slope * scale)
    x, slope = _padded(x, size, padding, align, nan_place)
    if mode == NEAREST:
        return _taps_of(x.round()[None], size, torch.ones_like(x)[None], torch.zeros_like(x)[None])
    first = x.floor()
    slope = slope * scale
    return _taps_of(
        torch.stack([first, first + 1]), size, torch.stack([first + 1 - x, x - first]), torch.stack([-slope, slope])
    )


# ---- all dims ----
class _Reader:
    """What a grid reads of an image [N, C, spatial..]: rows of C, one per combination of taps and element of the
    grid."""

    def __init__(self, image, grid, mode, padding, align):
        self.n, self.c, *self.spatial = image.shape
        self.rows = wide(image).movedim(1, -1).reshape(-1, self.c)
        self.shape = grid.shape[1:-1]
        flat = wide(grid).reshape(-1, len(self.spatial))
        n = len(self.spatial)
        at = torch.arange(self.n, device=image.device).repeat_interleave(
            math.prod(self.shape), output_size=flat.shape[0]
        )
        inside = torch.ones_like(at, dtype=torch.bool)
        self.factors = []
        for d, size in enumerate(self.spatial):
            # The grid's last dim begins with the image's last. The host's vectorized kernels (2 dims) send NaN to 0.
            taps = _taps(flat[:, -1 - d], size, mode, padding, align, 0 if n == 2 else size - 1)
            view = [1] * n + [flat.shape[0]]
            view[d] = taps.at.shape[0]
            at = at * size + taps.at.view(view)
            inside = inside & taps.inside.view(view)
            self.factors.append((taps.weight.view(view), taps.slope.view(view)))
        self.at, self.inside = at, inside[..., None]

    def read(self):
        return torch.where(
            self.inside, self.rows.index_select(0, self.at.reshape(-1)).reshape(*self.at.shape, self.c), 0
        )

    def weight(self, of=None):
        """The product of the weights of all dims; of one dim, the slope in its place."""
        factors = [slope if d == of else weight for d, (weight, slope) in enumerate(self.factors)]
        return math.prod(factors[1:], start=factors[0])[..., None]


def _grid_sample(image, grid, mode, padding, align):
    r = _Reader(image, grid, mode, padding, align)
    total = (r.read() * r.weight()).sum(list(range(len(r.spatial))))
    return total.reshape(r.n, *r.shape, r.c).movedim(-1, 1).to(image.dtype).contiguous()


def _grid_sample_backward(grad, image, grid, mode, padding, align, mask):
    r = _Reader(image, grid, mode, padding, align)
    rows = wide(grad).movedim(1, -1).reshape(-1, r.c)
    to_image = to_grid = None
    if mask[0]:
        parts = torch.where(r.inside, rows * r.weight(), 0).reshape(-1, r.c)
        to_image = torch.zeros_like(r.rows).index_add(0, r.at.reshape(-1), parts)
        to_image = to_image.reshape(r.n, *r.spatial, r.c).movedim(-1, 1).to(image.dtype).contiguous()
    if mask[1] and mode == NEAREST:
        to_grid = torch.zeros_like(grid, memory_format=torch.contiguous_format)
    elif mask[1]:
        # Differences of neighbours first, then the sum over channels: the other way round loses digits.
        read, taps = r.read(), list(range(len(r.spatial)))
        parts = [((read * r.weight(of=d)).sum(taps) * rows).sum(1) for d in reversed(taps)]
        to_grid = torch.stack(parts, 1).reshape(grid.shape).to(grid.dtype)
    return to_image, to_grid


@decomposes("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(image, grid, mode, padding, align):
    return _grid_sample(image, grid, mode, padding, align)


@decomposes("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(grad, image, grid, mode, padding, align, output_mask):
    return _grid_sample_backward(grad, image, grid, mode, padding, align, output_mask)


# ---- fractional max pooling (Graham, 2014) ----
def _starts(sample, size, out, window):
    """Where the windows of each plane begin along a dim: [planes, out]."""
    last = torch.full((sample.shape[0], 1), size - window, device=sample.device, dtype=torch.int64)
    if out == 1:
        return last
    step = torch.full((), size - window, device=sample.device, dtype=sample.dtype) / (out - 1)
    steps = torch.arange(out - 1, device=sample.device, dtype=sample.dtype)
    sample = sample[:, None]
    return torch.cat([((steps + sample) * step).to(torch.int64) - (sample * step).to(torch.int64), last], 1)


def _fractional_max_pool(x, window, output, samples):
    n = len(window)
    window, output = list(window), list(output)
    size = x.shape[-n:]
    planes = x.reshape(math.prod(x.shape[:-n]), *size)
    samples = samples.reshape(samples.shape[0] * samples.shape[1], n)[: planes.shape[0]]
    places = torch.zeros([1] * (2 * n + 1), device=x.device, dtype=torch.int64)
    for d in range(n):
        # In two dims torch takes the first sample for the width.
        begin = _starts(samples[:, d if n == 3 else 1 - d], size[d], output[d], window[d])
        at = (begin[:, :, None] + torch.arange(window[d], device=x.device)).flatten(1)
        view = [at.shape[0]] + [1] * n
        view[1 + d] = at.shape[1]
        shape = list(planes.shape)
        shape[1 + d] = at.shape[1]
        planes = planes.gather(1 + d, at.view(view).expand(shape))
        view = [at.shape[0]] + [1] * (2 * n)
        view[1 + 2 * d], view[2 + 2 * d] = output[d], window[d]
        places = places * size[d] + at.view(view)
    order = [0, *range(1, 2 * n + 1, 2), *range(2, 2 * n + 2, 2)]

    def by_window(t):
        split = [t.shape[0]] + [k for pair in zip(output, window) for k in pair]
        return t.reshape(split).permute(order).flatten(n + 1)

    values, places = by_window(planes), by_window(
        places.expand(planes.shape[0], *[k for p in zip(output, window) for k in p])
    )
    best = values.argmax(-1, keepdim=True)
    if values.is_floating_point():  # the last NaN stays, as in torch
        nans, order = values.isnan(), torch.arange(values.shape[-1], device=x.device)
        best = torch.where(nans.any(-1, keepdim=True), torch.where(nans, order, 0).amax(-1, keepdim=True), best)
    shape = [*x.shape[:-n], *output]
    return values.gather(-1, best).reshape(shape), places.gather(-1, best).reshape(shape)


@decomposes("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_max_pool(x, kernel_size, output_size, random_samples):
    return _fractional_max_pool(x, kernel_size, output_size, random_samples)


@decomposes("fractional_max_pool2d_backward", "fractional_max_pool3d_backward")
def fractional_max_pool_backward(grad, x, kernel_size, output_size, indices):
    n = len(kernel_size)
    planes = math.prod(x.shape[:-n])
    zeros = grad.new_zeros(planes, math.prod(x.shape[-n:]), dtype=wide(grad).dtype)
    chosen = [planes, math.prod(grad.shape[-n:])]
    summed = zeros.scatter_add(1, indices.reshape(chosen), wide(grad).reshape(chosen))
    return summed.reshape(x.shape).to(grad.dtype)
