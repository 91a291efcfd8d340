"""Tokamax's functions (https://github.com/openxla/tokamax) as torch functions, with its derivatives.

For TPUs they are its Mosaic kernels where it has one for what it is given, else, and on the CPU, XLA's form: it
chooses. Arguments are Tokamax's; activations go by name. Import this where the package tokamax is installed, or where
what is called has been stored by a process that had it (docs/kernels.md)."""
from typing import Optional

import torch

from ..pallas import jax_op

__all__ = [
    "dot_product_attention",
    "gated_linear_unit",
    "layer_norm",
    "linear_softmax_cross_entropy_loss",
    "ragged_dot",
]
ACTIVATIONS = ("swish", "gelu", "relu", "sigmoid", "tanh")


def _library():
    """The package. Its settings are absl's flags: where no program has read any they are as by default, and sys.argv,
    which is somebody else's, is not looked at."""
    import tokamax
    from absl import flags
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    return tokamax


@jax_op("tokamax::dot_product_attention")
def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: Optional[torch.Tensor],
    mask: Optional[torch.Tensor],
    scale: list[float],
    is_causal: bool,
    window: list[int],
    soft_cap: list[float],
    implementation: str,
) -> torch.Tensor:
    return _library().dot_product_attention(
        query,
        key,
        value,
        bias=bias,
        mask=mask,
        scale=scale[0] if scale else None,
        is_causal=is_causal,
        local_window_size=tuple(window) if window else None,
        logits_soft_cap=soft_cap[0] if soft_cap else None,
        implementation=implementation or None,
    )


def dot_product_attention(
    query,
    key,
    value,
    bias=None,
    mask=None,
    *,
    scale=None,
    is_causal=False,
    local_window_size=None,
    logits_soft_cap=None,
    implementation=None,
):
    """Attention of [batch, length, heads, width], with grouped queries; the result is like query. local_window_size:
    how many positions before and after are seen, one number or two."""
    window = [local_window_size] * 2 if isinstance(local_window_size, int) else list(local_window_size or [])
    given = [[] if x is None else [float(x)] for x in (scale, logits_soft_cap)]
    return _attention(query, key, value, bias, mask, given[0], is_causal, window, given[1], implementation or "")


@jax_op("tokamax::ragged_dot")
def _ragged_dot(
    lhs: torch.Tensor, rhs: torch.Tensor, group_sizes: torch.Tensor, activation: str, implementation: str
) -> torch.Tensor:
    import jax
    tokamax = _library()
    function = getattr(jax.nn, activation) if activation else None
    return tokamax.ragged_dot(lhs, rhs, group_sizes, activation=function, implementation=implementation or None)


def ragged_dot(lhs, rhs, group_sizes, *, activation=None, implementation=None):
    """[rows, k] x [groups, k, n]: the rows of a group, which follow one another, with its matrix. group_sizes: how many
    rows each has, in a tensor of integers."""
    return _ragged_dot(lhs, rhs, group_sizes.int(), _named(activation), implementation or "")


@jax_op("tokamax::gated_linear_unit")
def _gated_linear_unit(x: torch.Tensor, weights: list[torch.Tensor], activation: str) -> torch.Tensor:
    import jax
    tokamax = _library()
    given = weights[0] if len(weights) == 1 else tuple(weights)
    function = getattr(jax.nn, activation) if activation else None
    return tokamax.gated_linear_unit(x, given, activation=function, implementation="xla")  # its others are for GPUs


def gated_linear_unit(x, weights, *, activation=None):
    """activation(x @ gate) * (x @ up). weights: (gate, up), each [k, n], or both as one tensor, [k, 2, n]."""
    weights = [weights] if isinstance(weights, torch.Tensor) else list(weights)
    return _gated_linear_unit(x, weights, _named(activation))


@jax_op("tokamax::layer_norm")
def _layer_norm(
    x: torch.Tensor,
    scale: Optional[torch.Tensor],
    offset: Optional[torch.Tensor],
    axis: int,
    epsilon: float,
    scale_offset: float,
    subtract_mean: bool,
) -> torch.Tensor:
    return _library().layer_norm(
        x, scale, offset, axis=axis, epsilon=epsilon, scale_offset=scale_offset, subtract_mean=subtract_mean
    )


def layer_norm(x, scale, offset, *, axis=-1, epsilon=1e-6, scale_offset=0.0, subtract_mean=True):
    """LayerNorm along axis; RMSNorm without subtract_mean. scale, offset: of x's size there, or None."""
    return _layer_norm(x, scale, offset, axis, epsilon, scale_offset, subtract_mean)


@jax_op("tokamax::linear_softmax_cross_entropy_loss")
def _loss(
    x: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, reduction: str, implementation: str
) -> torch.Tensor:
    from jax.extend import backend
    tokamax = _library()

    def loss(which):
        return tokamax.linear_softmax_cross_entropy_loss(x, labels, weights, reduction=reduction, implementation=which)

    if implementation or backend.get_default_device().platform != "tpu":
        return loss(implementation or None)
    try:  # which Tokamax by itself tries last
        return loss("mosaic_tpu")
    except NotImplementedError:
        return loss("xla")


def linear_softmax_cross_entropy_loss(x, labels, weights, *, reduction="sum", implementation=None):
    """The cross entropy of softmax(x @ weights), x: [rows, k], weights: [k, classes], summed over rows or their mean.
    On a TPU no logits are kept."""
    return _loss(x, labels.int(), weights, reduction, implementation or "")


def _named(activation):
    if activation is not None and activation not in ACTIVATIONS:
        raise ValueError(f"expected an activation of {', '.join(ACTIVATIONS)}, or None, got {activation!r}")
    return activation or ""
