"""Device memory, counted by the core: the bytes of all live buffers. Nothing is cached beyond them, so reserved equals
allocated. Memory that a program takes over for its result, as in-place operators do, counts once."""
import os
import re

import torch

from .. import _C
from ._index import device_index

OutOfMemoryError = torch.OutOfMemoryError


def memory_allocated(device=None) -> int:
    """Bytes of device buffers that are alive."""
    return _C.memory_stats(device_index(device))["live_bytes"]


def max_memory_allocated(device=None) -> int:
    """The most bytes that were alive at once since the start or reset_peak_memory_stats, with what programs took while
    they ran."""
    return _C.memory_stats(device_index(device))["peak_bytes"]


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated


def memory_stats(device=None) -> dict:
    """A dict with torch.cuda.memory_stats' keys, as far as they have a meaning here."""
    c = _C.memory_stats(device_index(device))
    stats = {"num_alloc_retries": c["retries"], "num_ooms": c["refusals"]}
    for kind in ("allocated", "reserved", "active", "requested"):
        stats |= {
            f"{kind}_bytes.all.current": c["live_bytes"],
            f"{kind}_bytes.all.peak": c["peak_bytes"],
            f"{kind}_bytes.all.allocated": c["made_bytes"],
            f"{kind}_bytes.all.freed": c["made_bytes"] - c["live_bytes"],
        }
    stats |= {"allocation.all.current": c["live_buffers"], "allocation.all.allocated": c["made_buffers"],
              "allocation.all.freed": c["made_buffers"] - c["live_buffers"]}
    return dict(sorted(stats.items()))


def memory_snapshot(device=None) -> list:
    """What is alive on a device (None: on all of them), in the form of torch.cuda.memory_snapshot: a segment for each
    storage, with one block. A block also has dtype, shape and, where an operator made it, operator; with
    TORCH_TPU_TRACE_STACKS=1 frames holds its line."""
    segments = []
    for index in range(_C.device_count()) if device is None else [device_index(device)]:
        for address, size, dtype, shape, made in _C.memory_holders(index):
            operator, _, line = (made or "").partition(" at ")
            match = re.fullmatch(r"(.*):(\d+) in (.*)", line)
            frames = [{"filename": match[1], "line": int(match[2]), "name": match[3]}] if match else []
            block = {
                "address": address,
                "size": size,
                "requested_size": size,
                "state": "active_allocated",
                "frames": frames,
                "dtype": dtype,
                "shape": shape,
                "operator": operator or None,
            }
            segments.append(
                {
                    "device": index,
                    "address": address,
                    "total_size": size,
                    "allocated_size": size,
                    "active_size": size,
                    "requested_size": size,
                    "stream": 0,
                    "segment_type": "small" if size < 1 << 20 else "large",
                    "segment_pool_id": (0, 0),
                    "is_expandable": False,
                    "frames": frames,
                    "blocks": [block],
                }
            )
    return sorted(segments, key=lambda s: (s["device"], s["address"]))


def mem_get_info(device=None) -> tuple:
    """(free, total) bytes. From the plugin; where it reports no limit, the host's memory."""
    index = device_index(device)
    limit, in_use = _C.memory(index)
    if not limit:
        limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if in_use < 0:
        in_use = _C.memory_stats(index)["live_bytes"]
    return max(limit - in_use, 0), limit


def memory_summary(device=None, abbreviated=False) -> str:
    """The statistics as a table to read."""
    index = device_index(device)
    rows = [f"{name:<38}{value:>20,}" for name, value in memory_stats(index).items()]
    if not abbreviated:
        rows.append("largest:")
        rows += [
            f"{size:>16,} bytes {dtype}{list(shape)} {made or ''}".rstrip()
            for _, size, dtype, shape, made in _C.memory_holders(index)[:10]
        ]
    return "\n".join([f"torch.tpu memory, device {index}", "=" * 58, *rows, "=" * 58])


def reset_peak_memory_stats(device=None) -> None:
    """Lets the peaks start again at what is alive now."""
    _C.reset_peak(device_index(device))


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
    index = device_index(device)
    _C.set_memory_limit(index, max(int(fraction * mem_get_info(index)[1]), 1) if fraction < 1 else 0)
