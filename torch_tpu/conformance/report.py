"""What a run found: the table on the terminal, JSON, and the Markdown of a run."""
import collections
import json

from .task import STATUSES

BAD = STATUSES[2:]


def columns(results):
    """{(database, variant, dtype): results} in the order of the run."""
    found = collections.OrderedDict()
    for r in results:
        found.setdefault((r["database"], r["variant"], r["dtype"]), []).append(r)
    return found


def figures(results):
    """Counts of one column: of what the CPU itself does, what passes, and what of that never left the device."""
    count = collections.Counter(r["status"] for r in results)
    tested = len(results) - count["skip"]
    passed = count["pass"]
    native = sum(r["status"] == "pass" and r["native"] for r in results)
    return {
        "tested": tested,
        "pass": passed,
        "native": native,
        "strides": sum(bool(r.get("strides")) for r in results if r["status"] == "pass"),
        **{s: count[s] for s in [*BAD, "skip"]},
    }


def percent(part, whole):
    return f"{100 * part / whole:.1f}%" if whole else ""


HEAD = ["database", "variant", "dtype", "tested", "pass", "native", "native %", *BAD, "strides differ", "skip"]


def rows(results):
    for (database, variant, dtype), group in columns(results).items():
        f = figures(group)
        yield [
            database,
            variant,
            dtype,
            f["tested"],
            f["pass"],
            f["native"],
            percent(f["native"], f["tested"]),
            *(f[s] for s in BAD),
            f["strides"],
            f["skip"],
        ]


def table(results):
    cells = [HEAD, *([str(c) for c in row] for row in rows(results))]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEAD))]
    return "\n".join(
        "  ".join(c.ljust(w) if i < 3 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) for row in cells
    )


def remarks(results):
    """[(entry, variant, dtype, what is the matter)] of what does not pass or leaves the device."""
    for r in results:
        said = (
            [] if r["status"] in ("pass", "skip") else [f"{r['status']}: {r.get('message', '')} [{r.get('case', '')}]"]
        )
        if not r.get("native", True) and r["status"] != "skip":
            said.append("on the CPU: " + ", ".join(f"{op} x{n}" for op, n in sorted(r["fallbacks"].items())))
        if r.get("refused"):
            said.append("graphs that run operator by operator: " + "; ".join(r["refused"]))
        if r.get("strides"):
            said.append(f"strides differ in {r['strides']} of {r['cases']} cases")
        if said:
            yield r["entry"], r["variant"], r["dtype"], "; ".join(said)


def markdown_table(head, body):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |" for row in body)])


def markdown(document):
    results = document["results"]
    about = ", ".join(f"{k} {v}" for k, v in document["about"].items())
    return "\n\n".join(["# Conformance", about + ".", markdown_table(HEAD, rows(results)), "## What is the matter",
                        markdown_table(["entry", "variant", "dtype", ""], remarks(results))]) + "\n"


def save(path, document):
    with open(path, "w") as f:
        json.dump(document, f, indent=0)
