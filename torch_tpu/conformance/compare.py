"""When do a device's results agree with the CPU's? Values, dtype, shape, device, layout, and what is a view of what.

Values agree within a tolerance of the dtype, or else when they are as close to a float64 run as the CPU's own are:
neither the CPU nor the device is right where both have lost their digits. Strides of new tensors are counted, not
judged: nothing computes a wrong number from them."""
import re

import torch
from torch.utils import _pytree as pytree

TOLERANCE = {
    torch.float64: (1e-6, 1e-7),
    torch.complex128: (1e-6, 1e-7),
    torch.float32: (1e-4, 1e-5),
    torch.complex64: (1e-4, 1e-5),
    torch.bfloat16: (2e-2, 1e-2),
    torch.float16: (4e-3, 2e-3),
    torch.complex32: (4e-3, 2e-3),
    torch.float8_e4m3fn: (0.125, 1e-2),
    torch.float8_e5m2: (0.25, 1e-2),
}


class Mismatch(Exception):
    """The device's result is not the CPU's."""


class Rules:
    """What one entry's results are held to.

    values   whether they are a function of the inputs (not random, not uninitialised memory)
    chosen   where an index result may name any of equal elements: the tensor it indexes; None: it may not
    spare    results that may differ: True where the CPU returns an empty tensor for 'nothing saved'"""

    def __init__(self, values=True, chosen=None, spare=False):
        self.values, self.chosen, self.spare = values, chosen, spare


def plain(t):
    """A tensor's values on the host, in a dtype that arithmetic is defined for."""
    t = t.detach().cpu()
    if t.is_nested:
        t = t.to_padded_tensor(0.0)
    if t.is_quantized:
        t = t.dequantize()
    t = (t.to_dense() if t.layout is not torch.strided else t).resolve_conj().resolve_neg()
    if t.dtype is torch.complex32:
        return t.to(torch.complex64)
    return t.float() if t.is_floating_point() and t.element_size() == 1 else t


def same_values(a, b):
    """Whether all elements are equal, a NaN to a NaN."""
    a, b = plain(a), plain(b)
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def as_close(got, want, exact, rtol, atol):
    """Whether got is as close to exact as want is, give or take the tolerance; NaN and infinities as in exact."""
    wide = torch.complex128 if want.is_complex() else torch.float64
    exact = exact.to(want.dtype).to(wide)
    got, want = got.to(wide), want.to(wide)
    finite = exact.isfinite() & got.isfinite()
    allowed = 2 * (want - exact).abs().nan_to_num(0, 0, 0) + atol + rtol * exact.abs()
    return bool(
        torch.where(finite, (got - exact).abs() <= allowed, (got == exact) | (got.isnan() & exact.isnan())).all()
    )


def picks_equals(source, got, want):
    """Two index results name different places that hold equal elements, none of them twice."""
    if not source.dim():
        source = source.reshape(1)
    for dim in range(source.dim()):
        a, b = got, want
        if a.dim() == source.dim() - 1:
            a, b = a.unsqueeze(dim), b.unsqueeze(dim)
        if a.dim() != source.dim():
            continue
        try:
            x, y = source.gather(dim, a), source.gather(dim, b)
        except (RuntimeError, IndexError):
            continue
        ordered = a.sort(dim).values
        if same_values(x, y) and bool((ordered.diff(dim=dim) != 0).all()):
            return True
    flat = source.flatten()  # without a dim they index the flattened tensor
    inside = got.numel() == want.numel() == 1 and 0 <= int(got) < flat.numel()
    return inside and same_values(flat[got.flatten()], flat[want.flatten()])


def values(got, want, rules, exact):
    """None, or what differs. exact(): the float64 run's value or None."""
    rtol, atol = TOLERANCE.get(want.dtype, (0, 0))
    a, b = plain(got), plain(want)
    try:
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)
        return None
    except AssertionError as e:
        text = str(e)
    if not (want.is_floating_point() or want.is_complex()):
        return None if rules.chosen is not None and picks_equals(plain(rules.chosen), a, b) else text
    reference = exact()
    if not isinstance(reference, torch.Tensor) or reference.shape != want.shape:
        return text
    return None if as_close(a, b, plain(reference), rtol, atol) else text


def _tensor(i, got, want, got_place, want_place, rules, exact):
    """Compares two tensors; returns whether the strides differ."""
    if not isinstance(got, torch.Tensor):
        raise Mismatch(f"result {i}: {type(got).__name__}, CPU has a tensor")
    device = got_place.device if want.device.type == want_place.device.type else want.device
    for what, mine, cpu in (
        ("device", got.device.type, device.type),
        ("dtype", got.dtype, want.dtype),
        ("layout", got.layout, want.layout),
    ):
        if mine != cpu:
            raise Mismatch(f"result {i}: {what} {mine}, CPU has {cpu}")
    if rules.spare and i and not want.numel():
        return False
    if not want.is_nested and got.shape != want.shape:
        raise Mismatch(f"result {i}: shape {tuple(got.shape)}, CPU has {tuple(want.shape)}")
    strides = False
    if want.layout is torch.strided and not want.is_nested and want.numel():
        strides = got.stride() != want.stride()
        if want._is_view() and want.untyped_storage().data_ptr() in want_place.storages():
            if not got._is_view() or got.untyped_storage().data_ptr() not in got_place.storages():
                raise Mismatch(f"result {i}: a copy, CPU returns a view of its input")
            if strides or got.storage_offset() != want.storage_offset():
                raise Mismatch(
                    f"result {i}: a view with strides {got.stride()} and offset {got.storage_offset()}, CPU has "
                    f"{want.stride()} and {want.storage_offset()}"
                )
    if rules.values:
        difference = values(got, want, rules, exact)
        if difference:
            raise Mismatch(f"result {i}: {difference}")
    return strides


def results(got, want, got_place, want_place, rules, wide):
    """Compares two result trees; returns in how many tensors the strides differ. wide(): the tree of a float64 run."""
    got_leaves, want_leaves = pytree.tree_leaves(got), pytree.tree_leaves(want)
    if len(got_leaves) != len(want_leaves):
        raise Mismatch(f"{len(got_leaves)} results, CPU has {len(want_leaves)}")
    cache = []

    def exact(i):
        if not cache:
            try:
                cache.append(pytree.tree_leaves(wide()))
            except Exception:  # the CPU cannot do this in float64: its own result stands
                cache.append([])
        leaves = cache[0]
        return (
            leaves[i]
            if len(leaves) == len(want_leaves) and isinstance(leaves[i], (torch.Tensor, float, complex))
            else None
        )

    differ = 0
    for i, (g, w) in enumerate(zip(got_leaves, want_leaves)):
        if isinstance(w, torch.Tensor):
            differ += _tensor(i, g, w, got_place, want_place, rules, lambda i=i: exact(i))
        elif type(g) is not type(w):
            raise Mismatch(f"result {i}: {type(g).__name__}, CPU has {type(w).__name__}")
        elif rules.values and not isinstance(w, torch.device) and not _number(g, w, lambda i=i: exact(i)):
            raise Mismatch(f"result {i}: {g!r}, CPU has {w!r}")
    return differ


def _number(got, want, exact):
    if not isinstance(want, (float, complex)):
        return got == want
    a, b = torch.tensor(got), torch.tensor(want)
    if torch.isclose(a, b, 1e-4, 1e-5, equal_nan=True):
        return True
    reference = exact()
    return isinstance(reference, (float, complex)) and as_close(a, b, torch.tensor(reference), 1e-4, 1e-5)


def one_line(text, length=400):
    return re.sub(r"\s+", " ", str(text)).strip()[:length]
