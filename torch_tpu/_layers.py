"""Decompositions of pieces of nn layers that torch has kernels for on the CPU and CUDA, and nothing else."""
import torch

from ._registry import decomposes, wide


# ---- nn.Bilinear ----
@decomposes("_trilinear")
def trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum over sumdim of i1 * i2 * i3, of which each lacks the dims that it is expanded by."""
    rank = i1.dim() + len(expand1)
    subscripts = [[d for d in range(rank) if d not in gone] for gone in (expand1, expand2, expand3)]
    return torch.einsum(
        i1, subscripts[0], i2, subscripts[1], i3, subscripts[2], [d for d in range(rank) if d not in sumdim]
    )


# ---- nn.utils.weight_norm ----
@decomposes("_weight_norm_interface_backward")
def weight_norm_backward(grad, v, g, norms, dim):
    others = [d for d in range(v.dim()) if d != dim]
    wide_v, wide_g, wide_grad, n = wide(v), wide(g), wide(grad), wide(norms)
    along = (wide_grad * wide_v).sum(others, keepdim=True)
    grad_v = wide_g / n * (wide_grad - wide_v * (along / (n * n)))
    return grad_v.to(v.dtype), (along / n).to(g.dtype)


# ---- forward mode of nn.GLU: a * sigmoid(b) ----
@decomposes("glu_jvp")
def glu_jvp(glu, x, dx, dim):
    b, (da, db) = x.chunk(2, dim)[1], dx.chunk(2, dim)
    s = b.sigmoid()
    return da * s + glu * (1 - s) * db


@decomposes("glu_backward_jvp")
def glu_backward_jvp(grad_x, grad, x, dgrad, dx, dim):
    (a, b), (da, db) = x.chunk(2, dim), dx.chunk(2, dim)
    s = b.sigmoid()
    slope = s * (1 - s)
    to_b = slope * (dgrad * a + grad * da + grad * a * (1 - 2 * s) * db)
    return torch.cat([dgrad * s + grad * slope * db, to_b], dim)


# ---- fused by hand ----
@decomposes("_add_relu.Tensor", "_add_relu.Scalar")
def add_relu(x, other, alpha=1):
    return torch.add(x, other, alpha=alpha).relu()


@decomposes("_weight_int8pack_mm")
def weight_int8_product(x, weight, scales):
    """x [m, k] times weight [n, k] of int8, transposed, times scales [n]."""
    return (wide(x) @ weight.to(wide(x).dtype).t() * wide(scales)).to(x.dtype)


# ---- convolutions by name: torch sends those of its own to aten::convolution ----
def _convolve(x, weight, bias, stride, padding, dilation=(1,), output_padding=None):
    n = weight.dim() - 2
    stride, padding, dilation, more = (
        list(v) * (n // len(v)) for v in (stride, padding, dilation, output_padding or [0])
    )
    single = x.dim() == n + 1
    y = torch.ops.aten.convolution(
        x.unsqueeze(0) if single else x, weight, bias, stride, padding, dilation, output_padding is not None, more, 1
    )
    return y.squeeze(0) if single else y


@decomposes("_slow_conv2d_forward", "slow_conv3d_forward")
def slow_conv(x, weight, kernel_size, bias, stride, padding):
    return _convolve(x, weight.reshape(weight.shape[0], -1, *kernel_size), bias, stride, padding)


@decomposes("slow_conv_dilated2d", "slow_conv_dilated3d")
def slow_conv_dilated(x, weight, kernel_size, bias=None, stride=(1,), padding=(0,), dilation=(1,)):
    return _convolve(x, weight, bias, stride, padding, dilation)


@decomposes("slow_conv_transpose3d")
def slow_conv_transpose(
    x, weight, kernel_size, bias=None, stride=(1,), padding=(0,), output_padding=(0,), dilation=(1,)
):
    return _convolve(x, weight, bias, stride, padding, dilation, output_padding)


# ---- batch statistics. Their schema does not say that the running ones are written, so this is a kernel, of a few
# programs ----
def _update_stats(x, running_mean, running_var, momentum):
    dims, count = [d for d in range(x.dim()) if d != 1], x.numel() // x.shape[1]
    var, mean = torch.var_mean(wide(x), dims, correction=0)
    if running_mean is not None:
        running_mean.lerp_(mean.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((var * (count / (count - 1))).to(running_var.dtype), momentum)
    return mean, var


def _assert_async(x, message="Expected Tensor with single nonzero value, but got zero"):
    """As on the CPU, which reads the value."""
    if x.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {'no values' if x.numel() == 0 else 'more than one value'} is ambiguous"
        )
    if not x.item():
        raise RuntimeError(message)


def _functional_assert(x, message, token):
    _assert_async(x, message)
    return token.clone()


_device = torch.library.Library("aten", "IMPL", "PrivateUse1")
_device.impl("batch_norm_update_stats", _update_stats)
_device.impl("_assert_async", _assert_async)
_device.impl("_assert_async.msg", _assert_async)
_device.impl("_functional_assert_async.msg", _functional_assert)


# ---- matrix products of groups, of which offs tells the ends: the experts of a mixture ----
@decomposes("_grouped_mm")
def grouped_mm(a, b, offs=None, bias=None, out_dtype=None):
    """a [m, k] by rows and b [g, k, n], a [g, m, k] and b [k, n] by columns, both of two dims by k, or both of three
    without offs.

    Each group is multiplied by all, and its part is selected: what is in other groups, infinities too, does not reach
    it."""
    if bias is not None:
        raise NotImplementedError("_grouped_mm: a bias is not supported, as on other devices")
    if offs is None:
        return torch.bmm(a, b)
    at = torch.arange(a.shape[0] if b.dim() == 3 else b.shape[1] if a.dim() == 3 else a.shape[1], device=a.device)
    starts = torch.cat([offs.new_zeros(1), offs[:-1]])
    inside = (at >= starts[:, None]) & (at < offs[:, None])
    if b.dim() == 3:
        return torch.where(inside[:, :, None], torch.matmul(a, b), 0).sum(0, dtype=a.dtype)
    if a.dim() == 3:
        return torch.where(inside[:, None, :], torch.matmul(a, b), 0).sum(0, dtype=a.dtype)
    return torch.matmul(torch.where(inside[:, None, :], a, 0), torch.where(inside[:, :, None], b, 0))
