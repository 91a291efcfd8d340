"""The trace of a graph at capacity (sized.py): operators whose results depend on where a dim ends.

Tensors are dense, and marked with how much of each dim counts. unmarked() says of a tensor that its tail may be taken
for what counts, which is right where what comes of it is the tail of the result; filled() puts a value there."""

import operator

import torch

from .._internal.lines import tell
from .sized import COMPOSITE, Refused, _Again, bucket, expression, fixed, function_of, has_symbols, is_symbolic, tensors

_ops = torch.ops.torch_tpu
aten = torch.ops.aten

# Views that move no element to a place that depends on a size.
VIEWS = {aten.unsqueeze, aten.squeeze, aten.transpose, aten.permute, aten.t, aten.detach, aten.alias, aten.lift_fresh}
# Where sizes say how large the result is, and nothing else.
SHAPES = {
    aten.view,
    aten._unsafe_view,
    aten.reshape,
    aten.expand,
    aten.zeros,
    aten.ones,
    aten.empty,
    aten.new_zeros,
    aten.new_ones,
    aten.new_empty,
}
# In torch's own kernels: not for what varies.
EXCEPT = {
    aten.as_strided,
    aten.unfold,
    aten._reshape_alias,
    aten.view_as_real,
    aten.view_as_complex,
    aten.resize_,
    aten.set_,
}

HANDLERS = {}


def handles(*packets):
    def register(function):
        for packet in packets:
            HANDLERS[packet] = function
        return function

    return register


