"""Decompositions of fake quantization, of its learnable and observing forms, and of products of scaled 8-bit floats.

torch rounds to the nearest even integer after a multiplication by the float32 reciprocal of the scale. What overflows
is clipped; NaN becomes the least value."""
import torch

from ._registry import decomposes


def _per_channel(v, x, axis):
    return v.reshape([-1 if d == axis else 1 for d in range(x.dim())])


def _quantized(x, scale, zero_point):
    """The integer of each element, not clipped yet, as a float."""
    inverse = 1 / scale if isinstance(scale, torch.Tensor) else torch.full((), scale, device=x.device).reciprocal()
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    if isinstance(zero_point, torch.Tensor) and zero_point.is_floating_point():
        return (zero_point + wide * inverse).round()
    return zero_point + (wide * inverse).round()


def _fake_quantized(x, scale, zero_point, quant_min, quant_max):
    q = _quantized(x, scale, zero_point)
    clipped = torch.where(q.isnan(), float(quant_min), q.clamp(quant_min, quant_max))
    if not isinstance(scale, torch.Tensor):
        scale = torch.full((), scale, device=x.device)
    return ((clipped - zero_point) * scale).to(x.dtype), (q >= quant_min) & (q <= quant_max)


@decomposes("fake_quantize_per_tensor_affine_cachemask")
def per_tensor(x, scale, zero_point, quant_min, quant_max):
    return _fake_quantized(x, scale, zero_point, quant_min, quant_max)


