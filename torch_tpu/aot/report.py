"""What a compiled program is, for people: a table."""
from . import estimate
from .topology import GIB


def amount(n, unit=""):
    """1234567 -> "1.23 M"."""
    for scale, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(n) >= scale:
            return f"{n / scale:.2f} {letter}{unit}"
    return f"{n:.0f} {unit}".rstrip()


def duration(s):
    return f"{s:.2f} s" if s >= 1 else f"{s * 1e3:.2f} ms" if s >= 1e-3 else f"{s * 1e6:.1f} us"


def gib(n):
    return f"{n / GIB:.2f} GiB" if n >= GIB / 100 else f"{n / 2**20:.2f} MiB"


def rows(c):
    """[(what, value)] of a Compiled."""
    m, e = c.memory, c.estimate
    return [
        (
            "topology",
            f"{c.topology.name}: {c.topology.chips} chips, compiled for {c.devices if c.devices > 1 else 'one'} of {len(c.topology.devices)} devices",
        ),
        ("memory", f"{gib(m.total)} of {gib(m.available)} ({m.total / m.available:.0%})"),
        ("  arguments", gib(m.arguments)),
        ("  outputs", gib(m.outputs)),
        ("  temporaries", gib(m.temporaries)),
        ("  code", gib(m.code)),
        (
            "operations",
            f"{amount(c.cost.flops, 'FLOP')}, of matrix products {amount(sum(c.cost.matrix.values()), 'FLOP')}",
        ),
        (
            "traffic",
            f"{amount(c.cost.bytes, 'B')} of HBM"
            + (f", {amount(c.cost.sent, 'B')} sent to other devices" if c.cost.sent else ""),
        ),
        ("time", f"{duration(e.roofline)} by roofline, bound by {e.bound}; {duration(e.cycles)} by libtpu's cycles"),
        ("utilization", f"{e.mfu:.1%} of {amount(c.topology.peak(), 'FLOP/s')} (bf16), if the roofline is met"),
    ]


def dearest(c, n=10):
    """[(count.Kernel, seconds by roofline of all its runs)], the longest first."""
    found = []
    for kernel in c.counter.kernels:
        parts = estimate.seconds(kernel, c.topology)
        found.append((kernel, (max(parts["compute"], parts["memory"]) + parts["links"]) * kernel.times))
    return sorted(found, key=lambda row: -row[1])[:n]


def shape(op):
    """"dot_general f32[4096x16384]"."""
    dims, dtype, _ = op.result_types[0]
    return f"{op.name} {dtype}[{'x'.join(map(str, dims))}]"


def table(c):
    lines = [f"{what:14} {value}" for what, value in rows(c)]
    lines.append("the longest operations, by roofline:")
    for kernel, seconds in dearest(c, 5):
        op, times = kernel.op, kernel.times
        lines.append(
            f"  {duration(seconds):>10}  {shape(op)}"
            + (f" x{times:.0f}" if times > 1 else "")
            + (f"  {op.place}" if op.place else "")
        )
    return "\n".join(lines)


def sweep(results):
    """[(title, Compiled or the error)] as a table, a line for each."""
    rows = [("compiled for", "memory of a device", "roofline", "libtpu's cycles", "utilization")]
    for title, c in results:
        if isinstance(c, Exception):
            rows.append((title, str(c).splitlines()[0], "", "", ""))
        else:
            m, e = c.memory, c.estimate
            fits = "" if m.total <= m.available else ": does not fit"
            rows.append(
                (
                    title,
                    f"{gib(m.total)} of {gib(m.available)}{fits}",
                    duration(e.roofline),
                    duration(e.cycles),
                    f"{e.mfu:.1%}",
                )
            )
    widths = [max(len(r[i]) for r in rows if r[2]) for i in range(5)]
    return "\n".join("  ".join(x.ljust(w) for x, w in zip(r, widths)).rstrip() for r in rows)
