"""`make bench`: every script of this folder in a process of its own, and with --write their tables in README.md.

Figures in the README are written by this script only, between its two marker lines, with the date and the machine.
All of it takes about five minutes on two cores that nobody else uses.

  python bench/run.py [--only eager,train] [--write]"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

import common

HERE = pathlib.Path(__file__).parent
README = HERE.parent / "README.md"
SCRIPTS = ["eager", "train", "startup", "compiles"]
BEGIN, END = "<!-- bench: written by bench/run.py --write -->", "<!-- /bench -->"


def processor():
    """The processor's name, as Linux says it."""
    names = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return names[0] if names else platform.machine()


def write(results):
    text = README.read_text()
    old = text.partition(BEGIN)[2].partition(END)[0]
    kept = dict(re.findall(r"<!-- (\w+) -->\n(.*?)(?=<!-- \w+ -->|\Z)", old, re.S))
    where = f"{time.strftime('%Y-%m-%d')}, {common.CORES} cores of {processor()}"
    for r in results:
        tables = [f"{title.replace('_', ' ').capitalize()}:\n\n{t}" for title, t in r["tables"].items()]
        kept[r["name"]] = "\n\n".join([f"`bench/{r['name']}.py`, {where}:", *tables]) + "\n\n"
    body = "".join(f"<!-- {name} -->\n{kept[name]}" for name in SCRIPTS if name in kept)
    before, found, rest = text.partition(BEGIN)
    if not found:
        raise SystemExit(f"README.md has no line {BEGIN}")
    README.write_text(f"{before}{BEGIN}\n{body}{END}{rest.partition(END)[2]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(SCRIPTS))
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    args, extra = parser.parse_known_args()
    results, failed = [], []
    for name in args.only.split(","):
        print(f"\n== bench/{name}.py", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "out.json")
            if subprocess.call([sys.executable, str(HERE / f"{name}.py"), "--json", file, *extra]):
                failed.append(name)
                continue
            results.append(json.loads(pathlib.Path(file).read_text()))
        if args.write:  # now: what comes after may be interrupted
            write(results)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
