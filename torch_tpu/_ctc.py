"""ctc_loss: its lengths come as lists of numbers, which would make a program for each batch.

These kernels turn them into tensors, and targets that lie one behind the other into rows, and call the overloads that
take tensors, which have a rule. The Meta kernel checks the arguments, in torch's words."""
import torch

aten = torch.ops.aten
_kernels = torch.library.Library("aten", "IMPL", "PrivateUse1")


def _on_device(lengths, like):
    return torch.tensor(lengths, dtype=torch.int64, device="cpu").to(like.device)


def _rows(targets, lengths, on_device):
    longest = max(lengths, default=0)
    if targets.dim() == 2:
        return targets[:, :longest]
    place = torch.arange(longest, device=targets.device)
    at = (on_device.cumsum(0) - on_device)[:, None] + place
    if targets.numel() == 0:
        return at
    return targets.index_select(0, at.clamp(max=targets.numel() - 1).reshape(-1)).reshape(at.shape)


def _prepared(log_probs, targets, input_lengths, target_lengths, blank):
    meta = (log_probs.to("meta"), targets.to("meta"), input_lengths, target_lengths, blank)
    aten._ctc_loss(*meta)
    inputs, lengths = _on_device(input_lengths, log_probs), _on_device(target_lengths, log_probs)
    return _rows(targets.to(log_probs.device), target_lengths, lengths), inputs, lengths


def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    rows, inputs, lengths = _prepared(log_probs, targets, input_lengths, target_lengths, blank)
    return aten._ctc_loss.Tensor(log_probs, rows, inputs, lengths, blank, zero_infinity)


def _ctc_loss_backward(
    grad, log_probs, targets, input_lengths, target_lengths, loss, log_alpha, blank, zero_infinity=False
):
    rows, inputs, lengths = _prepared(log_probs, targets, input_lengths, target_lengths, blank)
    return aten._ctc_loss_backward.Tensor(grad, log_probs, rows, inputs, lengths, loss, log_alpha, blank, zero_infinity)


_kernels.impl("_ctc_loss", _ctc_loss)
_kernels.impl("_ctc_loss_backward", _ctc_loss_backward)
