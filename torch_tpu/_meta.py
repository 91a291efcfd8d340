"""What operators return, as the CPU says it: sizes, strides, dtypes and refusals, where torch's Meta kernels say
something else or do not exist (_registry.answers)."""
import torch

from ._embedding import embedding_bag
from ._registry import WORDS, _answers_out, answers, overload


# ---- Fourier transforms: what is transformed lies innermost, and the rest in the order of its strides ----
def _strided(x, dims, sizes, dtype):
    batch = sorted((d for d in range(x.dim()) if d not in dims), key=x.stride, reverse=True)
    strides, step = [0] * x.dim(), 1
    for d in reversed([*batch, *dims]):
        strides[d] = step
        step *= sizes[d]
    return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")


def _by_stride(x, dims):
    return sorted(dims, key=x.stride, reverse=True)


@answers("_fft_c2c")
def fft_c2c(self, dim, normalization, forward):
    torch._check(self.is_complex())
    return _strided(self, _by_stride(self, dim), self.shape, self.dtype) if dim else self.clone()


@answers("_fft_r2c")
def fft_r2c(self, dim, normalization, onesided):
    torch._check(self.is_floating_point())
    sizes = list(self.shape)
    if onesided:
        sizes[dim[-1]] = sizes[dim[-1]] // 2 + 1
    return _strided(self, [*_by_stride(self, dim[:-1]), dim[-1]], sizes, self.dtype.to_complex())


@answers("_fft_c2r")
def fft_c2r(self, dim, normalization, last_dim_size):
    torch._check(self.is_complex())
    if len(dim) > 1:
        self = fft_c2c(self, dim[:-1], normalization, False)
    sizes = list(self.shape)
    sizes[dim[-1]] = last_dim_size
    return _strided(self, dim[-1:], sizes, self.dtype.to_real())


# ---- copies that keep the order of their dims ----
@answers("flip")
def flip(self, dims):
    like = torch.ops.aten.flip(self, dims)
    dense = torch._prims_common.is_non_overlapping_and_dense_or_false(self)
    return torch.empty_strided(self.shape, self.stride(), dtype=self.dtype, device="meta") if dense else like


# ---- embedding_bag: what it saves for its gradient is its own affair, and each device's own ----
answers("_embedding_bag")(embedding_bag)
answers("_embedding_bag_forward_only")(embedding_bag)


# ---- saved statistics: the input's dtype, but float32 beside parameters of another dtype (torch's "mixed" types) ----
def _statistics(name, parameters):
    op = overload(name)

    def meta(*args):
        result = list(op(*args))
        given = next((a.dtype for a in args[parameters] if a is not None), args[0].dtype)
        dtype = args[0].dtype if given == args[0].dtype else torch.float32
        result[1:3] = [r.to(dtype) for r in result[1:3]]
        return tuple(result)

    answers(name)(meta)


_statistics("native_layer_norm", slice(2, 4))
_statistics("native_batch_norm", slice(1, 5))
_statistics("_batch_norm_with_update", slice(1, 5))
_statistics("_native_batch_norm_legit", slice(1, 5))
_statistics("_native_batch_norm_legit.no_stats", slice(1, 3))


# ---- torch's own wants biases of a recurrent cell ----
@answers("_thnn_fused_lstm_cell")
def lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    torch._check(input_gates.shape == hidden_gates.shape, lambda: f"{input_gates.shape} != {hidden_gates.shape}")
    like = {"memory_format": torch.contiguous_format}
    return torch.empty_like(cx, **like), torch.empty_like(cx, **like), torch.empty_like(input_gates, **like)


# ---- linear algebra: columns are contiguous, as LAPACK wants ----
def _by_columns(x):
    return torch.empty_like(x.mT, memory_format=torch.contiguous_format).mT


@answers("linalg_eig")
def linalg_eig(self):
    values, vectors = torch.ops.aten.linalg_eig(self)
    return values, _by_columns(vectors)


@answers("_linalg_svd")
def linalg_svd(A, full_matrices=False, compute_uv=True, *, driver=None):
    torch._check(
        driver is None,
        lambda: "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.",
    )
    u, s, vh = torch.ops.aten._linalg_svd(A, full_matrices, compute_uv)
    return u, s, _by_columns(vh) if compute_uv else vh


