"""The coverage page: docs/coverage.json holds its figures and every task that is not a native pass; coverage.md and
coverage.html print it. A test runs the tasks again and compares."""
import collections
import html as escape
import json
import pathlib

from . import reasons, report

Column = collections.namedtuple("Column", "title database variants dtypes")
COLUMNS = [
    Column("forward float32", "ops", ["forward"], None),
    Column("backward float32", "ops", ["backward"], ["float32"]),
    Column("in place", "ops", ["inplace"], None),
    Column("out=", "ops", ["out"], None),
    *(
        Column(f"forward {dtype}", "ops", ["forward"], [dtype])
        for dtype in ("bfloat16", "int64", "bool", "complex64", "float64")
    ),
    Column("modules forward", "modules", ["forward"], None),
    Column("modules backward", "modules", ["backward"], None),
    Column("optimizers", "optimizers", ["single", "foreach", "fused", "differentiable", "capturable", "sparse"], None),
]
HEAD = ["", "CPU computes", "pass", "pass natively", "", "wrong values", "crashes, hangs", "strides differ"]
LETTERS = {"skip": "s", "unsupported": "u", "fail": "f", "wrong": "W", "timeout": "T", "crash": "X"}


def key(result):
    return result["database"], result["entry"], result["variant"], result["dtype"]


def exceptional(result):
    return result["status"] != "pass" or not result["native"] or bool(result.get("strides"))


def summary(document, tasks_of):
    """What coverage.json holds. tasks_of(column): the column's tasks."""
    found = {key(r): r for r in document["results"]}
    columns = []
    for column in COLUMNS:
        group = [found[t.database, t.entry, t.variant, t.dtype] for t in tasks_of(column)]
        columns.append({"title": column.title, **report.figures(group)})
    exceptions = [
        {
            **dict(zip(("database", "entry", "variant", "dtype"), key(r))),
            "status": r["status"],
            "native": r["native"],
            "strides": bool(r.get("strides")),
            "fallbacks": sorted(r.get("fallbacks", {})),
            **({"message": r.get("message", "")[:200]} if r["status"] not in ("pass", "skip") else {}),
            "reason": (
                "the CPU refuses every sample"
                if r["status"] == "skip"
                else reasons.of(r) if r["status"] != "pass" or not r["native"] else "strides differ"
            ),
        }
        for r in document["results"]
        if exceptional(r)
    ]
    about = {k: document["about"][k] for k in ("torch", "samples", "seed")}
    return {"about": about, "columns": columns, "exceptions": exceptions}


def _where(exceptions):
    """The entries of some exceptions with their variants, one after another."""
    by_entry = collections.OrderedDict()
    for e in exceptions:
        by_entry.setdefault(e["entry"], []).append(f"{e['variant']} {e['dtype']}")
    return ", ".join(
        f"`{entry}` ({', '.join(where)})" if len(by_entry) < 40 else f"`{entry}`" for entry, where in by_entry.items()
    )


def markdown(data):
    about = data["about"]
    body = [[c["title"], c["tested"], c["pass"], c["native"], report.percent(c["native"], c["tested"]), c["wrong"],
             c["crash"] + c["timeout"], c["strides"]] for c in data["columns"]]
    parts = [
        "# Coverage",
        f"PyTorch's own test data (op_db, module_db and optim_db of torch {about['torch']}) on tpu against the CPU, {about['samples']} samples "
        f"of each entry, seed {about['seed']}. *Natively*: no operator of any sample ran on the CPU. Printed by `make coverage`; a test fails "
        "when the code does better or worse than this page says. [coverage.html](coverage.html) has every entry, with a search box.",
        report.markdown_table(HEAD, body),
    ]
    groups = (
        ("What stays on the CPU", [e for e in data["exceptions"] if e["status"] == "pass" and not e["native"]]),
        ("What does not pass", [e for e in data["exceptions"] if e["status"] not in ("pass", "skip")]),
        (
            "Whose strides differ from the CPU's",
            [e for e in data["exceptions"] if e["status"] == "pass" and e["strides"] and e["native"]],
        ),
        ("What the CPU itself refuses", [e for e in data["exceptions"] if e["status"] == "skip"]),
    )
    for title, group in groups:
        by_reason = collections.OrderedDict()
        for e in group:
            by_reason.setdefault(e["reason"], []).append(e)
        if group:
            parts += [
                f"## {title}",
                report.markdown_table(["reason", "entries"], [[why, _where(es)] for why, es in by_reason.items()]),
            ]
    return "\n\n".join(parts) + "\n"


def _letter(r):
    return LETTERS.get(r["status"]) or ("p" if r["native"] else "c")


