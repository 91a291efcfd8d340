"""Random state of the device: a seed and an offset, 16 bytes. Seeding needs no plugin, so torch.manual_seed costs
nothing."""
import os

import torch

from .. import _C
from ._index import device_index


class _Generators:
    """default_generators[i], made when asked for: making one would load the plugin."""

    def __len__(self):
        return _C.device_count()

    def __getitem__(self, index):
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"device index {index} of {count}")
        return torch._C._get_privateuse1_default_generator(index % count) if hasattr(
            torch._C, "_get_privateuse1_default_generator") else _C.default_generator(index % count)


default_generators = _Generators()


def get_rng_state(device="tpu") -> torch.Tensor:
    """The state of a device's default generator: a uint8 tensor on the CPU, seed then offset, little-endian."""
    seed, offset = _C.rng_get(device_index(device))
    return torch.frombuffer(bytearray(seed.to_bytes(8, "little") + offset.to_bytes(8, "little")), dtype=torch.uint8)


def set_rng_state(new_state, device="tpu") -> None:
    """Sets the state that get_rng_state gave."""
    if new_state.dtype != torch.uint8 or new_state.device.type != "cpu":
        raise TypeError(f"expected a torch.ByteTensor, but got {new_state.type()}")
    if new_state.numel() != 16:
        raise RuntimeError(f"RNG state is wrong size: expected 16 bytes, got {new_state.numel()}")
    data = bytes(new_state.tolist())
    _C.rng_set(device_index(device), int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little"))


def get_rng_state_all() -> list:
    """The states of all devices."""
    return [get_rng_state(i) for i in range(_C.device_count())]


def set_rng_state_all(new_states) -> None:
    """Sets what get_rng_state_all gave."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed) -> None:
    """Seeds the current device."""
    _C.rng_set(_C.current_device(), int(seed) & (1 << 64) - 1, 0)


def manual_seed_all(seed) -> None:
    """Seeds all devices; torch.manual_seed calls it."""
    _C.manual_seed_all(int(seed) & (1 << 64) - 1)


def seed() -> None:
    """Seeds the current device with a number from the system."""
    manual_seed(int.from_bytes(os.urandom(8), "little"))


def seed_all() -> None:
    """Seeds all devices with one number from the system."""
    manual_seed_all(int.from_bytes(os.urandom(8), "little"))


def initial_seed() -> int:
    """The seed of the current device."""
    return _C.rng_get(_C.current_device())[0]