@answers("geqrf")
def geqrf(a):
    if a.dim() < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    *batch, rows, columns = a.shape
    packed = a.new_empty([*batch, columns, rows]).mT
    return packed, a.new_empty([*batch, min(rows, columns)])


@answers("geqrf.a")
def geqrf_out(x, *, a, tau):
    for out, value in zip((a, tau), geqrf(x)):
        if out.numel() == 0:
            out.set_(value)
        elif out.shape != value.shape:
            out.resize_(value.shape)
    return a, tau


# ---- attention, losses: what torch's Meta kernels get wrong ----
@answers("_native_multi_head_attention")
def multi_head_attention(
    query,
    key,
    value,
    embed_dim,
    num_head,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    mask=None,
    need_weights=True,
    average_attn_weights=True,
    mask_type=None,
):
    """Weights that nobody asked for are no tensor, where torch's own has an empty one."""
    batch, rows, _ = query.shape
    shape = (batch, rows, rows) if average_attn_weights else (batch, num_head, rows, rows)
    return query.new_empty(batch, rows, proj_weight.shape[0]), query.new_empty(shape) if need_weights else None


# The loss of one vector is a number, where torch's own have one element.
@answers("multi_margin_loss")
def multi_margin_loss(self, target, p=1, margin=1, weight=None, reduction=1):
    return self.new_empty(target.shape if reduction == 0 else ())


@answers("multilabel_margin_loss_forward")
def multilabel_margin_loss(self, target, reduction):
    return self.new_empty(self.shape[:-1] if reduction == 0 else ()), torch.empty_like(target, dtype=self.dtype)


# ---- torch has none of these, since it reads the lengths; here targets are rows ----
@answers("_ctc_loss.Tensor")
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    time, batch, _ = log_probs.shape
    return log_probs.new_empty(batch), log_probs.new_empty(batch, time, 2 * targets.shape[-1] + 1)


@answers("_ctc_loss_backward.Tensor")
def ctc_loss_backward(grad, log_probs, *others):
    return torch.empty_like(log_probs, memory_format=torch.contiguous_format)


# ---- operators that torch has no Meta kernel for ----
@answers("binomial")
def binomial(count, prob, generator=None):
    torch._check_value(
        count.is_floating_point(), lambda: f"binomial only supports floating-point dtypes for count, got: {count.dtype}"
    )
    torch._check_value(
        prob.is_floating_point(), lambda: f"binomial only supports floating-point dtypes for prob, got: {prob.dtype}"
    )
    return count.new_empty(torch.broadcast_shapes(count.shape, prob.shape))


# ---- convolutions: channels stay last where the CPU's kernels keep them there ----
def _convolution_format(x, weight, stride, dilation, transposed, output_padding, groups):
    """Of the result and of both gradients. Volumes have a kernel for channels last in oneDNN only, which takes no
    doubles, and floats where torch thinks that it pays."""
    if x.dim() not in (4, 5):
        return torch.contiguous_format
    if x.dim() == 5 and x.dtype not in (torch.bfloat16, torch.float16):
        steps = (
            max(*stride, *dilation) > 1 or x.shape[0] >= 16 or max(weight.shape[-2:]) > 3 or torch.get_num_threads() > 1
        )
        large = groups > 1 or min(weight.shape[-2:]) > 3 or x.shape[0] > 1 or x[0, ..., 0].numel() > 20480
        spread = transposed and any(o >= s for o, s in zip(output_padding, stride))
        if x.dtype != torch.float32 or spread or not (steps and large):
            return torch.contiguous_format
    last = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
    formats = [torch._prims_common.suggest_memory_format(t) for t in (x, weight)]
    return last if last in formats else torch.contiguous_format


@answers("convolution")
def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    y = torch.ops.aten.convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    return torch.empty_like(
        y, memory_format=_convolution_format(x, weight, stride, dilation, transposed, output_padding, groups)
    )


