"""What a StableHLO program does, counted from its text: floating point operations, bytes of memory traffic, bytes
between chips.

Counts are exact for matrix products (2 for each multiplication and addition) and 1 for each element of elementwise
results; loops count as often as they run. Bytes follow a simple model of fusion (Kernel). Transfers between chips are
the bytes that one device sends in a ring (collectives)."""
import collections
import dataclasses
import math
import re

from . import hlo

TRANSCENDENTAL = {
    "exponential",
    "exponential_minus_one",
    "log",
    "log_plus_one",
    "logistic",
    "tanh",
    "sine",
    "cosine",
    "tan",
    "power",
    "sqrt",
    "rsqrt",
    "cbrt",
    "atan2",
    "erf",
    "erf_inv",
    "erfc",
    "lgamma",
    "digamma",
}
FREE = {"reshape", "convert", "bitcast_convert", "real", "imag", "complex"}  # elementwise, and no arithmetic
VIEWS = {
    "broadcast_in_dim",
    "transpose",
    "slice",
    "reverse",
    "pad",
    "concatenate",
    "iota",
    "constant",
    "get_dimension_size",
    "set_dimension_size",
    "optimization_barrier",
}
HEAVY = {
    "dot_general",
    "convolution",
    "reduce",
    "reduce_window",
    "select_and_scatter",
    "sort",
    "fft",
    "gather",
    "scatter",
    "dynamic_slice",
    "dynamic_update_slice",
    "rng_bit_generator",
    "custom_call",
    "cholesky",
    "triangular_solve",
    "top_k",
}
CONTROL = {"while", "if", "case", "call"}
COLLECTIVES = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute", "collective_broadcast"}
# Bytes of operations that touch a part of their first operand, besides what they read of the others and what they
# write.
PARTS = {"gather": lambda op: op.result_types[0][2], "dynamic_slice": lambda op: op.result_types[0][2],
         "dynamic_update_slice": lambda op: op.operand_types[1][2], "scatter": lambda op: 2 * op.operand_types[-1][2]}
IN_PLACE = {"dynamic_update_slice", "scatter"}
FAR = 200  # kernels apart, two are not looked at for becoming one: what lies so far back is no longer at hand
PASSES = {"HIGHEST": 6, "HIGH": 3, "DEFAULT": 1}  # of a TPU's bf16 multiplications for one of f32


@dataclasses.dataclass
class Cost:
    """matrix: {dtype: operations of matrix products}, in which an f32 product counts once; passes: the same in bf16
    multiplications that a TPU makes for them; vector: elementwise operations and reductions; transcendental: how many
    of those are; bytes: read and written; sent: by one device to others."""

    matrix: dict = dataclasses.field(default_factory=dict)
    passes: dict = dataclasses.field(default_factory=dict)
    vector: float = 0
    transcendental: float = 0
    bytes: float = 0
    sent: float = 0

    @property
    def flops(self):
        return sum(self.matrix.values()) + self.vector

    def add(self, other, times=1):
        for mine, theirs in ((self.matrix, other.matrix), (self.passes, other.passes)):
            for dtype, n in theirs.items():
                mine[dtype] = mine.get(dtype, 0) + n * times
        for name in ("vector", "transcendental", "bytes", "sent"):
            setattr(self, name, getattr(self, name) + getattr(other, name) * times)


@dataclasses.dataclass
class Kernel:
    """Operations that are taken to run as one: a heavy one (a matrix product, a reduction ...) or none, and the
    elementwise ones of as many elements around it that need not wait for one another's kernels. It reads what others
    wrote once, and writes what others or the program's results need. Operations that only move data (VIEWS) are part of
    the reader. What is elementwise, and whose operands are in memory, each reader computes anew where that moves fewer
    bytes than writing and reading it."""

    op: hlo.Op  # its first heavy one, else its first: what reports name
    heavy: bool
    elements: int
    times: float  # how often it runs
    bits: int  # which it is, in `before` of others: its place, and that of every kernel that became part of it
    before: int = 0  # those that it follows from
    into: "Kernel" = None  # what it has become part of
    cost: Cost = dataclasses.field(default_factory=Cost)
    reads: dict = dataclasses.field(default_factory=dict)  # {value: bytes}
    writes: dict = dataclasses.field(default_factory=dict)

    def waits_for(self, other, kernels):
        """Whether it follows from something besides, that follows from the other. kernels: all, in order."""
        first, last = (other.bits & -other.bits).bit_length(), self.bits.bit_length() - 1
        return last - first > FAR or any(
            self.before & k.bits and k.before & other.bits and k is not self and k is not other
            for k in kernels[first:last]
            if k.into is None
        )

    def take(self, other):
        other.into = self
        self.bits |= other.bits
        self.before = (self.before | other.before) & ~self.bits
        self.cost.add(other.cost)