class Trace:
    def __init__(self, sized, handle, arguments, operands):
        self.sized, self.handle, self.arguments = sized, handle, arguments
        self.env = {}
        self.operands = dict(zip(handle.operands, operands))
        self.marks, self.expressions = {}, [None]

    # ---- sizes ----
    def size(self, value):
        """A size at capacity."""
        if isinstance(value, torch.fx.Node):
            value = value.meta["val"]
        if not is_symbolic(value):
            return fixed(value)
        return int(self.sized.function(value)(self.handle.caps))

    def operand(self, key, function, dtype=torch.int64):
        """A number that calls bring, of no dims."""
        if key not in self.operands:
            self.handle.operands[key] = (function, dtype)
            raise _Again
        return self.operands[key]

    def number(self, value):
        """A number of the graph's as what it is in each call: itself, or a tensor of no dims."""
        if isinstance(value, torch.fx.Node):
            value = value.meta["val"]
        if not is_symbolic(value):
            return fixed(value)
        if isinstance(value, torch.SymBool):
            raise Refused("a condition on sizes that is a value")
        dtype = torch.float64 if isinstance(value, torch.SymFloat) else torch.int64
        number = self.operand((expression(value), dtype), self.sized.function(value), dtype).detach()
        _ops.trace_number(number)
        return number

    def mark_of(self, e):
        if e not in self.marks:
            number = self.operand((e, torch.int64), function_of(e, self.sized.symbols))
            self.marks[e] = _ops.trace_symbol(number)
            self.expressions.append(e)
        return self.marks[e]

    # ---- tensors ----
    def get(self, value):
        if isinstance(value, torch.fx.Node):
            return self.env[value]
        if isinstance(value, (list, tuple)):
            return [self.get(v) for v in value]
        return value

    def marks_of(self, x):
        return _ops.trace_marks(x)

    def unmarked(self, x, *dims):
        """x without the marks of dims, or of all."""
        marks = self.marks_of(x)
        if not any(marks):
            return x
        return _ops.trace_marked(x, [0 if not dims or i in dims else m for i, m in enumerate(marks)])

    def plain(self, x, what):
        """x without marks, which may not be of dims made of several."""
        if any(m >= COMPOSITE for m in self.marks_of(x)):
            raise Refused(f"{what} of a dim made of several")
        return self.unmarked(x)

    def filled(self, x, fill):
        marks = self.marks_of(x)
        dims = [i for i, m in enumerate(marks) if m]
        return _ops.trace_filled(x, dims, fill) if dims else x

    def settle(self, value, meta):
        """A result as a dense tensor whose marks are what is known of its sizes."""
        if isinstance(meta, (tuple, list)):
            return [self.settle(v, m) for v, m in zip(value, meta)]
        if not isinstance(value, torch.Tensor) or not isinstance(meta, torch.Tensor):
            return value
        if tuple(value.shape) != tuple(self.size(s) for s in meta.shape):
            raise Refused(f"at capacity a result is {list(value.shape)}")
        value = _ops.trace_marked(value, None)
        marks = self.marks_of(value)
        wanted = []
        for mark, s in zip(marks, meta.shape):
            if not is_symbolic(s):
                if mark:
                    raise Refused("a size that varies is taken for one that does not")
                wanted.append(0)
            elif mark >= COMPOSITE:
                wanted.append(mark)
            else:
                e = expression(s)
                if mark and self.expressions[mark] != e:
                    raise Refused(f"a size is {self.expressions[mark]} and {e}")
                wanted.append(mark or self.mark_of(e))
        return value if wanted == marks else _ops.trace_marked(value, wanted)

    # ---- the graph ----
    def run(self):
        for i, node in enumerate(self.sized.placeholders):
            value = self.arguments.get(i)
            if i in self.sized.varying:
                value = self.marked_input(i, value, node.meta["val"])
            if not is_symbolic(node.meta.get("val")):
                self.env[node] = value
        for node in self.sized.nodes:
            tell(node)
            if node.op == "get_attr":
                value = self.sized.module
                for name in node.target.split("."):
                    value = getattr(value, name)
                self.env[node] = value
            elif node.op == "call_function" and node not in self.sized.updates:
                self.call(node)
        return [self.deliver(k, node) for k, node in enumerate(self.sized.computed)]

    def marked_input(self, i, x, meta):
        marks = [self.mark_of(expression(s)) if is_symbolic(s) else 0 for s in meta.shape]
        for parts in (p for p in self.handle.several if p[0] == i):
            for dim, *factors in parts[1:]:
                if any(index == -1 for _, index in factors):
                    raise Refused("an input of sizes that are not the graph's")
                symbols = [0 if index is None else self.mark_of(self.sized.symbols[index]) for _, index in factors]
                marks[dim] = _ops.trace_composite([p for p, _ in factors], symbols)
        return _ops.trace_marked(x, marks)

    def call(self, node):
        target, meta = node.target, node.meta.get("val")
        if meta is not None and not tensors(meta) and not isinstance(meta, (tuple, list)):
            return  # a number: worked out where it is used
        if target is operator.getitem:
            self.env[node] = self.env[node.args[0]][node.args[1]]
            return
        if not isinstance(target, torch._ops.OpOverload):
            raise Refused(str(target))
        if not target._schema.returns and not tensors(meta):
            return  # an assertion of what is known
        given = [n for n in node.all_input_nodes if n.op != "get_attr"]
        varies = has_symbols(meta) or any(
            has_symbols(n.meta.get("val")) or is_symbolic(n.meta.get("val")) for n in given
        )
        if not varies:
            self.env[node] = target(*self.get(list(node.args)), **{k: self.get(v) for k, v in node.kwargs.items()})
            return
        packet = target.overloadpacket
        handler = HANDLERS.get(packet)
        if handler is not None:
            value = handler(self, node, *node.args, **node.kwargs)
        elif packet in SHAPES:
            value = target(
                *self._each(node.args, self.size), **{k: self._each(v, self.size) for k, v in node.kwargs.items()}
            )
        elif packet in VIEWS:
            value = target(*self.get(list(node.args)), **node.kwargs)
        elif packet in EXCEPT or not torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "PrivateUse1"):
            raise Refused(f"{target} is not done for sizes known at run time")
        else:
            value = self.plainly(node)
        self.env[node] = self.settle(value, meta)

    def _each(self, value, number):
        if isinstance(value, (list, tuple)):
            return [self._each(v, number) for v in value]
        if isinstance(value, torch.fx.Node) and not isinstance(value.meta.get("val"), torch.Tensor):
            return number(value)
        return self.get(value)

    def plainly(self, node):
        """The operator on marked tensors: its rule sees to what does not count. Numbers that are sizes become
        tensors."""
        target = node.target
        symbolic = [
            a
            for a in (*node.args, *node.kwargs.values())
            if isinstance(a, torch.fx.Node) and is_symbolic(a.meta.get("val"))
        ]
        if any(is_symbolic(n.meta.get("val")) for n in node.all_input_nodes) and not symbolic:
            raise Refused(f"{target} takes sizes")
        if symbolic:
            for a, value in zip(target._schema.arguments, node.args):
                if value in symbolic and str(a.type) not in ("number", "Tensor", "float"):
                    raise Refused(f"{target} takes a size as {a.name}")
            if target._overloadname in ("Scalar", "Tensor_Scalar"):
                to = "Tensor_Tensor" if target._overloadname == "Tensor_Scalar" else "Tensor"
                if not hasattr(target.overloadpacket, to):
                    raise Refused(f"{target} of a size")
                target = getattr(target.overloadpacket, to)
        return target(
            *self._each(node.args, self.number), **{k: self._each(v, self.number) for k, v in node.kwargs.items()}
        )

    def deliver(self, k, node):
        """A result in the order of its base, with the places that its buffer is to have."""
        value, x = self.sized.values[k], self.get(node)
        if not has_symbols(value):
            return x
        shape, stride = self.sized.layout(value, self.handle.caps)
        order, marks = self.sized.order(shape, stride), self.marks_of(x)
        factors, extents = [], []
        for i in order:
            numbers = _ops.trace_factors(shape[i], marks[i])
            extents += numbers[::2]
            factors += [
                self.expressions[symbol] if symbol else extent for extent, symbol in zip(numbers[::2], numbers[1::2])
            ]
        if self.sized.factors[k] != factors:
            self.sized.factors[k] = factors
            raise _Again
        x = self.unmarked(_ops.trace_marked(x.permute(order), None).reshape(extents))
        pads = [
            n
            for place, extent in reversed(list(zip(self.sized.places(k, self.handle.caps), extents)))
            for n in (0, place - extent)
        ]
        return aten.constant_pad_nd(x, pads) if any(pads) else x

    # ---- for handlers ----
    def along(self, length, like, dim, rank):
        """0 .. length - 1 along dim."""
        return torch.arange(length, device=like.device).view([length if i == dim else 1 for i in range(rank)])

    def count(self, node, dim):
        """The true size of a dim: a number, or a tensor of no dims."""
        s = node.meta["val"].shape[dim]
        return self.operand((expression(s), torch.int64), self.sized.function(s)) if is_symbolic(s) else fixed(s)

    def start(self, value, size, otherwise):
        """Where a slice begins, counted from the beginning: a number, or a tensor of no dims."""
        value = value.meta["val"] if isinstance(value, torch.fx.Node) else otherwise if value is None else value
        value, size = (v if is_symbolic(v) else fixed(v) for v in (value, size))
        if not is_symbolic(value) and (value >= 0 or not is_symbolic(size)):
            return value if value >= 0 else max(0, value + size)
        f, n = self.sized.function(value), self.sized.function(size)

        def run(known):
            at = f(known)
            return min(at, n(known)) if at >= 0 else max(0, at + n(known))

        return self.operand(("start", expression(value), expression(size)), run)

    def taken(self, x, dim, index):
        """x's elements at index, one dim, clamped into it."""
        return torch.index_select(x, dim, index.clamp(0, x.shape[dim] - 1))


