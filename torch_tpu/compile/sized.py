"""A graph with dynamic sizes as one program for each capacity: sizes are operands, tensors have room for more than
counts.

The graph is traced at capacities in place of its symbols. Values carry marks that say how much of each dim counts
(csrc/hlo/sized.c), which must agree with what Dynamo knows of their sizes; operators that sum along such a dim mask it
there. What depends on where a dim ends is written with the true size as a number here (sized_ops.py). What neither
knows makes the graph one program for each combination of sizes. Inputs are seen at capacity through their buffers,
results are cut to their sizes; neither costs a program."""

import math

import torch
from torch.utils._sympy.printers import PythonPrinter

from .. import _C

_ops = torch.ops.torch_tpu

LEAST = 8  # the smallest capacity
COMPOSITE = 128  # marks from here on are of dims made of several


class Refused(NotImplementedError):
    """The graph cannot be one program for all sizes."""


class _Again(Exception):
    """The trace has found what has to be known before it begins."""


def _is_symint(value):
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def is_symbolic(value):
    """Whether a size varies: Dynamo may have come to know one after it has made a symbol for it."""
    return _is_symint(value) and bool(value.node.expr.free_symbols)


def expression(value):
    """A size as a sympy expression, or a number."""
    return value.node.expr if is_symbolic(value) else fixed(value)


def fixed(value):
    """What does not vary, as Python has it."""
    if not _is_symint(value):
        return value
    e = value.node.expr
    return float(e) if isinstance(value, torch.SymFloat) else bool(e) if isinstance(value, torch.SymBool) else int(e)


def bucket(n, least=LEAST):
    """The capacity for a size: the next power of two."""
    return max(least, 1 << (int(n) - 1).bit_length())


def function_of(value, symbols):
    """value as a function of a tuple of what symbols stand for."""
    value = fixed(value) if not is_symbolic(value) else value
    if not is_symbolic(value) and not hasattr(value, "free_symbols"):
        return lambda known: value
    e = expression(value)
    if not e.free_symbols:
        return lambda known, n=(float(e) if e.is_Float else int(e)): n
    if e in symbols:
        at = symbols.index(e)
        return lambda known: known[at]
    names = [f"s_{i}" for i in range(len(symbols))]
    import sympy

    text = PythonPrinter().doprint(e.xreplace({s: sympy.Symbol(n, integer=True) for s, n in zip(symbols, names)}))
    scope = {"math": math, "torch": torch}
    return eval(f"lambda known: (lambda {', '.join(names)}: {text})(*known)", scope)


def tensors(value):
    values = value if isinstance(value, (tuple, list)) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def has_symbols(value):
    return any(is_symbolic(s) for t in tensors(value) for s in t.shape)


class _Handle:
    """What belongs to a combination of capacities: a native handle, and what its call brings besides the inputs."""

    def __init__(self, caps, several, operands):
        self.caps, self.several = caps, several
        self.native = None
        self.operands = operands  # key -> (function of the symbols' values, dtype): numbers that calls bring
        self.cuts = {}  # result -> functions of the symbols' values: dims of its base, its sizes, its strides
        self.again = False


