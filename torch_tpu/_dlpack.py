"""DLPack: torch exports a tpu tensor as a capsule by itself, but its __dlpack_device__ knows custom devices by the name
"privateuse1" only, and from_dlpack asks it. Addresses in a capsule are this package's own: only torch on tpu can import
it."""
import torch

_device = torch.Tensor.__dlpack_device__
_EXTENSION = 12  # kDLExtDev of dlpack.h


def __dlpack_device__(self):
    if isinstance(self, torch.Tensor) and self.device.type == "tpu":
        return torch.utils.dlpack.DLDeviceType(_EXTENSION), self.device.index or 0
    return _device(self)


torch.Tensor.__dlpack_device__ = __dlpack_device__