@handles(aten.clone, aten._to_copy)
def _copy(t, node, x, **kw):
    return t.get(x).to(node.meta["val"].dtype)


def _wrap(dim, rank):
    return dim + rank if dim < 0 else dim


@handles(aten.slice)
def _slice(t, node, x, dim=0, start=None, end=None, step=1):
    of, meta = x.meta["val"], node.meta["val"]
    dim = _wrap(dim, of.dim())
    x, length = t.get(x), t.size(meta.shape[dim])
    first = t.start(start, of.shape[dim], 0)
    if isinstance(first, int) and first == 0 and step == 1 and expression(of.shape[dim]) == expression(meta.shape[dim]):
        return x
    if t.marks_of(x)[dim] >= COMPOSITE:
        raise Refused("a part of a dim made of several")
    x = t.unmarked(x, dim)
    if length == 0:
        return x.narrow(dim, 0, 0)
    if isinstance(first, int) and first + (length - 1) * step < x.shape[dim]:
        return aten.slice(x, dim, first, first + (length - 1) * step + 1, step)
    return t.taken(x, dim, torch.arange(length, device=x.device) * step + first)


@handles(aten.select)
def _select(t, node, x, dim, index):
    of = x.meta["val"]
    dim = _wrap(dim, of.dim())
    first = t.start(index, of.shape[dim], 0)
    x = t.get(x)
    if t.marks_of(x)[dim] >= COMPOSITE:
        raise Refused("a place in a dim made of several")
    x = t.unmarked(x, dim)
    if isinstance(first, int):
        return aten.select(x, dim, first)
    return aten.select(t.taken(x, dim, first.reshape(1)), dim, 0)


