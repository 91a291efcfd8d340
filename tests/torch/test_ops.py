"""Operators against the CPU, on op_db's own samples: values, dtypes, shapes and strides; and gradients.

Nothing here may raise where the CPU does not. Those in RANDOM are compared by shape and dtype only."""
import functools
import os
import warnings

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

NAMES = """abs acos add addbmm addcdiv addcmul addmm addmv addr all allclose amax amin aminmax angle any arange argmax argmin argsort
as_strided as_strided_scatter asin atan atan2 atleast_2d baddbmm bernoulli bincount bitwise_and bitwise_not bitwise_left_shift block_diag bmm
broadcast_to bucketize cat cdist ceil chunk clamp clamp_max clamp_min clone column_stack combinations complex conj constant_pad_nd contiguous copysign corrcoef cos
count_nonzero cov cross cummax cummin cumprod cumsum cumulative_trapezoid deg2rad diag diag_embed diagonal diagonal_scatter diff digamma dist div dot
dsplit einsum empty_like eq equal erf erfc erfinv exp exp2 expand expm1 eye fft.fft fft.rfft fft.irfft fill flatten flip fliplr float_power floor floor_divide
fmax fmin fmod frac frexp full_like gather gcd ge gradient gt heaviside histc hstack hypot i0 igamma index_add index_copy index_fill index_put
index_reduce index_select inner isclose isfinite isin isinf isnan kron kthvalue lcm ldexp le lerp lgamma linalg.cholesky linalg.det
linalg.inv linalg.norm linalg.qr linalg.solve linalg.solve_triangular linalg.svd linalg.vector_norm linalg.matrix_norm linalg.multi_dot linspace log log10 log1p log2 log_softmax logaddexp
logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor logit logspace logsumexp lt masked_fill masked_scatter masked_select matmul
matrix_exp max maximum mean median meshgrid min minimum mm mode movedim msort mul multinomial mv mvlgamma nan_to_num nanmean nanmedian
nanquantile nansum narrow native_layer_norm ne neg new_full new_zeros nonzero norm normal ones_like outer permute polar polygamma positive pow prod put quantile
rad2deg rand_like randint randn_like ravel reciprocal remainder renorm repeat repeat_interleave reshape resize_ roll rot90 round rsqrt rsub scatter scatter_add
scatter_reduce searchsorted select select_scatter sgn sigmoid sign signbit sin sinc sinh slice slice_scatter softmax sort special.entr special.erfcx special.i1
special.log_ndtr special.ndtr special.ndtri special.xlog1py special.zeta split split_with_sizes sqrt square squeeze stack std std_mean sub sum t take take_along_dim tan tanh
tensor_split tensordot tile to topk trace transpose trapezoid tril tril_indices triu true_divide trunc unbind unflatten unfold uniform unique unique_consecutive
unsqueeze var var_mean vdot view view_as_complex view_as_real vsplit vstack where xlogy zero_ zeros_like
nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d nn.functional.adaptive_max_pool2d nn.functional.avg_pool1d nn.functional.avg_pool2d
nn.functional.batch_norm nn.functional.bilinear nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.celu
nn.functional.channel_shuffle nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose2d nn.functional.cosine_similarity
nn.functional.cross_entropy nn.functional.ctc_loss nn.functional.dropout nn.functional.elu nn.functional.embedding nn.functional.embedding_bag
nn.functional.gelu nn.functional.glu nn.functional.grid_sample nn.functional.group_norm nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh
nn.functional.hinge_embedding_loss nn.functional.huber_loss nn.functional.instance_norm nn.functional.interpolate nn.functional.kl_div nn.functional.l1_loss
nn.functional.layer_norm nn.functional.leaky_relu nn.functional.linear nn.functional.local_response_norm nn.functional.logsigmoid nn.functional.margin_ranking_loss
nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.mish nn.functional.mse_loss nn.functional.multi_margin_loss nn.functional.nll_loss
nn.functional.normalize nn.functional.one_hot nn.functional.pad nn.functional.pairwise_distance nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.poisson_nll_loss
nn.functional.prelu nn.functional.relu nn.functional.relu6 nn.functional.rms_norm nn.functional.rrelu nn.functional.scaled_dot_product_attention nn.functional.selu
nn.functional.silu nn.functional.smooth_l1_loss nn.functional.softmin nn.functional.softplus nn.functional.softshrink nn.functional.softsign nn.functional.tanhshrink
nn.functional.threshold nn.functional.triplet_margin_loss nn.functional.unfold nn.functional.upsample_nearest""".split()
RANDOM = {
    "bernoulli",
    "multinomial",
    "normal",
    "rand_like",
    "randint",
    "randn_like",
    "uniform",
    "nn.functional.dropout",
    "nn.functional.rrelu",
    "empty_like",
    "resize_",
    "nn.functional.scaled_dot_product_attention",
}
FREE = {"linalg.qr", "linalg.svd"}  # signs of the factors are free: the product is compared in test_linalg below
SAMPLES = int(os.environ.get("TORCH_TPU_TEST_SAMPLES", "3"))
# which of equal elements is told is free: values are compared
TIES = {"kthvalue", "topk", "mode", "median", "nanmedian"}
LOOSE = {"logcumsumexp": 1e-2}  # gradients beside elements of 1e4 have no more digits in float32, on the CPU either
HOST = {"tensor_split"}  # torch wants its index tensor on the CPU
OPS = {op.full_name: op for op in op_db if op.name in NAMES  # full_name: with the variant, "div.trunc_rounding"
       and op.full_name != "as_strided.partial_views"}  # its samples read beyond what the copy to the device holds
