"""Copies a case's CPU tensors to one device, once each, with the memory they view.

Tensors that share a storage share one on the device as well, with the same sizes, strides and offsets. With wide=True
floating tensors become float64 (complex128): the reference that says how far off the CPU itself is."""
import torch
from torch.utils import _pytree as pytree

from . import captured

WIDE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
        torch.complex32: torch.complex128, torch.complex64: torch.complex128}


class Place:
    def __init__(self, device, wide=False, backend=None):
        self.device, self.wide, self.backend = torch.device(device), wide, backend
        # of the original -> (original, its copy): the original is held, so that no address comes twice
        self._storages = {}
        self._tensors = {}

    def function(self, fn):
        """fn as it is called here: compiled by the backend, if there is one."""
        return captured.function(fn, self.backend) if self.backend else fn

    def dtype(self, dtype):
        return WIDE.get(dtype, dtype) if self.wide else dtype

    def _send(self, t):
        return t.detach().to(device=self.device, dtype=self.dtype(t.dtype), copy=True)

    def _strided(self, t):
        """The copy of a plain strided tensor."""
        count, rest = divmod(t.untyped_storage().nbytes(), t.element_size())
        if rest or not count:
            return self._send(t)
        whole = t.is_contiguous() and t.numel() == count
        key = (t.untyped_storage().data_ptr(), t.dtype)
        if key not in self._storages:
            base = t if whole else torch.empty(0, dtype=t.dtype).set_(t.untyped_storage(), 0, (count,), (1,))
            self._storages[key] = t, self._send(base)
        copy = self._storages[key][1]
        if whole and copy.shape == t.shape:
            return copy.detach()
        return copy.as_strided(t.shape, t.stride(), t.storage_offset())

    def tensor(self, t):
        if id(t) not in self._tensors:
            plain = (
                t.layout is torch.strided
                and not (t.is_nested or t.is_quantized or t.is_conj() or t.is_neg())
                and t.numel()
            )
            copy = self._strided(t.detach()) if plain else self._send(t)
            self._tensors[id(t)] = t, copy.requires_grad_() if t.requires_grad else copy
        return self._tensors[id(t)][1]

    def __call__(self, tree):
        """The tree with its tensors, generators and mentions of the CPU replaced by the device's."""

        def one(x):
            if isinstance(x, torch.Tensor):
                return self.tensor(x)
            if isinstance(x, torch.Generator):
                return torch.Generator(self.device).manual_seed(0)
            if isinstance(x, torch.device) and x.type == "cpu" or isinstance(x, str) and x == "cpu":
                return self.device
            if isinstance(x, torch.dtype):
                return self.dtype(x)
            return x

        return pytree.tree_map(one, tree)

    def pairs(self):
        """(original, copy) of every tensor sent."""
        return list(self._tensors.values())

    def storages(self):
        """The addresses of what the copies view."""
        return {copy.untyped_storage().data_ptr() for _, copy in self._tensors.values()
                if copy.layout is torch.strided and not copy.is_nested}
