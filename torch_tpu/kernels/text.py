"""A function in StableHLO text as a part of our programs: its types, and its text under names that nobody else uses.

The text is a module as MLIR prints it, or functions alone. Only what a function's head says is understood here, and
where bodies begin and end; whether the text is right, the compiler says. Locations and attributes of arguments are left
out, aliases (#map = ...) put in their places."""
import dataclasses
import hashlib
import re

import torch

DTYPES = {"i1": torch.bool, "ui8": torch.uint8, "ui16": torch.uint16, "ui32": torch.uint32, "ui64": torch.uint64,
          "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "f16": torch.float16,
          "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "complex<f32>": torch.complex64,
          "complex<f64>": torch.complex128, "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2,
          "f8E4M3FNUZ": torch.float8_e4m3fnuz, "f8E5M2FNUZ": torch.float8_e5m2fnuz, "f8E8M0FNU": torch.float8_e8m0fnu}
_STRING = r'"(?:[^"\\]|\\.)*"'
_TYPE = re.compile(r"tensor<((?:(?:\d+|\?)x)*)(complex<f\d+>|[A-Za-z]\w*)>")
_HEAD = re.compile(r"\bfunc\.func\b\s*(?:(?:public|private|nested)\s+)?@")
_NAME = re.compile(rf'{_STRING}|@({_STRING}|[A-Za-z_][\w$.-]*)')
_CLOSES = {"(": ")", "{": "}", "[": "]", "<": ">"}


@dataclasses.dataclass(frozen=True)
class Spec:
    """What is known of a tensor: its dtype (torch's) and shape."""

    dtype: torch.dtype
    shape: tuple

    def __str__(self):
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


@dataclasses.dataclass(frozen=True)
class Function:
    """A function that programs can call: key is a digest of its text, entry its name there, args and results are
    Specs."""

    key: str
    entry: str
    text: str
    args: tuple
    results: tuple


def spec_of(x) -> Spec:
    return Spec(x.dtype, tuple(int(n) for n in x.shape))


class TextError(ValueError):
    """The text is no StableHLO function that can be a part of a program."""


def _masked(text):
    """The text with blanks for what stands in strings and comments, each character in its place."""
    return re.sub(rf"{_STRING}|//[^\n]*", lambda m: " " * len(m[0]), text)


def _end(mask, start):
    """Where the bracket that opens at start has been closed."""
    waiting = []
    for at in range(start, len(mask)):
        c = mask[at]
        if c in _CLOSES:
            waiting.append(_CLOSES[c])
        elif waiting and c == waiting[-1] and not (c == ">" and mask[at - 1] == "-"):
            waiting.pop()
            if not waiting:
                return at + 1
    raise TextError(f"a '{mask[start]}' of line {mask.count(chr(10), 0, start) + 1} is never closed")


def _brace_end(mask, start):
    depth = 0
    for m in re.compile(r"[{}]").finditer(mask, start):
        depth += 1 if m[0] == "{" else -1
        if not depth:
            return m.end()
    raise TextError(f"a '{{' of line {mask.count(chr(10), 0, start) + 1} is never closed")


def _cut(text, pattern):
    """The text without what begins with pattern, whose last character is a bracket that has an end."""
    mask, at, kept = _masked(text), 0, []
    for m in re.compile(pattern).finditer(mask):
        if m.start() < at:
            continue
        kept.append(text[at:m.start()])
        at = _end(mask, m.end() - 1)
    return "".join(kept) + text[at:]


def _without_aliases(text):
    """Without lines #name = attribute and !name = type: these stand where the names stood."""
    aliases = {}

    def note(m):
        if m[2].strip():  # else a location, which is cut already
            aliases[m[1]] = m[2]
        return ""

    text = re.sub(r"^([#!][A-Za-z_][\w$]*)[ \t]*=[ \t]*(.*)$", note, text, flags=re.M)
    uses = re.compile(rf"{_STRING}|[#!][A-Za-z_][\w$]*(?![\w$.<])")
    for _ in range(8):  # aliases of aliases
        before = text
        text = uses.sub(lambda m: aliases.get(m[0], m[0]), text)
        if text == before:
            break
    return text


