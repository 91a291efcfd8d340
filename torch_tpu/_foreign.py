"""The schema of the row torch_tpu::foreign, which calls a kernel registered as StableHLO text (kernels/op.py). Only
traced programs hold it."""
import torch

RESULTS = {}  # key -> [(dtype, shape)] of what it returns

_library = torch.library.Library("torch_tpu", "FRAGMENT")
_library.define("foreign(Tensor[] args, str key) -> Tensor[]")


def _meta(args, key):
    return [torch.empty(shape, dtype=dtype, device="meta") for dtype, shape in RESULTS[key]]


_library.impl("foreign", _meta, "Meta")
