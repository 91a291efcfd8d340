"""Device memory, counted by the core: the bytes of all live buffers. Nothing is cached beyond them, so reserved equals
allocated. Counts are of the process, which drives one device."""
import os

import torch

from .. import _C
from ._index import device_index

OutOfMemoryError = torch.OutOfMemoryError


def memory_allocated(device=None) -> int:
    """Bytes of device buffers that are alive."""
    device_index(device)
    return _C.counters()["live_bytes"]


def max_memory_allocated(device=None) -> int:
    """The most bytes that were alive at once since the start or reset_peak_memory_stats."""
    device_index(device)
    return _C.counters()["peak_bytes"]


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated


def memory_stats(device=None) -> dict:
    """A dict with torch.cuda.memory_stats' keys, as far as they have a meaning here."""
    device_index(device)
    c = _C.counters()
    stats = {"allocated_bytes.all.current": c["live_bytes"], "allocated_bytes.all.peak": c["peak_bytes"],
             "reserved_bytes.all.current": c["live_bytes"], "reserved_bytes.all.peak": c["peak_bytes"],
             "active_bytes.all.current": c["live_bytes"], "active_bytes.all.peak": c["peak_bytes"],
             "allocation.all.current": c["live_buffers"], "num_alloc_retries": 0, "num_ooms": 0}
    return dict(sorted(stats.items()))


def mem_get_info(device=None) -> tuple:
    """(free, total) bytes. From the plugin; where it reports no limit, the host's memory."""
    index = device_index(device)
    limit, in_use = _C.memory(index)
    if not limit:
        limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if in_use < 0:
        in_use = _C.counters()["live_bytes"]
    return max(limit - in_use, 0), limit


def memory_summary(device=None, abbreviated=False) -> str:
    """The statistics as a table to read."""
    rows = [f"{name:<34}{value:>20,}" for name, value in memory_stats(device).items()]
    head = f"torch.tpu memory, device {device_index(device)}"
    return "\n".join([head, "=" * 54, *rows, "=" * 54])


def reset_peak_memory_stats(device=None) -> None:
    """Lets the peaks start again at what is alive now."""
    device_index(device)
    _C.reset_peak()


def reset_accumulated_memory_stats(device=None) -> None:
    """There are no accumulated statistics beyond the peaks; checks the device."""
    device_index(device)


def empty_cache() -> None:
    """Gives back what is kept for reuse: buffers of scalars."""
    if _C.is_initialized():
        _C.empty_cache()


def ipc_collect() -> None:
    """Device memory is not shared between processes: nothing to collect."""


def set_per_process_memory_fraction(fraction, device=None) -> None:
    """Lets this process use at most that part (0 to 1) of the device's memory; more raises torch.OutOfMemoryError."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _C.set_memory_limit(max(int(fraction * mem_get_info(device)[1]), 1) if fraction < 1 else 0)