MISSING = set(NAMES) - {op.name for op in OPS.values()}
warnings.filterwarnings("ignore")


def samples(op, dtype, grad):
    """A spread of SAMPLES of the operator's samples, on the CPU."""
    torch.manual_seed(0)
    all_ = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    return all_[:: max(1, len(all_) // SAMPLES)][:SAMPLES]


def move(x, device):
    if isinstance(x, torch.Tensor):
        y = x.detach().to(device, copy=True)
        return y.requires_grad_() if x.requires_grad else y
    if isinstance(x, (list, tuple)):
        return (
            type(x)(move(v, device) for v in x) if not hasattr(x, "_fields") else type(x)(*(move(v, device) for v in x))
        )
    if isinstance(x, dict):
        return {k: move(v, device) for k, v in x.items()}
    if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
        return torch.device(device)
    return x


def tensors(x):
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, (list, tuple)):
        return [t for v in x for t in tensors(v)]
    return []


def compare(got, want, op, where):
    assert len(got) == len(want), where
    for g, w in zip(got, want):
        assert (g.dtype, g.shape) == (
            w.dtype,
            w.shape,
        ), f"{where}: {g.dtype} {tuple(g.shape)}, CPU {w.dtype} {tuple(w.shape)}"
        if op.name in RANDOM or op.name in FREE or (op.name in TIES and w is not want[0]):
            continue
        tolerance = {torch.float32: 2e-4, torch.complex64: 2e-4}.get(w.dtype)
        tolerance = LOOSE.get(op.name, tolerance)
        torch.testing.assert_close(
            g.cpu().resolve_conj().resolve_neg(),
            w,
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
            msg=lambda m: f"{where}: {m}",
        )


@functools.lru_cache(None)
def dtypes(name):
    op = OPS[name]
    return [d for d in (torch.float32, torch.int64, torch.bool) if d in op.supported_dtypes("cpu")][:2]


def test_names_are_known():
    assert not MISSING


@pytest.mark.parametrize("name", OPS)
def test_forward(dev, name):
    op = OPS[name]
    for dtype in dtypes(name):
        for i, s in enumerate(samples(op, dtype, False)):
            where = f"{name} sample {i} {dtype}"
            args = [s.input, list(s.args), s.kwargs]
            torch.manual_seed(0)
            a = move(args, "cpu")
            want = op(a[0], *a[1], **a[2])
            b = move(args, dev) if op.name not in HOST else [move(s.input, dev), *move(args[1:], "cpu")]
            got = op(b[0], *b[1], **b[2])
            compare(tensors(got), tensors(want), op, where)
            if not tensors(want):
                assert got == want, where
            if op.name != "resize_" and op.name not in RANDOM | TIES:
                compare(tensors(b), tensors(a), op, where + " (inputs after)")


GRADIENTS = [n for n, op in OPS.items() if op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cpu")
             and op.name not in RANDOM and op.name not in FREE]


@pytest.mark.parametrize("name", GRADIENTS)
def test_backward(dev, name):
    op = OPS[name]
    for i, s in enumerate(samples(op, torch.float32, True)[:2]):
        results = []
        for device in ("cpu", dev):
            a = [move(s.input, device), *move([list(s.args), s.kwargs], device if op.name not in HOST else "cpu")]
            y = op(a[0], *a[1], **a[2])
            y = s.output_process_fn_grad(y) if s.output_process_fn_grad else y
            ys = [t for t in tensors(y) if t.requires_grad]
            xs = [t for t in tensors(list(a[:2]) + list(a[2].values())) if t.requires_grad]
            if not ys or not xs:
                break
            torch.manual_seed(1)
            weights = [torch.randn(t.shape, dtype=t.dtype).to(device) for t in ys]
            grads = torch.autograd.grad(ys, xs, weights, allow_unused=True)
            results.append([torch.zeros(()) if g is None else g for g in grads])
        if len(results) == 2:
            compare(results[1], results[0], op, f"{name} gradient, sample {i}")


def test_factorisations_multiply_back(dev):
    a = torch.randn(5, 3).to(dev)
    q, r = torch.linalg.qr(a)
    torch.testing.assert_close(q @ r, a)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    torch.testing.assert_close(u @ torch.diag(s) @ vh, a, rtol=1e-4, atol=1e-4)
    h = a.t() @ a
    w, v = torch.linalg.eigh(h)
    torch.testing.assert_close(v @ torch.diag(w) @ v.t(), h, rtol=1e-4, atol=1e-4)