def _spec(text, where):
    m = _TYPE.fullmatch(text.strip())
    if not m:
        raise TextError(f"{where}: expected a tensor of static sizes, got {text.strip()!r}")
    if "?" in m[1]:
        raise TextError(f"{where}: a dim of {text.strip()} has no size; sizes have to be static")
    if m[2] not in DTYPES:
        raise TextError(f"{where}: torch has no dtype for {m[2]}")
    return Spec(DTYPES[m[2]], tuple(int(n) for n in m[1].split("x") if n))


def _parts(text):
    """Between commas that stand in no bracket."""
    mask, at, depth, found = _masked(text), 0, 0, []
    for i, c in enumerate(mask):
        depth += (c in "(<{[") - (c in ")]}" or (c == ">" and mask[i - 1] != "-"))
        if c == "," and not depth:
            found.append(text[at:i])
            at = i + 1
    return [p for p in [*found, text[at:]] if p.strip()]


def _functions(text):
    """(name, [(argument, type)], [result type], body) of each function."""
    mask, at, found = _masked(text), 0, []
    for m in _HEAD.finditer(mask):
        if m.start() < at:
            continue
        name = _NAME.match(text, m.end() - 1)
        if not name:
            raise TextError(f"a function of line {text.count(chr(10), 0, m.start()) + 1} has no name")
        opening = mask.index("(", name.end())
        closing = _end(mask, opening)
        args = [tuple(s.strip() for s in p.split(":", 1)) for p in _parts(_cut(text[opening + 1:closing - 1], r"\{"))]
        rest = re.compile(r"\s*->\s*").match(mask, closing)
        results = []
        if rest:
            closing = rest.end()
            if mask[closing] == "(":
                start, closing = closing + 1, _end(mask, closing)
                results = _parts(_cut(text[start:closing - 1], r"\{"))
            else:
                one = _TYPE.match(text, closing)
                if not one:
                    raise TextError(f"@{name[1]}: expected a tensor of static sizes as its result")
                closing, results = one.end(), [one[0]]
        attributes = re.compile(r"\s*attributes\s*(?=\{)").match(mask, closing)
        if attributes:
            closing = _brace_end(mask, attributes.end())
        body = re.compile(r"\s*(?=\{)").match(mask, closing)
        if not body:
            raise TextError(f"@{name[1]} is declared and has no body")
        at = _brace_end(mask, body.end())
        found.append((name[1], args, results, text[body.end():at]))
    return found


def parse(text: str, entry: str | None = None) -> Function:
    """The function named entry of a module (None: main, or the only one), with all it calls. TextError where that
    cannot be."""
    given = text
    text = _without_aliases(_cut(text, r"\bloc\("))
    found = _functions(text)
    if not found:
        generic = " (in MLIR's generic form; print it in the pretty one)" if '"func.func"' in text else ""
        raise TextError(f"there is no function func.func @name(...) in the text{generic}")
    names = [name for name, *_ in found]
    chosen = entry or ("main" if "main" in names else names[0])
    if chosen not in names or (entry is None and "main" not in names and len(names) > 1):
        raise TextError(f"expected a function @{entry or 'main'} among @{', @'.join(names)}")
    if re.search(r"mhlo\.num_(partitions|replicas) = (?!1 )", _masked(given)):
        raise TextError("the module is for many devices (mhlo.num_partitions); a kernel runs on one")
    digest = hashlib.sha256(f"{chosen}\n{text}".encode()).hexdigest()[:32]
    new = {name: f"k{digest}_{i}" for i, name in enumerate(names)}

    def renamed(m):
        return "@" + new[m[1]] if m[1] in new else m[0]

    out = []
    for name, args, results, body in found:
        if any(len(a) != 2 for a in args):
            raise TextError(f"@{name}: its arguments have no names")
        head = ", ".join(f"{a}: {t}" for a, t in args)
        types = ", ".join(r.strip() for r in results)
        out.append(f"  func.func private @{new[name]}({head}) -> ({types}) {_NAME.sub(renamed, body)}\n")
    _, args, results, _ = found[names.index(chosen)]
    if not results:
        raise TextError(f"@{chosen} returns nothing")
    takes = tuple(_spec(t, f"argument {i} of @{chosen}") for i, (_, t) in enumerate(args))
    gives = tuple(_spec(t, f"result {i} of @{chosen}") for i, t in enumerate(results))
    return Function(digest, new[chosen], "".join(out), takes, gives)
