"""StableHLO text as data: functions, regions and operations, in the forms that our printer writes (csrc/hlo/module.c),
and those of loops and reductions that JAX's writes in kernels."""
import dataclasses
import functools
import re

BITS = {"i1": 8, "bf16": 16, "complex<f32>": 64, "complex<f64>": 128}


@functools.lru_cache(maxsize=None)
def parse_type(text):
    """(dims, dtype, bytes) of tensor<2x3xf32>; a bounded dim (?) counts as its bound."""
    inner = text[len("tensor<") : -1]
    bounds = re.search(r", #stablehlo\.bounds<(.*)>$", inner)
    if bounds:
        inner = inner[: bounds.start()]
    parts = re.match(r"((?:(?:\d+|\?)x)*)(.*)$", inner)
    dims = parts.group(1).split("x")[:-1]
    if bounds:
        dims = [b.strip() if d == "?" else d for d, b in zip(dims, bounds.group(1).split(","))]
    dims = tuple(int(d) for d in dims)
    dtype = parts.group(2)
    bits = BITS.get(dtype) or int(re.search(r"\d+", dtype).group())
    size = bits
    for d in dims:
        size *= d
    return dims, dtype, (size + 7) // 8


@dataclasses.dataclass
class Op:
    name: str  # without "stablehlo."
    results: list  # names of values
    operands: list
    types: list  # as text: of the results, then of the operands
    text: str  # its line; of an operation with regions the first and the last
    regions: list  # of Region
    place: str = ""  # the user's source line, where the program tells it

    @property
    def result_types(self):
        return [parse_type(t) for t in self.types[: len(self.results)]]

    @property
    def operand_types(self):
        return [parse_type(t) for t in self.types[len(self.results) :]]


@dataclasses.dataclass
class Region:
    """What a function or a part of an operation does. parameters: {value: type}; returned: names of values."""

    parameters: dict
    ops: list
    returned: list


_TYPE = re.compile(r"tensor<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>")
_PARAMETER = re.compile(r"(%\w+): (" + _TYPE.pattern + ")")
_VALUE = re.compile(r"%\w+")
_NAME = re.compile(r'"?(?:stablehlo\.|chlo\.|func\.)?([\w.]+)"?')


def _parameters(text):
    return {name: parse_type(kind) for name, kind in _PARAMETER.findall(text)}


def parse(text):
    """{name: Region} of a module's functions."""
    lines = iter(text.splitlines())
    functions = {}
    for line in lines:
        head = re.match(r"\s*func\.func \w+ @([\w.]+)(\(.*)", line)
        if head:
            functions[head.group(1)] = _region(lines, _parameters(head.group(2).split(") -> ")[0]))[0]
    return functions


def _region(lines, parameters):
    """A region, up to its closing line, and that line."""
    region = Region(parameters, [], [])
    for line in lines:
        line = line.strip()
        if line.startswith("}"):
            return region, line
        if line.startswith("^"):
            region.parameters = _parameters(line)
        elif re.match(r"(stablehlo\.|func\.)?return\b", line):
            region.returned = _VALUE.findall(line)
        elif line == "cond {" or re.match(r"reducer\(.*\{$", line):
            _take_regions(region.ops[-1], line, lines)
        elif line:
            region.ops.append(_op(line, lines))
    raise ValueError("the text of a program ends within a region")


_CARRIED = re.compile(r"(%\w+) = (%\w+)")


def _take_regions(op, line, lines):
    """The regions that JAX prints behind an operation: "cond {", "} do {" of a loop; "reducer(...) {"."""
    carried = _CARRIED.findall(op.text.partition("while(")[2])
    if carried:
        kinds = _TYPE.findall(op.text)
        op.operands, op.types = [v for _, v in carried], kinds[: len(op.results)] + kinds
    parameters = {name: parse_type(kind) for (name, _), kind in zip(carried, op.types[len(op.results) :])}
    while line.endswith("{"):
        region, line = _region(lines, parameters or _parameters(line))
        op.regions.append(region)


def _op(line, lines):
    left, _, right = line.partition(" = ") if line.startswith("%") else ("", "", line)
    regions, tail = [], line
    if line.endswith("({"):
        end = "{"
        while end.endswith("{"):
            region, end = _region(lines, {})
            regions.append(region)
        tail = end
        line = f"{line} {tail}"
    place = re.search(r' loc\("(.*)":(\d+):\d+\)$', tail)
    if place:
        tail = tail[: place.start()]
    results, operands = _VALUE.findall(left), _VALUE.findall(right.split("{")[0].split(" : ")[0])
    given, arrow, made = tail.rpartition(" : ")[2].rpartition(" -> ")
    types = _TYPE.findall(made) + _TYPE.findall(given)
    name = _NAME.match(right).group(1)
    if not arrow:  # one type for all, or those of a select: the predicate's and the rest's
        types = (
            [types[-1]] + types[:1] + types[-1:] * 2 if name == "select" else types[:1] * (len(results) + len(operands))
        )
    return Op(name, results, operands, types, line, regions, ":".join(place.groups()) if place else "")