class Sized:
    def __init__(self, program, buckets=()):
        self.program, self.buckets = program, sorted(buckets)
        self.module = program.module
        self.nodes = list(self.module.graph.nodes)
        self.placeholders = [n for n in self.nodes if n.op == "placeholder"]
        self.inputs = [n.meta.get("val") for n in self.placeholders]
        self.symbols = [s for s, _ in program.symbols.places]
        self.read_values = [read for _, read in program.symbols.places]
        self.handles, self.numbers = {}, {}
        self.operands = {}  # of handles so far
        self.serves = False  # it has done so
        self.factors = {}  # result -> what the dims of its base are: an expression, or a number
        self.reason = self._why_not()
        if self.reason:
            return
        self.varying = {
            i: [self.function(s) for s in v.shape]
            for i, v in enumerate(self.inputs)
            if isinstance(v, torch.Tensor) and has_symbols(v)
        }
        dims = set()
        for n in self.nodes:
            for t in tensors(n.meta.get("val")):
                for s in t.shape:
                    if is_symbolic(s):
                        dims |= expression(s).free_symbols
        self.of_dims = [s in dims for s in self.symbols]
        ranges = next((v.node.shape_env.var_to_range for v in self._symints() if v.node.shape_env is not None), {})
        self.bounds = [self._bounds(ranges.get(s)) for s in self.symbols]
        self.written = [i for i in program.written if i not in self.varying]
        self.replaced = [i for i in program.written if i in self.varying]
        self.read = program.read + self.replaced
        copies = {
            n.args[0]: n
            for n in self.nodes
            if n.target is torch.ops.aten.copy_.default and n.args[0] in self.placeholders
        }
        self.updates = {copies[self.placeholders[i]]: i for i in self.replaced}
        self.computed, self.values = [], []  # nodes, and what is known of them
        nodes = {at: node for node, at in program.at.items()}
        try:
            self.results = [self._result(kind, x, nodes) for kind, x in program.results]
        except Refused as e:
            self.reason = str(e)
            return
        self.plain = self.results == list(range(len(self.computed))) and not self.updates
        self.results = [self._fresh(r) if isinstance(r, int) else r for r in self.results]
        self.computed += [n.args[1] for n in self.updates]
        self.values += [n.args[0].meta["val"] for n in self.updates]

    def function(self, value):
        return function_of(value, self.symbols)

    def _symints(self):
        for n in self.nodes:
            v = n.meta.get("val")
            if is_symbolic(v):
                yield v
            for t in tensors(v):
                yield from (s for s in t.shape if is_symbolic(s))

    def _why_not(self):
        known = set(self.symbols)
        for v in self._symints():
            if not expression(v).free_symbols <= known:
                return "a size that no input tells"
        for i, v in enumerate(self.inputs):
            if isinstance(v, torch.Tensor) and v.device.type != "tpu" and has_symbols(v):
                return "a host tensor of a size that varies"
        if not any(has_symbols(n.meta.get("val")) for n in self.nodes):
            return "no tensor's size varies"
        for n in self.nodes:
            if isinstance(n.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in n.target.tags:
                return f"{n.target}: random numbers are drawn for exact sizes"
        return None

    @staticmethod
    def _bounds(r):
        try:
            upper = int(r.upper)
        except Exception:  # infinite, or not known
            upper = None
        return upper if upper is not None and upper < 1 << 30 else None

    def capacity(self, i, n):
        if not self.of_dims[i]:
            return None  # only ever a number
        room = next((b for b in self.buckets if b >= n), None) or bucket(n)
        upper = self.bounds[i]
        return upper if upper is not None and n <= upper < room else room

    # ---- calls ----
    def __call__(self, inputs, run):
        """The results, or None where these sizes are to be served exactly. run: of (handle, written, read), calls a
        program."""
        known = tuple(read(inputs) for read in self.read_values)
        if any(n < 2 and of_dims for n, of_dims in zip(known, self.of_dims)):
            return None
        caps = tuple(self.capacity(i, n) for i, n in enumerate(known))
        whole, several = {}, ()
        for i, sizes in self.varying.items():
            whole[i], parts = _ops.at_capacity(inputs[i], [f(caps) for f in sizes])
            if parts:
                several += ((i, *self._made_of(parts, known, caps)),)
        numbers = tuple(inputs[i] for i in self.program.numbers if not is_symbolic(self.inputs[i]))
        key = (caps, several, numbers)
        handle = self.handles.get(key, False)
        if handle is None:  # tried in vain
            return None
        if not handle:
            handle = self.handles[key] = _Handle(caps, several, dict(self.operands))
        written = [inputs[i] for i in self.written]
        read = [whole[i] if i in whole else inputs[i] for i in self.read]
        for _ in range(64):
            if handle.native is None:
                self._register(handle, inputs)
            operands = [self._number(f(known), dtype) for f, dtype in handle.operands.values()]
            try:
                new = run(handle.native, written, read + operands)
                break
            except NotImplementedError:
                if not handle.again:
                    self.handles[key] = None
                    raise
                handle.again, handle.native = False, None
        else:
            raise Refused("its trace does not settle")
        self.operands.update(handle.operands)
        self.serves = True
        made = [self._cut(handle.cuts.get(k), x, known) for k, x in enumerate(new)]
        for i, x in zip(self.updates.values(), made[len(made) - len(self.updates) :]):
            with torch.no_grad():
                _ops.take_over(inputs[i], x)
                torch.autograd.graph.increment_version(inputs[i])
        return made if self.plain else [r(inputs, made, known) for r in self.results]

    # ---- results: functions of the inputs, what the program has made, and the symbols' values; a number: as it is made
    # ----
    @staticmethod
    def _fresh(at):
        return lambda inputs, made, known: made[at]

    def _compute(self, node):
        if node not in self.computed:
            self.computed.append(node)
            self.values.append(node.meta["val"])
        return self.computed.index(node)

    def _result(self, kind, x, nodes):
        if kind == "input":
            return lambda inputs, made, known: inputs[x]
        if kind == "number":
            f = self.function(x)
            return lambda inputs, made, known: f(known)
        if kind == "view":
            if x[2]:
                raise Refused("a result that is a view in another dtype, or a lazy conjugate")
            return self._view(self._compute(nodes[x[0]]), x[1])
        node, value = nodes[x], nodes[x].meta["val"]
        if not has_symbols(value) or self._is_dense(value):
            return self._compute(node)
        from .program import root_of

        root = root_of(node)  # what it leaves out of its root a result has no room for
        if root in self.placeholders and self.placeholders.index(root) not in self.program.written:
            return self._view_of_input(self.placeholders.index(root), value)
        if root is node or root in self.placeholders or not self._is_dense(root.meta["val"]):
            raise Refused("a result whose elements do not lie side by side")
        return self._view(self._compute(root), value)

    def _is_dense(self, value):
        try:
            self.order(*self.layout(value, tuple(16 if d else None for d in self.of_dims)))
        except Refused:
            return False
        return True

    def _strided(self, value):
        sizes, strides = [self.function(s) for s in value.shape], [self.function(s) for s in value.stride()]
        offset = self.function(value.storage_offset())
        return lambda known: ([f(known) for f in sizes], [f(known) for f in strides], offset(known))

    def _view(self, base, value):
        of = self._strided(value)
        return lambda inputs, made, known: made[base].as_strided(*of(known))

    def _view_of_input(self, i, value):
        of, before = self._strided(value), self.function(self.inputs[i].storage_offset())

        def view(inputs, made, known):
            sizes, strides, offset = of(known)
            return inputs[i].as_strided(sizes, strides, offset - before(known) + inputs[i].storage_offset())

        return view

    def _made_of(self, parts, known, caps):
        """Dims made of several, as at_capacity tells them: (dim, (places, index of the symbol or None), ...) each."""
        out, at = [], 0
        while at < len(parts):
            dim, n = parts[at : at + 2]
            places, used = parts[at + 2 : at + 2 + n], parts[at + 2 + n : at + 2 + 2 * n]
            factors, taken = [], set()
            for p, u in zip(places, used):
                index = None
                if p != u:
                    fits = [i for i in range(len(known)) if known[i] == u and caps[i] == p]
                    index = next((i for i in fits if i not in taken), fits[0] if fits else -1)
                    taken.add(index)
                else:  # full, by chance or always
                    index = next(
                        (
                            i
                            for i in range(len(known))
                            if self.of_dims[i] and known[i] == u and caps[i] == p and i not in taken
                        ),
                        None,
                    )
                    taken.add(index)
                factors.append((p, index))
            out.append((dim, *factors))
            at += 2 + 2 * n
        return out

    def _number(self, value, dtype):
        key = value, dtype
        t = self.numbers.get(key)
        if t is None:
            if len(self.numbers) > 4096:
                self.numbers.clear()
            t = self.numbers[key] = torch.tensor(value, dtype=dtype)
        return t

    @staticmethod
    def _cut(functions, x, known):
        if functions is None:
            return x
        return _ops.cut(x, *([f(known) for f in each] for each in functions))

    # ---- traces ----
    def _register(self, handle, inputs):
        from .sized_ops import Trace

        outputs = []
        for k, value in enumerate(self.values):
            shape, stride = self.layout(value, handle.caps)
            if has_symbols(value):
                if k not in self.factors:
                    self.factors[k] = [expression(value.shape[i]) for i in self.order(shape, stride)]
                shape = self.places(k, handle.caps)
                stride = torch.empty(shape, device="meta").stride()
                dims = [self.function(f) for f in self.factors[k]]
                handle.cuts[k] = (
                    dims,
                    [self.function(s) for s in value.shape],
                    [self.function(s) for s in value.stride()],
                )
            outputs.append((str(value.dtype).removeprefix("torch."), tuple(shape), tuple(stride)))
        numbers = {i: inputs[i] for i in self.program.numbers if not is_symbolic(self.inputs[i])}

        def trace(args):
            written, read = args
            arguments = dict(numbers)
            arguments.update(zip(self.written, written))
            arguments.update(zip(self.read, read))
            try:
                with torch.no_grad():
                    results = Trace(self, handle, arguments, read[len(self.read) :]).run()
            except _Again:
                handle.again = True
                raise
            _ops.deliver(results)

        handle.native = _C.graph_register(trace, outputs)

    def layout(self, value, caps):
        """Sizes and strides at capacity."""
        try:
            return [int(self.function(s)(caps)) for s in value.shape], [
                int(self.function(s)(caps)) for s in value.stride()
            ]
        except TypeError:
            raise Refused("a size that only strides tell") from None

    @staticmethod
    def order(shape, stride):
        """The dims of a result in the order of its base."""
        order = sorted(range(len(shape)), key=lambda i: (-stride[i], shape[i] != 1))
        step = 1
        for i in reversed(order):
            if shape[i] != 1 and stride[i] != step:
                raise Refused("a result whose elements do not lie side by side")
            step *= shape[i]
        return order

    def places(self, k, caps):
        """The dims of result k's buffer."""
        return [bucket(self.function(f)(caps), 1) if hasattr(f, "free_symbols") else f for f in self.factors[k]]
