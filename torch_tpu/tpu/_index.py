"""How torch.tpu functions read a device argument."""
import torch

from .. import _C


def device_index(device, optional=False) -> int:
    """An index from None (the current device), an int, a string or a torch.device. With optional, None gives -1."""
    if device is None:
        return -1 if optional else _C.current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "tpu":
        raise ValueError(f"Expected a tpu device, but got: {device}")
    return _C.current_device() if device.index is None else device.index
