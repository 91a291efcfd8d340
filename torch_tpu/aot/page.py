"""What compiled programs are, as one page of HTML that needs nothing else."""
import html
import math

from . import estimate, report

STYLE = """body{font:14px system-ui,sans-serif;margin:2em;max-width:70em;color:#222}table{border-collapse:collapse;margin:1em 0}
td,th{padding:3px 10px;border-bottom:1px solid #e4e4e4;text-align:left}td.n,th.n{text-align:right;white-space:nowrap}.bad{color:#c00;font-weight:700}.good{color:#087a2f}
svg{background:#fafafa;border:1px solid #ddd}text{font:11px system-ui,sans-serif}code{font-size:12px}"""
KINDS = (("arguments", "#3572b0"), ("outputs", "#6aa84f"), ("temporaries", "#e69138"), ("code", "#999"))


def _table(head, rows, numbers=()):
    kind = lambda i: ' class="n"' if i in numbers else ""  # noqa: E731
    top = "".join(f"<th{kind(i)}>{html.escape(h)}" for i, h in enumerate(head))
    return (
        f"<table><tr>{top}</tr>"
        + "".join("<tr>" + "".join(f"<td{kind(i)}>{c}" for i, c in enumerate(row)) + "</tr>" for row in rows)
        + "</table>"
    )


def memory_chart(m, width=640):
    """A bar of what a device's HBM holds, against what it has."""
    scale = width / max(m.total, m.available)
    parts, x = [], 0.0
    for name, colour in KINDS:
        w = getattr(m, name) * scale
        parts.append(
            f'<rect x="{x:.1f}" y="10" width="{w:.1f}" height="30" fill="{colour}"><title>{name}: {report.gib(getattr(m, name))}</title></rect>'
        )
        x += w
    end = m.available * scale
    key = "".join(
        f'<rect x="{10 + 160 * i}" y="52" width="10" height="10" fill="{c}"/><text x="{24 + 160 * i}" y="61">{n} {report.gib(getattr(m, n))}</text>'
        for i, (n, c) in enumerate(KINDS)
    )
    return (f'<svg width="{width + 20}" height="70" role="img" aria-label="memory by kind">{"".join(parts)}'
            f'<line x1="{end:.1f}" x2="{end:.1f}" y1="4" y2="46" stroke="#c00" stroke-width="2"/>{key}</svg>')


def roofline_chart(c, width=640, height=300):
    """The kernels by intensity (operations for each byte) and by the speed that the roofline allows them, both on log
    scales."""
    top, slope = c.topology.peak(), c.topology.bandwidth
    points = []
    for kernel, seconds in report.dearest(c, 40):
        op, times, cost = kernel.op, kernel.times, kernel.cost
        work = sum(cost.passes.values()) or cost.vector
        if work and cost.bytes and seconds:
            points.append((work / cost.bytes, work * times / seconds, seconds, op.name))
    ridge = top / slope
    low, high = min([p[0] for p in points] + [ridge / 100]), max([p[0] for p in points] + [ridge * 10])
    floor = min([p[1] for p in points] + [slope * low]) / 2
    x = lambda v: 50 + (math.log(v) - math.log(low)) / (math.log(high) - math.log(low)) * (width - 70)  # noqa: E731
    # noqa: E731
    y = (
        lambda v: height
        - 35
        - (math.log(v) - math.log(floor)) / (math.log(top * 1.5) - math.log(floor)) * (height - 60)
    )
    longest = max([p[2] for p in points] + [1e-30])
    dots = "".join(
        f'<circle cx="{x(i):.1f}" cy="{y(min(s, top)):.1f}" r="{3 + 9 * math.sqrt(t / longest):.1f}" fill="#3572b0" fill-opacity="0.5">'
        f"<title>{html.escape(name)}: {i:.1f} FLOP/B, {report.duration(t)}</title></circle>"
        for i, s, t, name in points
    )
    roof = f"M{x(low):.1f},{y(max(slope * low, floor)):.1f} L{x(ridge):.1f},{y(top):.1f} L{x(high):.1f},{y(top):.1f}"
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="roofline"><path d="{roof}" fill="none" stroke="#c00" stroke-width="2"/>{dots}'
        f'<text x="{x(ridge) + 4:.1f}" y="{y(top) - 16:.1f}">{report.amount(top, "FLOP/s")} (bf16)</text>'
        f'<text x="60" y="18">speed</text><text x="{width - 190}" y="{height - 12}">operations for each byte of HBM</text>'
        f'<text x="{x(ridge) - 20:.1f}" y="{height - 12}">{ridge:.0f}</text></svg>'
    )


