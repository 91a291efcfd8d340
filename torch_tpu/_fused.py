"""Decompositions of operators that torch sends only to devices with fused kernels: recurrent cells, and the inference
path of nn.MultiheadAttention and nn.TransformerEncoderLayer. torch's own tables leave them out.

Each function takes its operator's arguments and returns its results; all of it becomes one program."""
import math

import torch
from torch.nn import functional as F

from ._registry import decomposes


def _plus(x, bias):
    return x if bias is None else x + bias


# ---- recurrent cells ----
@decomposes("_thnn_fused_lstm_cell")
def lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    i, f, g, o = _plus(_plus(input_gates + hidden_gates, input_bias), hidden_bias).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


@decomposes("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    i, f, g, o = workspace.chunk(4, 1)
    t = cy.tanh()
    grad_o = torch.zeros_like(o) if grad_hy is None else grad_hy * t
    grad = torch.zeros_like(cy) if grad_hy is None else grad_hy * o * (1 - t * t)
    if grad_cy is not None:
        grad = grad + grad_cy
    grad_gates = torch.cat(
        [grad * g * i * (1 - i), grad * cx * f * (1 - f), grad * i * (1 - g * g), grad_o * o * (1 - o)], 1
    )
    return grad_gates, grad * f, grad_gates.sum(0) if has_bias else None


@decomposes("_thnn_fused_gru_cell")
def gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    ir, iz, inew = _plus(input_gates, input_bias).chunk(3, 1)
    hr, hz, hnew = _plus(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (inew + r * hnew).tanh()
    return n + z * (hx - n), torch.cat([r, z, n, hx, hnew], 1)


@decomposes("_thnn_fused_gru_cell_backward")
def gru_cell_backward(grad_hy, workspace, has_bias):
    r, z, n, hx, hnew = workspace.chunk(5, 1)
    grad_n = grad_hy * (1 - z) * (1 - n * n)
    grad_z = grad_hy * (hx - n) * z * (1 - z)
    grad_r = grad_n * hnew * r * (1 - r)
    grad_input = torch.cat([grad_r, grad_z, grad_n], 1)
    grad_hidden = torch.cat([grad_r, grad_z, grad_n * r], 1)
    return (
        grad_input,
        grad_hidden,
        grad_hy * z,
        grad_input.sum(0) if has_bias else None,
        grad_hidden.sum(0) if has_bias else None,
    )


# ---- attention ----
def _attention_weights(q, k, mask, mask_type):
    """Softmax of q k^T with True in mask left out. mask_type 0: [L, L]; 1: keys, [B, L]; 2: both, [B, heads, L, L]."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        mask = mask.to(torch.bool)
        if mask_type == 1:
            mask = mask[:, None, None, :]
        scores = scores.masked_fill(mask, float("-inf"))
    return scores.softmax(-1)


def _mask_of(mask, mask_type, x):
    """The mask as it broadcasts over x, [B, heads, L, L]. True leaves out."""
    torch._check(mask.dtype == torch.bool, lambda: "Mask should be a boolean tensor")
    if mask_type == 1:
        return mask.reshape(mask.shape[0], *[1] * (x.dim() - 2), mask.shape[-1])
    torch._check(
        mask_type == 0 or mask.shape == x.shape, lambda: "For mask_type == 2 mask shape should match input shape"
    )
    return mask


@decomposes("_masked_softmax")
def masked_softmax(x, mask, dim=None, mask_type=None):
    return x.masked_fill(_mask_of(mask, 2 if mask_type is None else mask_type, x), float("-inf")).softmax(
        -1 if dim is None else dim
    )


@decomposes("_masked_softmax_backward")
def masked_softmax_backward(grad, output, mask, dim=None):
    return torch._softmax_backward_data(grad, output.masked_fill(mask, 0), -1 if dim is None else dim, grad.dtype)


@decomposes("_transform_bias_rescale_qkv")
def transform_bias_rescale_qkv(qkv, bias, num_heads):
    batch, rows, width = qkv.shape
    parts = (qkv + bias).reshape(batch, rows, 3, num_heads, width // (3 * num_heads)).permute(2, 0, 3, 1, 4)
    q, k, v = parts.unbind(0)
    return (q / math.sqrt(q.shape[-1])).contiguous(), k.contiguous(), v.contiguous()


@decomposes("_native_multi_head_attention")
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
    def heads(x, part):
        rows = slice(part * embed_dim, (part + 1) * embed_dim)
        y = F.linear(x, qkv_weight[rows], qkv_bias[rows])
        return y.reshape(y.shape[0], y.shape[1], num_head, -1).transpose(1, 2)

    weights = _attention_weights(heads(query, 0), heads(key, 1), mask, mask_type)
    y = (weights @ heads(value, 2)).transpose(1, 2).reshape(query.shape[0], query.shape[1], embed_dim)
    if need_weights and average_attn_weights:
        weights = weights.mean(1)
    return F.linear(y, proj_weight, proj_bias), weights if need_weights else None


@decomposes("_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    src,
    embed_dim,
    num_heads,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    use_gelu,
    norm_first,
    eps,
    norm_weight_1,
    norm_bias_1,
    norm_weight_2,
    norm_bias_2,
    ffn_weight_1,
    ffn_bias_1,
    ffn_weight_2,
    ffn_bias_2,
    mask=None,
    mask_type=None,
):
    def attend(x):
        return multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, False, mask_type
        )[0]

    def feed_forward(x):
        h = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(h) if use_gelu else h.relu(), ffn_weight_2, ffn_bias_2)

    def norm1(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm2(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        src = src + attend(norm1(src))
        return src + feed_forward(norm2(src))
    src = norm1(src + attend(src))
    return norm2(src + feed_forward(src))