@answers("convolution_backward")
def convolution_backward(
    grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
):
    like = {"memory_format": _convolution_format(x, weight, stride, dilation, transposed, output_padding, groups)}
    return (
        torch.empty_like(x, **like) if output_mask[0] else None,
        torch.empty_like(weight, **like) if output_mask[1] else None,
        grad.new_empty(weight.shape[1] * groups if transposed else weight.shape[0]) if output_mask[2] else None,
    )


# ---- out= tensors that grow take the strides of a new result ----
def _restrides(*names):
    for name in names:
        form, base = overload(name), name.partition(".")[0]
        functional = getattr(torch.ops.torch_tpu if base in _OWN else torch.ops.aten, base)
        _restride(form, functional, [a.name for a in form._schema.arguments if a.is_out])


def _restride(form, functional, names):
    def meta(*args, **options):
        outs = [options[n] for n in names]
        before = [o.shape for o in outs]
        result = form(*args, **options)
        likes = functional(*args, **{k: v for k, v in options.items() if k not in names})
        for out, shape, like in zip(outs, before, likes if isinstance(likes, tuple) else (likes,)):
            if out.shape != shape:
                out.as_strided_(like.shape, like.stride())
        return result

    answers(form.name().removeprefix("aten::"))(meta)


_OWN = {"linalg_eig"}  # whose functional forms are answered above
_restrides(
    "cat.out",
    "cholesky_inverse.out",
    "ormqr.out",
    "triangular_solve.X",
    "conj_physical.out",
    "linalg_eig.out",
    "_linalg_eigh.eigenvalues",
    "linalg_householder_product.out",
    "linalg_ldl_factor_ex.out",
    "linalg_ldl_solve.out",
    "linalg_qr.out",
    "linalg_lu_factor_ex.out",
    "linalg_lu_solve.out",
)
_answers_out(overload("_native_batch_norm_legit.out"), torch.ops.torch_tpu._native_batch_norm_legit)
_answers_out(overload("_native_batch_norm_legit.no_stats_out"), torch.ops.torch_tpu._native_batch_norm_legit.no_stats)


# ---- channels stay last ----
@answers("max_unpool2d")
def max_unpool2d(self, indices, output_size):
    y = torch.ops.aten.max_unpool2d(self, indices, output_size)
    return torch.empty_like(y, memory_format=torch._prims_common.suggest_memory_format(self))


@answers("native_group_norm_backward")
def group_norm_backward(grad, x, *others):
    to_x, *rest = torch.ops.aten.native_group_norm_backward(grad, x, *others)
    return (
        None if to_x is None else torch.empty_like(to_x, memory_format=torch._prims_common.suggest_memory_format(x)),
        *rest,
    )


# ---- what torch's own let pass ----
def _also_checks(name, check):
    op = overload(name)

    def meta(*args):
        check(*args)
        return op(*args)

    answers(name)(meta)


def _check_range(quant_min, quant_max):
    # the CPU's spaces
    torch._check(quant_min <= quant_max, lambda: "`quant_min` should be less than or         equal to `quant_max`.")


def _check_per_tensor(x, scale, zero_point, quant_min, quant_max):
    _check_range(quant_min, quant_max)
    torch._check(
        quant_min <= zero_point <= quant_max, lambda: "`zero_point` must be between `quant_min` and `quant_max`."
    )


def _check_per_channel(x, scale, zero_point, axis, quant_min, quant_max):
    torch._check(scale.shape == zero_point.shape, lambda: "scale and zero-point need to have the same dimensions")
    _check_range(quant_min, quant_max)


def _check_grid(x, grid, *options):
    for d, n in enumerate(x.shape[2:], 2):
        torch._check(
            n > 0,
            lambda: "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(x.shape)} with dimension {d} being empty",
        )
    torch._check(
        x.dtype == grid.dtype, lambda: f"expected scalar type {WORDS.get(x.dtype)} but found {WORDS.get(grid.dtype)}"
    )


_also_checks("fake_quantize_per_tensor_affine_cachemask", _check_per_tensor)
_also_checks("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", lambda *args: _check_range(*args[4:]))
_also_checks("fake_quantize_per_channel_affine_cachemask", _check_per_channel)
_also_checks("grid_sampler_2d", _check_grid)
_also_checks("grid_sampler_3d", _check_grid)
