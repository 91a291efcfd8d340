"""What nn.TransformerEncoder makes of a padded batch in evaluation: on the CPU a nested tensor of the strided layout,
which tpu tensors do not have. Here it is the batch as it is and which places are padding: layers leave those out as
keys, and what stands there becomes zeros at the end, as on the CPU. What layers do takes it; everything else
refuses."""
import torch

from ._registry import WORDS

_device = torch.library.Library("aten", "IMPL", "PrivateUse1")


class PaddedBatch(torch.Tensor):
    """values [batch, places, features], of which padding [batch, places] says what does not count."""

    # has_torch_function would send layers off their fast path
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values, padding):
        batch = torch.Tensor._make_wrapper_subclass(
            cls, values.shape, strides=values.stride(), dtype=values.dtype, device=values.device
        )
        batch.values_, batch.padding = values, padding
        return batch

    def __repr__(self):
        return f"PaddedBatch({list(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        one = next(x for x in (*args, *(kwargs or {}).values()) if isinstance(x, cls))
        plain = [x.values_ if isinstance(x, cls) else x for x in args]
        name = op.overloadpacket.__name__
        if name == "to_padded_tensor":
            return one.values_.masked_fill(one.padding.unsqueeze(-1), args[1])
        if name == "_transformer_encoder_layer_fwd" and args[0] is one:
            return cls(op(*plain[:18], mask=one.padding, mask_type=1), one.padding)
        if name == "_native_multi_head_attention" and all(isinstance(x, cls) for x in args[:3]):
            more = {**dict(zip(("mask", "need_weights", "average_attn_weights"), plain[9:])), **(kwargs or {})}
            out, weights = op(*plain[:9], **{**more, "mask": one.padding, "mask_type": 1})
            return cls(out, one.padding), weights
        if name in ROW_BY_ROW and not kwargs:
            result = op(*plain)
            first, *rest = result if isinstance(result, tuple) else (result,)
            rows = one.padding.shape
            if first.shape[:2] == rows or first.dim() == 2 and first.shape[0] == rows.numel():
                first = cls(first, one.padding)
                return (first, *rest) if rest else first
        raise NotImplementedError(
            f"{op} of a batch with padding: nn.TransformerEncoder makes one of src_key_padding_mask in evaluation, and on tpu "
            "only what its layers do takes it (enable_nested_tensor=False turns it off)"
        )


# What layers do where hooks keep them off the one operator: row by row, and views that keep rows together.
ROW_BY_ROW = {"add", "addmm", "gelu", "native_layer_norm", "relu", "view", "_unsafe_view"}


def _check(values, mask):
    torch._check(
        mask.dtype == torch.bool,
        lambda: f"Expected mask to be of ScalarType Bool, but got {WORDS.get(mask.dtype, mask.dtype)} instead.",
    )
    torch._check(mask.dim() == 2, lambda: "Padding mask should be 2D")
    torch._check(values.dim() == 3, lambda: "Input should be a 3D tensor, N * L * D")
    torch._check(values.shape[:2] == mask.shape, lambda: "Mask size should match input size")


def left_aligned(values, mask):
    """Whether what counts (True in mask) comes first in each row."""
    _check(values, mask)
    place = torch.arange(mask.shape[1], device=mask.device)
    return bool((mask == (place < mask.sum(1, keepdim=True))).all())


def from_mask(values, mask, mask_check=True):
    torch._check(not mask_check or left_aligned(values, mask), lambda: "Mask must be left-aligned without gaps")
    return PaddedBatch(values, ~mask)


_device.impl("_nested_tensor_from_mask_left_aligned", left_aligned)
_device.impl("_nested_tensor_from_mask", from_mask)