def _numbers(text, name):
    found = re.search(name + r" = (?:array<i64(?:: )?)?\[?([\d, ]*)", text)
    return [int(x) for x in found.group(1).split(",") if x.strip()] if found else []


def _dot(op):
    (dims, dtype, _), (left, a, _), _ = op.result_types[0], *op.operand_types
    contracted = re.search(r"contracting_dims = \[([\d, ]*)\]", op.text)
    k = math.prod(left[int(d)] for d in contracted.group(1).split(",") if d.strip()) if contracted else 1
    return 2 * math.prod(dims) * k, a


def _convolution(op):
    (dims, _, _), (left, a, _), (kernel, _, _) = op.result_types[0], *op.operand_types
    layout = re.search(r"x\[([^\]]*)\]->", op.text).group(1).replace(" ", "").split(",")
    per_output = math.prod(kernel) // max(kernel[layout.index("o")], 1)
    return 2 * math.prod(dims) * per_output, a


def _matrix(op):
    n, dtype = _dot(op) if op.name == "dot_general" else _convolution(op)
    precision = re.search(r"HIGHEST|HIGH", op.text)
    passes = PASSES[precision.group() if precision else "DEFAULT"] if dtype == "f32" else 1
    kind = "bf16" if dtype in ("f32", "f16") else dtype
    return Cost(matrix={dtype: n}, passes={kind: n * passes})


def _kernel(op):
    """What a Pallas kernel says of itself: its operations, as products of its first operand's dtype."""
    n = re.search(r'flops\\22:\s*(\d+)', op.text)
    if not n or not op.operand_types:
        return Cost()
    dtype, n = op.operand_types[0][1], int(n.group(1))
    return Cost(matrix={dtype: n}, passes={"bf16" if dtype in ("f32", "f16") else dtype: n})


def trip_count(op, around):
    """How often a loop runs, where its condition compares a counter from a constant in steps of one; else 1."""
    condition = op.regions[0].ops
    for test in reversed(condition):
        if test.name == "compare" and " LT, " in test.text:
            limit = next(
                (o for o in condition if o.name == "constant" and o.results[0] == test.operands[1]), None
            ) or next((o for o in around.ops if test.operands[1] in o.results), None)
            if limit is not None and limit.name == "constant":
                return int(re.search(r"dense<(-?\d+)>", limit.text).group(1))
    return 1


def _group_size(op):
    groups = re.search(r"replica_groups = dense<.*> : tensor<(\d+)x(\d+)xi64>", op.text)
    return int(groups.group(2)) if groups else 1


def _sent(op):
    """Bytes one device sends in a ring of n: all-reduce 2(n-1)/n of the operand, all-gather and reduce-scatter (n-1)/n
    of the whole."""
    n = _group_size(op)
    given, made = sum(t[2] for t in op.operand_types), sum(t[2] for t in op.result_types)
    share = (n - 1) / n
    return {
        "all_reduce": 2 * share * given,
        "all_gather": share * made,
        "reduce_scatter": share * given,
        "all_to_all": share * given,
    }.get(op.name, given)


def _of(home, value):
    kernel = home.get(value)
    while kernel is not None and kernel.into is not None:
        kernel = kernel.into
    return kernel


def _merged(kernel, other, kernels):
    """The kernel with another that makes some of its operands, where the two can be one; else itself."""
    if (
        other is None
        or other is kernel
        or other.elements != kernel.elements
        or other.op.name in CONTROL
        or (other.heavy and kernel.heavy)
    ):
        return kernel
    if kernel.waits_for(other, kernels) or other.waits_for(kernel, kernels):
        return kernel
    kept, part = (other, kernel) if other.heavy or not kernel.heavy else (kernel, other)
    kept.take(part)
    return kept


