"""The optimized program as libtpu gives it, a serialized HloModuleProtoWithConfig: which operations it has come to, and
how many cycles libtpu expects of each.

Protocol buffers are read field by field: of xla/service/hlo.proto only the fields below are used."""
import dataclasses
import json

# HloModuleProtoWithConfig: hlo_module = 1. HloModuleProto: computations = 3, entry_computation_id = 6.
# HloComputationProto: name = 1, instructions = 2, id = 5. HloInstructionProto: name = 1, opcode = 2, metadata = 7
# (OpMetadata: op_name = 2, source_file = 3, source_line = 4), literal = 8 (LiteralProto: s32s = 4),
# called_computation_ids = 38, backend_config = 43.


@dataclasses.dataclass
class Instruction:
    name: str
    opcode: str
    cycles: int  # of one run, as libtpu expects; 0 where it says nothing
    times: float  # how often it runs
    place: str


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """Yields (field number, value): an int, or a memoryview of what has a length."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            n, at = _varint(data, at)
            value, at = data[at : at + n], at + n
        else:
            n = {1: 8, 5: 4}[kind]
            value, at = data[at : at + n], at + n
        yield tag >> 3, value


def _text(value):
    return bytes(value).decode("utf-8", "replace")


def _ids(value):
    """A repeated integer field's values, packed or not."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        n, at = _varint(value, at)
        found.append(n)
    return found


def _instruction(data):
    name = opcode = place = ""
    called, config, number = [], {}, None
    for field, value in fields(data):
        if field == 1:
            name = _text(value)
        elif field == 2:
            opcode = _text(value)
        elif field == 38:
            called += _ids(value)
        elif field == 43 and len(value):
            try:
                config = json.loads(_text(value))
            except ValueError:
                pass
        elif field == 8:
            numbers = [n for inner, part in fields(value) if inner == 4 for n in _ids(part)]
            number = numbers[0] if len(numbers) == 1 else None
        elif field == 7:
            meta = dict(fields(value))
            if 3 in meta:
                place = f"{_text(meta[3])}:{meta.get(4, 0)}"
    return name, opcode, called, config, place, number


def instructions(data):
    """What the entry computation runs, loops' bodies included."""
    computations, entry = {}, None
    module = next(value for field, value in fields(memoryview(data)) if field == 1)
    for field, value in fields(module):
        if field == 3:
            number, body = None, []
            for inner, part in fields(value):
                if inner == 5:
                    number = part
                elif inner == 2:
                    body.append(_instruction(part))
            computations[number] = body
        elif field == 6:
            entry = value
    found = []

    def limits(number):
        """The integer constants of a computation and what it calls."""
        return [n for _, _, called, _, _, n in computations.get(number, ()) if n is not None] + [
            n for _, _, called, *_ in computations.get(number, ()) for inner in called for n in limits(inner)]

    def visit(number, times):
        for name, opcode, called, config, place, _ in computations.get(number, ()):
            window = config.get("window_config", {})
            cycles = int(window.get("estimated_cycles", 0) or 0)
            found.append(Instruction(name, opcode, cycles, times, place))
            if opcode == "while":
                # Where libtpu does not write it: loops that count from 0 have one number in their condition (called:
                # body, condition).
                limit = limits(called[1]) if len(called) == 2 else []
                n = int(config.get("known_trip_count", {}).get("n", limit[0] if len(limit) == 1 else 1))
                for inner in called:
                    visit(inner, times * n)
            elif opcode in ("call", "conditional"):
                for inner in called:
                    visit(inner, times)

    visit(entry, 1)
    return found
