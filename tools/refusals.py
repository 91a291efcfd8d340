"""Writes csrc/shim/refusals.h: which operators refuse which dtypes on the CPU, and in which words.

  python tools/refusals.py            runs PyTorch's own samples (op_db), in these dtypes, on the CPU; a few minutes
  python tools/refusals.py check RE   the same for samples whose name matches: does the header say what torch does?

torch's kernels refuse dtypes in words of their own ('"lcm_cpu" not implemented for 'Float''), and no table of torch's
tells which. An operator is listed for a dtype if it refused every call whose first tensor, and whose tensors together,
were of that dtype, and was taken in some other dtype. Calls that name a dtype, or that compute in the dtype of a
number, are left alone. 16-bit and 8-bit floats are left out: the tpu computes in them where the CPU has no kernel."""
import json
import os
import re
import sys
import warnings
from collections import Counter, defaultdict

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "csrc", "shim", "refusals.h")
DTYPES = {
    torch.bool: "Bool",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.float32: "Float",
    torch.float64: "Double",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}
BITS = list(DTYPES)
KINDS = ("RuntimeError", "NotImplementedError", "ValueError", "IndexError")  # as refuse.cpp counts them
INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
COMPUTED = {"histc": INTEGERS}  # as on CUDA, which code for every device but the CPU relies on
VALUES = re.compile("without overflow|safely cast|can't be cast|INTERNAL ASSERT")  # refusals of values, not of dtypes
ROW = re.compile(r'^    \{"([^"]+)", (".*"), (\d), (\d+)\},$', re.M)
TOP = """// refusals.h: operators that refuse dtypes on the CPU, by name: in which words ("{}" is the dtype), as which exception, and a bit for
// each of bool, uint8, int8, int16, int32, int64, float32, float64, complex64 and complex128. Written by tools/refusals.py.
static const struct Refusal {
  const char *op, *words;
  unsigned kind, dtypes;
} refusals[] = {
"""


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.able = set()
        self.refused, self.taken = defaultdict(Counter), set()  # (operator, dtype): how often in which words; or taken

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves = tree_flatten((args, kwargs))[0]
        tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
        dtypes = [t.dtype for t in tensors]
        key = None
        if (
            dtypes
            and "Scalar" not in func._schema.overload_name
            and not any(isinstance(x, torch.dtype) for x in leaves)
        ):
            together = dtypes[0]
            for t in dtypes[1:]:
                together = torch.promote_types(together, t)
            if together == dtypes[0] and together in DTYPES:
                name = func._schema.name.split("::")[1]
                name = name if name.startswith("_") else name.rstrip("_")
                key = (name + (func._schema.overload_name and "." + func._schema.overload_name), together)
        try:
            result = func(*args, **kwargs)
        except Exception as x:
            if key and type(x).__name__ in KINDS and not VALUES.search(str(x)):
                words = re.sub(rf"\b{DTYPES[key[1]]}\b", "{}", str(x))
                self.refused[key][words, KINDS.index(type(x).__name__)] += 1
            raise
        self.able.add(key and key[0])
        if all(t.numel() for t in tensors):  # else kernels return before they look at the dtype
            self.taken.add(key)
        return result


def record(pattern):
    from torch.testing._internal.common_methods_invocations import op_db
    recorder = Recorder()
    for op in op_db:
        if not re.search(pattern, op.name):
            continue
        own = next(
            (t for t in (torch.float32, torch.float64, torch.int64, torch.bool) if t in op.supported_dtypes("cpu")),
            None,
        )
        torch.manual_seed(0)
        try:
            samples = [s for s, _ in zip(op.sample_inputs("cpu", own), range(12))]
        except Exception:
            continue  # not the samples' point
        for dtype in DTYPES:
            def cast(x):
                return x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype == own else x

            for s in samples:
                with recorder:
                    try:
                        op(
                            cast(s.input) if isinstance(s.input, torch.Tensor) else tree_map(cast, s.input),
                            *tree_map(cast, s.args),
                            **tree_map(cast, s.kwargs),
                        )
                    except Exception:
                        pass  # refused in whatever words: the recorder has seen it
    rows = defaultdict(int)
    for key, words in recorder.refused.items():
        (text, kind), count = words.most_common(1)[0]
        if key[1] in COMPUTED.get(key[0], ()):
            continue
        if key not in recorder.taken and key[0] in recorder.able and 2 * count > words.total() and "\n" not in text:
            rows[key[0], json.dumps(text), kind] |= 1 << BITS.index(key[1])
    return rows


def main():
    warnings.simplefilter("ignore")
    pattern = sys.argv[2] if sys.argv[1:2] == ["check"] else "."
    rows = record(pattern)
    if sys.argv[1:2] == ["check"]:
        with open(HEADER) as f:
            listed = {(op, words, int(kind)): int(mask) for op, words, kind, mask in ROW.findall(f.read())}
        wrong = [row for row, mask in listed.items() if row[0] in {r[0] for r in rows} and mask & ~rows.get(row, 0)]
        sys.exit(f"refused by torch otherwise than {HEADER} says: {wrong}" if wrong else 0)
    with open(HEADER, "w") as f:
        f.write(
            TOP
            + "".join(f'    {{"{op}", {words}, {kind}, {mask}}},\n' for (op, words, kind), mask in sorted(rows.items()))
            + "};\n"
        )


if __name__ == "__main__":
    main()