@handles(aten.select_backward)
def _select_backward(t, node, grad, sizes, dim, index):
    meta = node.meta["val"]
    dim = _wrap(dim, meta.dim())
    grad, shape = t.get(grad), [t.size(s) for s in sizes]
    here = t.along(shape[dim], grad, dim, len(shape)) == t.start(index, meta.shape[dim], 0)
    return torch.where(here, grad.unsqueeze(dim), torch.zeros((), dtype=grad.dtype, device=grad.device))


@handles(aten.slice_backward)
def _slice_backward(t, node, grad, sizes, dim, start, end, step):
    meta, of = node.meta["val"], grad.meta["val"]
    dim = _wrap(dim, meta.dim())
    count, grad, length = t.count(grad, dim), t.get(grad), t.size(meta.shape[dim])
    first = t.start(start, meta.shape[dim], 0)
    if isinstance(first, int) and first == 0 and step == 1 and expression(of.shape[dim]) == expression(meta.shape[dim]):
        return grad
    if t.marks_of(grad)[dim] >= COMPOSITE:
        raise Refused("a part of a dim made of several")
    off = torch.arange(length, device=grad.device) - first
    at = torch.div(off, step, rounding_mode="floor")
    here = (off >= 0) & (at < count) & (off % step == 0)
    taken = t.taken(t.unmarked(grad, dim), dim, at)
    here = here.view([length if i == dim else 1 for i in range(meta.dim())])
    return torch.where(here, taken, torch.zeros((), dtype=grad.dtype, device=grad.device))


def _indices(t, x, dim, index):
    """Indices along a dim of x, a node, counted from its beginning."""
    size = t.count(x, dim)
    if isinstance(size, int):
        return index
    index = torch.where(index < 0, index + size, index)
    return torch.minimum(index, (size - 1).to(index.dtype)).clamp(min=0)


@handles(aten.index, aten._unsafe_index)
def _index(t, node, x, indices):
    if any(i is not None and i.meta["val"].dtype in (torch.bool, torch.uint8) for i in indices):
        raise Refused("a mask as an index")
    taken = [None if i is None else t.plain(_indices(t, x, dim, t.get(i)), "an index") for dim, i in enumerate(indices)]
    return node.target(t.plain(t.get(x), "places"), taken)


@handles(aten.gather)
def _gather(t, node, x, dim, index, **kw):
    index_ = _indices(t, x, _wrap(dim, max(1, x.meta["val"].dim())), t.get(index))
    return aten.gather(t.plain(t.get(x), "places"), dim, t.plain(index_, "an index"))


@handles(aten.index_select)
def _index_select(t, node, x, dim, index):
    index_ = _indices(t, x, _wrap(dim, max(1, x.meta["val"].dim())), t.get(index))
    return aten.index_select(t.plain(t.get(x), "places"), dim, t.plain(index_, "an index"))


@handles(aten.flip)
def _flip(t, node, x, dims):
    value = t.get(x)
    for dim in dims:
        dim = _wrap(dim, value.dim())
        n, length = t.count(x, dim), value.shape[dim]
        value = t.taken(
            t.unmarked(t.plain(value, "an order") if isinstance(n, int) else value, dim),
            dim,
            n - 1 - torch.arange(length, device=value.device),
        )
    return value


