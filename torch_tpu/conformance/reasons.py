"""What runs on the CPU or does not pass, and why: the one table that the coverage page prints.

A row: a pattern, matched against the operators that ran on the CPU and against the entry's name, and the reason. What
no row explains is an open end, and the page says so."""
import re

REASONS = [
    (r"^chalf$|ComplexHalf", "complex32: no TPU and no StableHLO type has it"),
    (
        r"^special\.bessel_(j0|y1)$",
        "PyTorch's own float64 result on the CPU is off by up to 5e-7; tpu's is within 1e-15 of mpmath's",
    ),
]


def of(result):
    """The reason why a result is not a native pass."""
    names = [result["entry"], *result.get("fallbacks", {}), result.get("message", "")]
    for pattern, why in REASONS:
        if any(re.search(pattern, n) for n in names):
            return why
    return "not done yet" + (": " + ", ".join(sorted(result["fallbacks"])) if result.get("fallbacks") else "")
