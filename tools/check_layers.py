"""Checks the include direction that csrc/README.md gives: base <- pjrt, hlo <- ops, view <- graph <- shim <- dist <-
python."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parent.parent / "csrc"
BELOW = {
    "base": "",
    "pjrt": "base",
    "hlo": "base",
    "ops": "base hlo",
    "view": "base hlo",
    "graph": "base pjrt hlo ops view",
    "shim": "base pjrt hlo ops view graph",
    "dist": "base pjrt hlo ops view graph shim",
    "python": "base pjrt hlo ops view graph shim dist",
}
bad = [
    f"{f.relative_to(ROOT.parent)}: includes {i}"
    for layer, may in BELOW.items()
    for f in sorted((ROOT / layer).iterdir())
    if f.suffix in (".c", ".h", ".cpp")
    for i in re.findall(r'#include "([^"]+)"', f.read_text())
    if "/" in i and i.split("/")[0] not in [layer, *may.split()]
]
bad += [
    f"{f.relative_to(ROOT.parent)}: includes torch"
    for f in ROOT.rglob("*.[ch]")
    if f.parent.name not in ("shim", "dist") and re.search(r"#include [<\"](torch|ATen|c10)/", f.read_text())
]
sys.exit("\n".join(bad)) if bad else print(f"layers: {len(list(ROOT.rglob('*.[ch]*')))} files, all includes point down")
