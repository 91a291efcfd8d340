"""Ranges and windows whose kernels in torch read values, or are written for devices that torch knows.

linspace and logspace with tensors for ends: torch reads both; the operators that write to a given tensor do not. The
Kaiser window: I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1."""

import torch

_aten = torch.ops.aten
_device = torch.library.Library("aten", "IMPL", "PrivateUse1")


def _even(make, write):
    def run(start, end, steps, *base, dtype=None, layout=None, device=None, pin_memory=None):
        if device is not None and device.type != "tpu":  # where torch.linspace makes its result unless told
            start, end = [x.item() if isinstance(x, torch.Tensor) else x for x in (start, end)]
            return make(start, end, steps, *base, dtype=dtype, device=device)
        if dtype is None:
            ends = [x.dtype for x in (start, end) if isinstance(x, torch.Tensor)] + [
                torch.complex64 for x in (start, end) if isinstance(x, complex)
            ]
            dtype = torch.get_default_dtype()
            dtype = dtype.to_complex() if any(t.is_complex for t in ends) else dtype
        tensor = start if isinstance(start, torch.Tensor) and start.device.type == "tpu" else end
        out = torch.empty(0, dtype=dtype, device=tensor.device if device is None else device)
        return write(start, end, steps, *base, out=out)

    return run


for _name in ("linspace", "logspace"):
    for _kind in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor"):
        _device.impl(f"{_name}.{_kind}", _even(getattr(torch, _name), getattr(getattr(_aten, _name), f"{_kind}_out")))


def _kaiser_window(length, periodic=True, beta=12.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if length < 0 or not dtype.is_floating_point:
        torch.kaiser_window(length, periodic, beta, dtype=dtype, device="cpu")  # refuses, in torch's words
    if length < 2:
        return torch.ones(length, dtype=dtype, device=device)
    n = length + periodic
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    x = torch.arange(n, dtype=wide, device=device) * (2 / (n - 1)) - 1
    top = torch.i0(torch.full([], beta, dtype=wide, device=device))
    return (torch.i0(beta * (1 - x * x).clamp(min=0).sqrt()) / top)[:length].clone().to(dtype)


for _kind in ("", ".periodic", ".beta"):
    _device.impl(f"kaiser_window{_kind}", _kaiser_window)
