"""Keeps csrc/ops/table.c sorted and csrc/ops/rules.h in step with the rules that csrc/ops/*.c define.

  python tools/rows.py add FILE...   merge rows (C initialisers, one a line); a row of the same name is replaced
  python tools/rows.py remove NAME...
  python tools/rows.py rules         write rules.h anew (add does it too)
  python tools/rows.py check         compare the table with the installed torch: names, composites, rules

It rewrites whole files under a lock, so that two runs do not lose each other's rows."""
import fcntl
import glob
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "csrc", "ops")
TABLE, RULES = os.path.join(ROOT, "table.c"), os.path.join(ROOT, "rules.h")
FIELD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^",]+)\s*(?:,|$)')
ROW = re.compile(r"^\s*\{(\".*)\},?\s*$")
TABLE_HEAD = """/* table.c: the lowering table: every base operator that has a rule, sorted by name.
 *
 * What differs between operators is a row; what is the same is a rule (rules.h). A row holds a functional operator of torch, never
 * one that torch composes of others under autograd; in-place, out= and foreach forms use the same row. tools/rows.py keeps
 * the order and the columns. */
#include <string.h>
#include "ops/rules.h"

static const tt_op table[] = {
"""
TABLE_TAIL = """};

const tt_op *tt_op_find(const char *name) {
  size_t low = 0, high = sizeof table / sizeof *table;
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = strcmp(name, table[middle].name);
    if (order == 0) return &table[middle];
    if (order < 0) high = middle;
    else low = middle + 1;
  }
  return NULL;
}

const tt_op *tt_op_row(int i) { return i >= 0 && (size_t)i < sizeof table / sizeof *table ? &table[i] : NULL; }
"""


def parse(lines, where):
    rows = {}
    for number, line in enumerate(lines, 1):
        m = ROW.match(line.rstrip("\n"))
        if not m:
            continue
        fields = [f.strip() for f in FIELD.findall(m.group(1))]
        if len(fields) != 6:
            sys.exit(f"{where}:{number}: expected 6 fields, got {len(fields)}: {line.strip()}")
        rows[fields[0].strip('"')] = fields
    return rows


def print_table(rows):
    names = sorted(rows, key=lambda n: n.encode())
    widths = [max((len(rows[n][i]) for n in names), default=0) + 1 for i in range(5)]
    out = [TABLE_HEAD]
    for n in names:
        f = rows[n]
        out.append("  {" + " ".join((f[i] + ",").ljust(widths[i]) for i in range(5)) + " " + f[5] + "},\n")
    out.append(TABLE_TAIL)
    return "".join(out)


def print_rules():
    out = ["/* rules.h: the rules that table.c names, by file. Written by tools/rows.py from the definitions. */\n",
           "#ifndef TT_OPS_RULES_H\n#define TT_OPS_RULES_H\n#include \"ops/op.h\"\n"]
    for path in sorted(glob.glob(os.path.join(ROOT, "*.c"))):
        with open(path) as f:
            found = re.findall(r"^void (rule_\w+)\(tt_ctx \*c\)", f.read(), re.M)
        if found:
            out.append(f"\n/* {os.path.basename(path)} */\n")
            out += [f"tt_rule {name};\n" for name in sorted(found)]
    out.append("#endif\n")
    return "".join(out)


def write(path, text):
    if os.path.exists(path) and open(path).read() == text:
        return
    with open(path + ".new", "w") as f:
        f.write(text)
    os.replace(path + ".new", path)


def check(rows):
    import torch
    import torch_tpu  # noqa: F401  (our own operators)
    rules = set(re.findall(r"tt_rule (rule_\w+);", print_rules()))
    bad = 0
    for n, f in sorted(rows.items()):
        base, _, overload = n.partition(".")
        problem = None
        if "::" not in n:  # rows of our own operators name the library they are in
            base, n = "aten::" + base, "aten::" + n
        try:
            schemas = torch._C._jit_get_schemas_for_operator(base)
            if overload not in [s.overload_name for s in schemas]:
                problem = "torch has no such overload"
            elif torch._C._dispatch_has_kernel_for_dispatch_key(n, "CompositeImplicitAutograd") \
                    and not torch._C._dispatch_has_kernel_for_dispatch_key(n, "Autograd"):  # silu_backward has both
                problem = "composite: a row would cut autograd"
        except RuntimeError as e:
            problem = str(e)
        if f[1] not in rules:
            problem = f"rule {f[1]} is not defined"
        if problem:
            bad += 1
            print(f"{n}: {problem}")
    print(f"{len(rows)} rows, {bad} problems")
    return bad


def main(argv):
    if not argv or argv[0] not in ("add", "remove", "rules", "check"):
        sys.exit(__doc__)
    with open(os.path.join(ROOT, "op.h")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = parse(open(TABLE), TABLE) if os.path.exists(TABLE) else {}
        if argv[0] == "check":
            sys.exit(1 if check(rows) else 0)
        for a in argv[1:]:
            if argv[0] == "remove":
                rows.pop(a, None)
            else:
                rows.update(parse(open(a), a))
        if argv[0] != "rules":
            write(TABLE, print_table(rows))
        write(RULES, print_rules())


if __name__ == "__main__":
    main(sys.argv[1:])