def _section(title, c):
    rows = [(html.escape(what), html.escape(value)) for what, value in report.rows(c)]
    dearest = []
    for kernel, seconds in report.dearest(c, 15):
        op, times, cost, parts = kernel.op, kernel.times, kernel.cost, estimate.seconds(kernel, c.topology)
        dearest.append(
            (
                report.duration(seconds),
                f"{times:.0f}",
                f"<code>{html.escape(report.shape(op))}</code>",
                max(parts, key=parts.get),
                report.amount(sum(cost.matrix.values()) + cost.vector),
                report.amount(cost.bytes, "B"),
                html.escape(op.place),
            )
        )
    return (
        f"<h2>{html.escape(title)}</h2>{_table(('', ''), rows)}<h3>Memory of a device</h3>{memory_chart(c.memory)}"
        f"<h3>Roofline</h3>{roofline_chart(c)}<h3>The longest operations, by roofline</h3>"
        + _table(("time", "runs", "operation", "waits for", "operations", "bytes", "source"), dearest, (0, 1, 4, 5))
    )


def sweep_chart(results, width=640, height=240):
    """Bars of the roofline times of [(title, Compiled or error)]."""
    fine = [(title, c) for title, c in results if not isinstance(c, Exception)]
    longest = max((c.estimate.roofline for _, c in fine), default=1) or 1
    bars = []
    step = (height - 20) / max(len(fine), 1)
    for i, (title, c) in enumerate(fine):
        w = c.estimate.roofline / longest * (width - 330)
        at = 10 + i * step
        bars.append(
            f'<text x="5" y="{at + 14:.1f}">{html.escape(title[:34])}</text><rect x="220" y="{at:.1f}" width="{max(w, 1):.1f}" height="{min(step - 4, 22):.1f}" '
            f'fill="#3572b0"/><text x="{225 + w:.1f}" y="{at + 14:.1f}">{report.duration(c.estimate.roofline)}, {c.estimate.mfu:.0%}</text>'
        )
    return f'<svg width="{width}" height="{height}" role="img" aria-label="times">{"".join(bars)}</svg>'


def page(title, results):
    """results: [(title, Compiled, or the error that says why it does not compile)]."""
    rows = []
    for name, c in results:
        if isinstance(c, Exception):
            rows.append(
                (html.escape(name), f'<span class="bad">{html.escape(str(c).splitlines()[0][:300])}</span>', "", "", "")
            )
        else:
            fits = c.memory.total <= c.memory.available
            rows.append(
                (
                    html.escape(name),
                    f'<span class="{"good" if fits else "bad"}">{"fits" if fits else "does not fit"}</span>, {report.gib(c.memory.total)} of '
                    f"{report.gib(c.memory.available)}",
                    report.duration(c.estimate.roofline),
                    report.duration(c.estimate.cycles),
                    f"{c.estimate.mfu:.1%}",
                )
            )
    body = _table(("compiled for", "memory of a device", "roofline", "libtpu's cycles", "utilization"), rows, (2, 3, 4))
    if len(rows) > 1:
        body += sweep_chart(results)
    body += "".join(_section(name, c) for name, c in results if not isinstance(c, Exception))
    notes = html.escape(" ".join(estimate.__doc__.split()))
    return f'<!doctype html><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style><h1>{html.escape(title)}</h1>{body}<h2>How times are estimated</h2><p>{notes}</p>'
