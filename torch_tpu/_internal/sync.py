"""Waiting for the device."""
import torch

from .. import _C


def synchronize(tensors=None, wait=True) -> None:
    """Submits what has been put off, and with wait returns when it is done: for a tensor, or a sequence of them, the
    work of their devices; else that of the current one. What failed in it raises."""
    if not wait:
        return _C.flush()
    if tensors is None:
        devices = {_C.current_device()}
    else:
        devices = {
            t.device.index
            for t in ([tensors] if isinstance(tensors, torch.Tensor) else tensors)
            if t.device.type == "tpu"
        }
    for device in devices:
        _C.synchronize(device)