def _count_bytes(region, home, size):
    """Adds to each kernel of a region the bytes that it reads and writes. home: {value: its kernel}."""
    readers = {}  # value -> the kernels that read it, through views or not
    for op in reversed(region.ops):
        mine = [id(home[r]) for r in op.results if r in home] or [n for r in op.results for n in readers.get(r, ())]
        for v in op.operands:
            readers.setdefault(v, set()).update(mine)
    sources = {v: {v} for v in size if v not in home}  # value -> what has to be read to have it, or itself
    for op in region.ops:
        given = op.operands[1:] if op.name in PARTS else op.operands
        wanted = set().union(*(sources[v] for v in given))
        kernel = home.get(op.results[0]) if op.results else None
        if kernel is None:
            sources.update((r, wanted) for r in op.results)
            continue
        kernel.reads.update({v: size[v] for v in wanted if home.get(v) is not kernel})
        if op.name in PARTS:
            kernel.cost.bytes += PARTS[op.name](op)
        heavy = op.name in HEAVY | COLLECTIVES | CONTROL
        again = (
            None
            if heavy or any(home.get(v) is kernel and v not in kernel.writes for v in wanted)
            else sum(size[v] for v in wanted)
        )
        for r in op.results:
            others = len(readers.get(r, set()) - {id(kernel)})
            sources[r] = {r} if again is None else wanted
            if r in region.returned or (others and (again is None or again * others >= (1 + others) * size[r])):
                sources[r] = {r}
                kernel.writes[r] = 0 if op.name in IN_PLACE or op.name in CONTROL else size[r]
    for kernel in {id(k): k for k in home.values()}.values():
        if kernel.writes and kernel.op.name not in CONTROL:
            kernel.cost.bytes += sum(kernel.reads.values()) + sum(kernel.writes.values())


class Counter:
    """The cost of a module's main function, and its kernels."""

    def __init__(self, text):
        self.functions, self.kernels = hlo.parse(text), []
        self.cost = self._region(self.functions["main"], {}, 1)

    def _region(self, region, outer, times):
        """The cost of one run of a region that runs `times` in all; outer: {value: bytes} of what is in memory around
        it."""
        size = {**outer, **{v: t[2] for v, t in region.parameters.items()}}
        home, after, kernels = {}, {}, []  # value -> its kernel; value -> the kernels that it follows from, as bits
        for op in region.ops:
            size.update({r: t[2] for r, t in zip(op.results, op.result_types)})
            before = 0
            for v in op.operands:
                before |= after.get(v, 0)
            if op.name not in VIEWS or any(r in region.returned for r in op.results):
                heavy = op.name in HEAVY | COLLECTIVES | CONTROL
                elements = math.prod(op.result_types[0][0]) if op.results else 0
                kernel = Kernel(
                    op, heavy, elements, times, 1 << len(kernels), before, cost=self._work(op, region, size, times)
                )
                kernels.append(kernel)
                before |= kernel.bits
                if not heavy:
                    for v in op.operands:
                        kernel = _merged(kernel, _of(home, v), kernels)
                home.update(dict.fromkeys(op.results, kernel))
            after.update(dict.fromkeys(op.results, before))
        _count_bytes(region, {v: _of(home, v) for v in home}, size)
        total = Cost()
        for kernel in kernels:
            if kernel.into is None:
                total.add(kernel.cost)
                if kernel.op.name not in CONTROL:
                    self.kernels.append(kernel)
        return total

    def _work(self, op, region, size, times):
        if op.name in ("dot_general", "convolution"):
            return _matrix(op)
        if op.name == "custom_call":
            return _kernel(op)
        if op.name in COLLECTIVES:
            return Cost(sent=_sent(op))
        if op.name == "call":
            return self._region(self.functions[re.search(r"@([\w.]+)", op.text).group(1)], {}, times)
        if op.name == "while":
            n, cost = trip_count(op, region), Cost()
            for part in op.regions:
                cost.add(self._region(part, size, times * n), n)
            return cost
        if op.name in CONTROL:  # the dearest branch
            return max((self._region(r, size, times) for r in op.regions), key=lambda c: c.bytes + c.flops)
        n = sum(math.prod(t[0]) for t in op.result_types)
        if op.name in ("reduce", "reduce_window", "select_and_scatter"):
            return Cost(vector=math.prod(op.operand_types[0][0]))
        if op.name in ("sort", "top_k"):
            return Cost(vector=n * math.log2(max(n, 2)))
        if op.name == "fft":
            return Cost(vector=5 * n * math.log2(max(math.prod(_numbers(op.text, "fft_length")), 2)))
        if op.name in VIEWS | FREE | HEAVY:
            return Cost()
        return Cost(vector=n, transcendental=n if op.name in TRANSCENDENTAL else 0)