STYLE = """body{font:14px system-ui,sans-serif;margin:2em;color:#222}table{border-collapse:collapse}th,td{padding:2px 7px;text-align:center}
th{position:sticky;top:0;background:#fff;vertical-align:bottom;font-weight:600}td:first-child,th:first-child{text-align:left;font-family:monospace}
tr:nth-child(even){background:#f6f6f6}input{font:inherit;padding:4px;width:24em;margin:1em 1em 1em 0}.p{color:#087a2f}.c{color:#a66a00;font-weight:700}
.u,.f,.W,.T,.X{color:#c00;font-weight:700}.s,.n{color:#bbb}"""
SCRIPT = """const D=JSON.parse(document.getElementById("d").textContent),N={p:"native",c:"on the CPU",u:"unsupported",f:"error",W:"wrong",T:"hangs",X:"crash",
s:"CPU refuses",n:""},q=document.getElementById("q"),b=document.getElementById("b"),t=document.querySelector("tbody"),k=document.getElementById("k");
function show(){let s=q.value.toLowerCase(),h="",n=0;for(const[e,c]of D.rows){if(!e.toLowerCase().includes(s)||b.checked&&!/[cufWTX]/.test(c))continue;n++;
h+="<tr><td>"+e+"</td>"+[...c].map((x,i)=>'<td class="'+x+'" title="'+(D.notes[e+"/"+i]||N[x])+'">'+({p:"✓",n:"",s:"–"}[x]??N[x])+"</td>").join("")+"</tr>"}
t.innerHTML=h;k.textContent=n+" of "+D.rows.length+" entries"}q.oninput=b.onchange=show;show()"""


def html(document):
    """One page that needs nothing else: a row for each entry, a column for each variant and dtype, a search box."""
    columns = list(report.columns(document["results"]))
    titles = [f"{database} {variant} {dtype}" for database, variant, dtype in columns]
    cells, notes = collections.OrderedDict(), {}
    for r in document["results"]:
        at = columns.index((r["database"], r["variant"], r["dtype"]))
        name = escape.escape(r["entry"])
        cells.setdefault(name, ["n"] * len(columns))[at] = _letter(r)
        text = r.get("message") or ", ".join(f"{op} x{n}" for op, n in r.get("fallbacks", {}).items())
        if text:
            notes[f"{name}/{at}"] = escape.escape(text[:160])
    data = json.dumps(
        {"rows": [[name, "".join(row)] for name, row in cells.items()], "notes": notes}, separators=(",", ":")
    ).replace("</", "<\\/")
    head = "".join(f"<th>{escape.escape(t).replace(' ', '<br>')}</th>" for t in titles)
    figures = "".join(
        "<tr>" + "".join(f"<td>{escape.escape(str(c))}</td>" for c in row) + "</tr>"
        for row in report.rows(document["results"])
    )
    summary = f"<table><tr>{''.join(f'<th>{h}</th>' for h in report.HEAD)}</tr>{figures}</table>"
    return (
        f'<!doctype html><meta charset="utf-8"><title>torch_tpu: coverage</title><style>{STYLE}</style><h1>Coverage of PyTorch</h1>{summary}'
        f'<input id="q" placeholder="search" autofocus><label><input id="b" type="checkbox" style="width:auto">only what is not native</label> '
        f'<span id="k"></span><table><thead><tr><th>entry</th>{head}</tr></thead><tbody></tbody></table>'
        f'<script id="d" type="application/json">{data}</script><script>{SCRIPT}</script>\n'
    )


def write(folder, document, tasks_of):
    folder = pathlib.Path(folder)
    data = summary(document, tasks_of)
    # a line for each column and exception: differences are read in reviews
    lines = ["{", f'"about": {json.dumps(data["about"])},']
    for name, end in (("columns", ","), ("exceptions", "")):
        lines += [f'"{name}": [', ",\n".join(json.dumps(x) for x in data[name]), f"]{end}"]
    (folder / "coverage.json").write_text("\n".join(lines + ["}"]) + "\n")
    (folder / "coverage.md").write_text(markdown(data))
    (folder / "coverage.html").write_text(html(document))


def expected(data, tasks):
    """What the page tells of tasks (dicts that name them): what is no exception is a native pass."""
    told = {key(e): e for e in data["exceptions"]}
    return [told.get(key(t), {"status": "pass", "native": True, "strides": False, "fallbacks": []}) for t in tasks]


def differences(data, results):
    """[text] for each result that is better or worse than the page tells."""
    found = []
    for r, e in zip(results, expected(data, results)):
        says = e["status"], e["native"], e["strides"], e["fallbacks"]
        is_ = r["status"], r["native"], bool(r.get("strides")), sorted(r.get("fallbacks", {}))
        if says != is_:
            found.append(f"{' '.join(key(r))}: the page says {says}, it is {is_} {r.get('message', '')}")
    return found


def read(folder):
    return json.loads((pathlib.Path(folder) / "coverage.json").read_text())