@handles(aten.roll)
def _roll(t, node, x, shifts, dims=()):
    shifts = [shifts] if not isinstance(shifts, (list, tuple)) else shifts
    if not dims:
        raise Refused("a roll of all elements")
    value = t.plain(t.get(x), "an order")
    for shift, dim in zip(shifts, dims if isinstance(dims, (list, tuple)) else [dims]):
        dim = _wrap(dim, value.dim())
        shift = t.start(shift, 0, 0) if isinstance(shift, torch.fx.Node) else shift
        places = torch.arange(value.shape[dim], device=value.device) - shift
        value = torch.index_select(value, dim, torch.remainder(places, t.count(x, dim)))
    return value


@handles(aten.repeat)
def _repeat(t, node, x, repeats):
    value = t.plain(t.get(x), "a repetition")
    repeats = [t.size(r) for r in repeats]
    more = len(repeats) - value.dim()
    for dim in range(value.dim()):
        n = t.count(x, dim)
        if repeats[more + dim] != 1 and not isinstance(n, int):
            length = t.size(node.meta["val"].shape[more + dim])
            value = torch.index_select(value, dim, torch.arange(length, device=value.device) % n)
            repeats[more + dim] = 1
    return value.repeat(repeats)


@handles(aten.constant_pad_nd)
def _pad(t, node, x, pads, value=0):
    meta, of = node.meta["val"], x.meta["val"]
    y = t.get(x)
    for k in range(len(pads) // 2):
        dim = of.dim() - 1 - k
        low, high = (p.meta["val"] if isinstance(p, torch.fx.Node) else p for p in pads[2 * k : 2 * k + 2])
        low, high = (p if is_symbolic(p) else fixed(p) for p in (low, high))
        if not is_symbolic(low) and not is_symbolic(high) and low == high == 0:
            continue
        mark = t.marks_of(y)[dim]
        if mark >= COMPOSITE:
            raise Refused("padding of a dim made of several")
        if mark:
            y = _ops.trace_filled(y, [dim], float(value))
        length = t.size(meta.shape[dim])
        if is_symbolic(low):
            at = torch.arange(length, device=y.device) - t.number(low)
            there = ((at >= 0) & (at < y.shape[dim])).view([length if i == dim else 1 for i in range(of.dim())])
            y = torch.where(there, t.taken(y, dim, at), torch.full((), value, dtype=y.dtype, device=y.device))
        else:
            marks = t.marks_of(y)
            y = aten.constant_pad_nd(t.unmarked(y), [0, 0] * k + [low, length - low - y.shape[dim]], value)
            y = _ops.trace_marked(y, marks)
    return y


@handles(aten.arange)
def _arange(t, node, *args, **kw):
    meta = node.meta["val"]
    start, end, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if isinstance(step, torch.fx.Node):
        raise Refused("a step that is a size")
    if not isinstance(start, torch.fx.Node):
        length = t.size(meta.shape[0])
        whole = torch.arange(
            length, device=meta.device, dtype=torch.int64 if isinstance(start, int) and isinstance(step, int) else None
        )
        return (whole * step + start).to(meta.dtype)
    return (torch.arange(t.size(meta.shape[0]), device=meta.device) * step + t.number(start)).to(meta.dtype)


@handles(aten.full, aten.new_full, aten.full_like, aten.scalar_tensor)
def _full(t, node, *args, **kw):
    meta = node.meta["val"]
    value = t.number(args[-1] if node.target.overloadpacket is not aten.scalar_tensor else args[0])
    shape = [t.size(s) for s in meta.shape]
    if isinstance(value, torch.Tensor):
        return value.to(meta.dtype).expand(shape)
    return torch.full(shape, value, dtype=meta.dtype, device=meta.device)


@handles(aten.zeros_like, aten.ones_like, aten.empty_like)
def _like(t, node, x, **kw):
    meta = node.meta["val"]
    return torch.full(
        [t.size(s) for s in meta.shape],
        int(node.target.overloadpacket is aten.ones_like),
        dtype=meta.dtype,
        device=meta.device,
    )


@handles(aten.nll_loss_forward)
def _nll_loss(t, node, x, target, weight, reduction, ignore_index):
    return node.target(
        t.unmarked(t.get(x)),
        t.filled(t.get(target), float(t.size(ignore_index))),
        t.get(weight),
        reduction,
        t.size(ignore_index),
    )


@handles(aten.nll_loss_backward)
def _nll_loss_backward(t, node, grad, x, target, weight, reduction, ignore_index, total):
    values = t.unmarked(t.get(grad)), t.unmarked(t.get(x)), t.filled(t.get(target), float(t.size(ignore_index)))
    return _with_marks(t, node.target(*values, t.get(weight), reduction, t.size(ignore_index), t.get(total)), t.get(x))


def _with_marks(t, value, like):
    marks = t.marks_of(like)
    return _ops.trace_marked(value, marks) if any(marks) else value


@handles(aten.split, aten.split_with_sizes)
def _split(t, node, x, sizes, dim=0):
    of, metas = x.meta["val"], node.meta["val"]
    dim = _wrap(dim, of.dim())
    value = t.get(x)
    if not t.marks_of(value)[dim] and not any(is_symbolic(m.shape[dim]) for m in metas):
        return node.target(value, sizes, dim)
    if t.marks_of(value)[dim] >= COMPOSITE:
        raise Refused("a part of a dim made of several")
    value, at, parts = t.unmarked(value, dim), 0, []
    for m in metas:
        length, first = t.size(m.shape[dim]), t.start(at, of.shape[dim], 0)
        if isinstance(first, int) and first + length <= value.shape[dim]:
            parts.append(value.narrow(dim, first, length))
        else:
            parts.append(t.taken(value, dim, torch.arange(length, device=value.device) + first))
        at = at + m.shape[dim]
    return parts


@handles(aten.unbind)
def _unbind(t, node, x, dim=0):
    return t.unmarked(t.get(x), _wrap(dim, x.meta["val"].dim())).unbind(dim)  # as many as Dynamo has guarded


def _rows(places):
    """An operator that treats rows of its arguments alike: the dims of the first so many arguments that may vary."""

    def run(t, node, *args, **kw):
        given = []
        for k, a in enumerate(args):
            value = t._each(a, t.size)
            if isinstance(value, torch.Tensor):
                for i, m in enumerate(t.marks_of(value)):
                    if m and not (k < len(places) and i in places[k]):
                        raise Refused(f"{node.target} along a dim that varies")
                value = t.unmarked(value)
            given.append(value)
        return node.target(*given, **kw)

    return run


for _packet in (
    aten.convolution,
    aten.convolution_overrideable,
    aten.max_pool2d_with_indices,
    aten.avg_pool2d,
    aten._adaptive_avg_pool2d,
    aten.avg_pool3d,
    aten.max_pool3d_with_indices,
    aten.native_group_norm,
):
    HANDLERS[_packet] = _rows([{0}])
for _packet in (
    aten.max_pool2d_with_indices_backward,
    aten.avg_pool2d_backward,
    aten._adaptive_avg_pool2d_backward,
    aten.max_pool3d_with_indices_backward,
):
    HANDLERS[_packet] = _rows([{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}])
HANDLERS[aten.max_pool2d_with_indices_backward] = _rows([{0}] * 8)


@handles(aten.convolution_backward)
def _convolution_backward(t, node, grad, x, weight, *rest):
    given = []
    for value in (t.get(grad), t.get(x)):
        marks = t.marks_of(value)
        if any(marks[1:]):
            raise Refused(f"{node.target} along a dim that varies")
        given.append(t.filled(value, 0.0))
    return node.target(*given, t.get(weight), *t._each(rest, t.size))


def _along(dim_at, filled=()):
    """An operator along one dim, which does not vary, and alike in all others."""

    def run(t, node, *args, **kw):
        names = [a.name for a in node.target._schema.arguments]
        dim = kw.get("dim", args[names.index("dim")] if "dim" in names and names.index("dim") < len(args) else -1)
        given = []
        for a in args:
            value = t._each(a, t.size)
            if isinstance(value, torch.Tensor) and value.dim():
                if t.marks_of(value)[_wrap(dim, value.dim())]:
                    raise Refused(f"{node.target} along a dim that varies")
                value = t.plain(value, str(node.target))
            given.append(value)
        return node.target(*given, **kw)

    return run


for _packet in (
    aten.sort,
    aten.topk,
    aten.scatter,
    aten.scatter_add,
    aten.cummax,
    aten.cummin,
    aten.logcumsumexp,
    aten.kthvalue,
    aten.median,
    aten.glu,
    aten.glu_backward,
):
    HANDLERS[_packet] = _along(1)
