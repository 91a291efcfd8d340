"""torch.tpu: what torch.cuda is for CUDA. Devices, synchronisation and properties here; memory, random state and
streams in the files of those names."""
import importlib
import re
from collections import namedtuple

import torch

from .. import _C, plugin
from .._internal.execution_mode import EagerMode, set_eager_mode
from .memory import (
    OutOfMemoryError,
    empty_cache,
    ipc_collect,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import Event, Stream, current_stream, default_stream, set_stream, stream
from ._index import device_index

__all__ = [
    name
    for name in dir()
    if not name.startswith("_") and name not in ("importlib", "re", "namedtuple", "torch", "plugin", "device_index")
]
__all__ += [
    "device_count",
    "is_available",
    "is_initialized",
    "init",
    "current_device",
    "set_device",
    "device",
    "device_of",
    "synchronize",
    "get_device_name",
    "get_device_properties",
    "get_device_capability",
    "is_bf16_supported",
    "get_amp_supported_dtype",
]

DeviceProperties = namedtuple("DeviceProperties", ["name", "total_memory", "platform", "plugin"])


def is_available() -> bool:
    """Whether a plugin is there to be the device. Loads nothing."""
    if _C.is_initialized():
        return True  # torch asks this often while it traces
    try:
        plugin.find()
    except RuntimeError:
        return False
    return True


def is_initialized() -> bool:
    """Whether the plugin has been loaded."""
    return _C.is_initialized()


def init() -> None:
    """Loads the plugin now instead of at first use."""
    _C.device_count()


_lazy_init = init


def _is_in_bad_fork() -> bool:
    return _C.in_bad_fork()


def device_count() -> int:
    """How many devices this process drives: 0 where there is no plugin."""
    return _C.device_count() if is_available() else 0


def current_device() -> int:
    """The index of this thread's device."""
    return _C.current_device()


def set_device(device) -> None:
    """Makes a device (index, string or torch.device) this thread's."""
    index = device_index(device, optional=True)
    if index >= 0:
        _C.set_device(index)


class device:
    """Context manager: this thread's device is another one inside. A negative index or None changes nothing."""

    def __init__(self, device):
        self.idx = device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0:
            self.prev_idx = _C.current_device()
            _C.set_device(self.idx)

    def __exit__(self, *exc):
        if self.idx >= 0:
            _C.set_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager: this thread's device is the one that holds obj; nothing changes for tensors elsewhere."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_tpu else -1)


def synchronize(device=None) -> None:
    """Waits for all work of a device; raises what failed in it."""
    _C.synchronize(device_index(device))


def get_device_name(device=None) -> str:
    """The device's kind as the plugin calls it: "TPU v6 lite", "cpu"."""
    return _C.device_kind(device_index(device))


def get_device_properties(device=None) -> DeviceProperties:
    """name, total_memory (bytes), platform, plugin (its path)."""
    return DeviceProperties(get_device_name(device), mem_get_info(device)[1], _C.platform(), _C.plugin_path())


def get_device_capability(device=None) -> tuple:
    """(generation, 0) of a TPU, (0, 0) of anything else."""
    match = re.search(r"TPU v?(\d+)", get_device_name(device))
    return (int(match.group(1)), 0) if match else (0, 0)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: every plugin computes bfloat16."""
    return True


def get_amp_supported_dtype() -> list:
    """The dtypes torch.autocast("tpu") takes."""
    return [torch.bfloat16, torch.float16]


def __getattr__(name):
    if name == "_initialized":  # what torch.utils.checkpoint asks before it saves the device's random state
        return _C.is_initialized()
    if name in ("distributed", "pallas"):
        return importlib.import_module(f"torch_tpu.tpu.{name}")
    raise AttributeError(f"module 'torch.tpu' has no attribute '{name}'")