@decomposes("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def per_tensor_by_tensors(x, scale, zero_point, fake_quant_enabled, quant_min, quant_max):
    y, mask = _fake_quantized(x, scale.reshape(()), zero_point.reshape(()), quant_min, quant_max)
    on = fake_quant_enabled.reshape(()) != 0
    return torch.where(on, y, x), mask | ~on


@decomposes("fake_quantize_per_channel_affine_cachemask")
def per_channel(x, scale, zero_point, axis, quant_min, quant_max):
    return _fake_quantized(x, _per_channel(scale, x, axis), _per_channel(zero_point, x, axis), quant_min, quant_max)


# ---- scale and zero point are learnt ----
def _learnable_backward(grad, x, scale, zero_point, quant_min, quant_max, factor):
    q = _quantized(x, scale, zero_point)
    inside = (q >= quant_min) & (q <= quant_max)
    q = q.clamp(quant_min, quant_max)
    to_scale = torch.where(inside, ((q - zero_point) * scale - x) / scale, q - zero_point)
    to_zero_point = torch.where(inside, 0.0, -scale)
    return torch.where(inside, grad, 0), grad * to_scale * factor, grad * to_zero_point * factor


@decomposes("_fake_quantize_learnable_per_tensor_affine")
def learnable_per_tensor(x, scale, zero_point, quant_min, quant_max, grad_factor=1.0):
    zero_point = zero_point.reshape(-1)[0].round().clamp(quant_min, quant_max)
    return _fake_quantized(x, scale.reshape(-1)[0], zero_point.to(torch.int64), quant_min, quant_max)[0]


@decomposes("_fake_quantize_learnable_per_tensor_affine_backward")
def learnable_per_tensor_backward(grad, x, scale, zero_point, quant_min, quant_max, grad_factor=1.0):
    # torch rounds the zero point another way here: it adds a half and cuts.
    at = (zero_point.reshape(-1)[0] + 0.5).clamp(quant_min, quant_max).to(torch.int64)
    dx, ds, dz = _learnable_backward(grad, x, scale.reshape(-1)[0], at, quant_min, quant_max, grad_factor)
    return dx, ds.sum().reshape(1).to(scale.dtype), dz.sum().reshape(1).to(zero_point.dtype)


@decomposes("_fake_quantize_learnable_per_channel_affine")
def learnable_per_channel(x, scale, zero_point, axis, quant_min, quant_max, grad_factor=1.0):
    return per_channel(
        x, scale, zero_point.round().clamp(quant_min, quant_max).to(torch.int32), axis, quant_min, quant_max
    )[0]


@decomposes("_fake_quantize_learnable_per_channel_affine_backward")
def learnable_per_channel_backward(grad, x, scale, zero_point, axis, quant_min, quant_max, grad_factor=1.0):
    at = _per_channel(zero_point.round().clamp(quant_min, quant_max).to(torch.int64), x, axis)
    dx, ds, dz = _learnable_backward(grad, x, _per_channel(scale, x, axis), at, quant_min, quant_max, grad_factor)
    others = [d for d in range(x.dim()) if d != axis % x.dim()]
    if others:
        ds, dz = ds.sum(others), dz.sum(others)
    return dx, ds.to(scale.dtype), dz.to(zero_point.dtype)


# ---- scale and zero point follow a moving average ----
def _choose(low, high, quant_min, quant_max, symmetric):
    """Scale and zero point for values from low to high, as torch's ChooseQuantizationParams."""
    least, span = 6.1e-5, quant_max - quant_min
    low, high = low.to(torch.float32), high.to(torch.float32)
    mixed = (low < 0) & (high > 0)
    if symmetric:
        down, up = -(span // 2 + 1), span // 2
        most = torch.maximum((low / down).abs(), (high / up).abs()).to(torch.float64)
        low, high = torch.where(mixed, (most * down).to(low.dtype), low), torch.where(
            mixed, (most * up).to(high.dtype), high
        )
    low, high = low.clamp(max=0).to(torch.float64), high.clamp(min=0).to(torch.float64)
    scale = (high - low) / span
    narrow = scale.to(torch.float32)
    scale = torch.where((narrow == 0) | (1 / narrow).isinf(), 0.1, scale)
    small, more = scale < least, least / scale
    new_high = torch.where(low == 0, least * span, torch.where(high == 0, 0.0, high * more))
    new_low = torch.where(low == 0, 0.0, torch.where(high == 0, -least * span, low * more))
    low, high, scale = (
        torch.where(small, new_low, low),
        torch.where(small, new_high, high),
        torch.where(small, least, scale),
    )
    by_low, by_high = quant_min - low / scale, quant_max - high / scale
    error = (abs(quant_min) - (low / scale).abs()) < (abs(quant_max) - (high / scale).abs())
    zero_point = torch.where(error, by_low, by_high)
    if symmetric:
        zero_point = torch.where((low < 0) & (high > 0), (quant_min + quant_max) / 2, zero_point)
    return scale.to(torch.float32), zero_point.round().clamp(quant_min, quant_max)


@decomposes("_fused_moving_avg_obs_fq_helper")
def moving_average(
    x,
    observer_on,
    fake_quant_on,
    running_min,
    running_max,
    scale,
    zero_point,
    averaging_const,
    quant_min,
    quant_max,
    ch_axis,
    per_row_fake_quant=False,
    symmetric_quant=False,
):
    rows = x.movedim(ch_axis, 0).flatten(1) if per_row_fake_quant else x.reshape(1, -1)
    if running_min.numel() != rows.shape[0]:
        raise NotImplementedError(
            "fused_moving_avg_obs_fake_quant: running statistics of another size than the channels"
        )
    on = observer_on.reshape(()) != 0
    for running, seen in ((running_min, rows.amin(1)), (running_max, rows.amax(1))):
        seen = seen.reshape(running.shape)
        moved = torch.where(running.isinf(), seen, running + averaging_const * (seen - running))
        running.copy_(torch.where(on, moved, running))
    new = _choose(running_min, running_max, quant_min, quant_max, symmetric_quant)
    for own, chosen in zip((scale, zero_point), new):
        own.copy_(torch.where(on, chosen.reshape(own.shape).to(own.dtype), own))
    if per_row_fake_quant:
        y, mask = per_channel(x, scale, zero_point, ch_axis, quant_min, quant_max)
        enabled = fake_quant_on.reshape(()) != 0
        return torch.where(enabled, y, x), mask | ~enabled
    return per_tensor_by_tensors(x, scale, zero_point, fake_quant_on, quant_min, quant_max)


# ---- products of scaled operands ----
def _scaled_product(a, b, scale_a, scale_b, bias, result_scale, dtype):
    y = (a.to(torch.float32) * scale_a) @ (b.to(torch.float32) * scale_b)
    if bias is not None:
        y = y + bias
    if result_scale is not None:
        y = y * result_scale
    return y.to(dtype)


@decomposes("_scaled_mm")
def scaled_mm(a, b, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
    return _scaled_product(a, b, scale_a, scale_b, bias, scale_result, out_dtype or a.dtype)


@decomposes("_scaled_mm_v2")
def scaled_mm_v2(
    a,
    b,
    scale_a,
    recipe_a,
    swizzle_a,
    scale_b,
    recipe_b,
    swizzle_b,
    bias=None,
    out_dtype=None,
    contraction_dim=(),
    use_fast_accum=False,
):
    plain = (
        all(len(r) == 1 and r[0] in (0, 1) for r in (recipe_a, recipe_b)) and not any(swizzle_a) and not any(swizzle_b)
    )
    if not plain:
        raise NotImplementedError("scaled_mm: scales by tensor and by row only")
    return _scaled_product(a, b, scale_a[0], scale_b[0], bias, None, out_dtype or a.dtype)
