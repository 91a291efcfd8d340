"""The lowering table against the installed torch."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_rows_name_operators_of_the_installed_torch():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "rows.py"), "check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_layers_point_one_way():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "check_layers.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_native_file_is_long():
    sizes = {f.name: f.read_text().count("\n") for f in (ROOT / "csrc").rglob("*.c*")}
    assert not {name: n for name, n in sizes.items() if n > 800}
    # made by a tool
    shim = sum(f.read_text().count("\n") for f in (ROOT / "csrc" / "shim").iterdir() if f.name != "refusals.h")
    core = sum(f.read_text().count("\n") for f in (ROOT / "csrc").rglob("*.c"))
    assert shim < 4550 and core > shim
