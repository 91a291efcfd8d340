"""Caches of compiled programs: the command line, packs, the shared root, running without a compiler."""
import os
import subprocess
import sys

import pytest
from torch_tpu import cache

pytestmark = [pytest.mark.tpu, pytest.mark.strict("looks at the programs that single calls leave in a cache")]
STEP = """
import torch, torch_tpu
x = torch.arange(6., device="tpu")
print(((x.view(2, 3) @ x.view(3, 2)).relu() + 1).sum().item())
c = torch_tpu.counters()
print(c["compiles"], c["cache_hits_disk"], c["cache_hits_shared"], c["cache_misses"])
"""


def step(python, folder, **env):
    status, out, err = python(
        STEP, TORCH_TPU_CACHE_DIR=str(folder), **{"TORCH_TPU_CACHE_SHARED": None, "TORCH_TPU_CACHE_ONLY": None, **env}
    )
    assert status == 0, err
    value, counts = out.strip().splitlines()
    assert float(value) == 95.0
    return [int(n) for n in counts.split()]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache with the programs of STEP, made by another process, and a pack of it."""
    folder = tmp_path_factory.mktemp("filled") / "cache"
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(folder)}
    env.pop("TORCH_TPU_CACHE_SHARED", None)
    subprocess.run([sys.executable, "-c", STEP], env=env, check=True, capture_output=True)
    pack = folder.parent / "pack.tgz"
    cache.pack(folder, pack)
    return folder, pack


def cli(*arguments):
    return cache.main([str(a) for a in arguments])


def test_a_pack_serves_another_folder_without_a_compile(python, filled, tmp_path, capsys):
    folder, pack = filled
    n = len(cache.entries(folder))
    assert n >= 3 and cli("--dir", tmp_path, "unpack", pack) == 0
    assert capsys.readouterr().out == f"{n} new programs in {tmp_path}\n"
    assert cli("--dir", tmp_path, "unpack", pack) == 0 and capsys.readouterr().out.startswith("0 new")
    assert cache.entries(tmp_path)[0][1:2] and cache.names(tmp_path) == cache.names(folder)
    assert all(f.stat().st_mode & 0o077 == 0 for f in tmp_path.glob("*.ttx"))
    assert step(python, tmp_path, TORCH_TPU_CACHE_ONLY="1") == [0, n, 0, 0]


def test_without_a_compiler_a_miss_is_an_error(python, tmp_path):
    code = "import torch\nx = torch.ones(3, device='tpu')\n"
    for op in ("x + 1", "torch.special.entr(torch.nn.functional.hardswish(x))"):
        status, out, err = python(
            code + op, TORCH_TPU_CACHE_DIR=str(tmp_path), TORCH_TPU_CACHE_ONLY="1", TORCH_TPU_FALLBACK="warn"
        )
        last = err.strip().splitlines()[-1]
        assert (
            status and "TORCH_TPU_CACHE_ONLY is set" in last and str(tmp_path) in last and "RuntimeError" in last
        ), err


def test_a_shared_root_serves_a_second_machine(python, tmp_path):
    one, two, root = tmp_path / "one", tmp_path / "two", tmp_path / "mounted" / "root"
    compiles = step(python, one, TORCH_TPU_CACHE_SHARED=str(root))[0]
    assert compiles >= 3 and len(cache.entries(root)) == compiles
    assert step(python, two, TORCH_TPU_CACHE_SHARED=str(root)) == [0, compiles, compiles, 0]
    assert step(python, two) == [0, compiles, 0, 0]  # they were copied
    for f in root.glob("*.ttx"):
        f.chmod(0o666)  # anybody may have written it
    assert step(python, tmp_path / "three", TORCH_TPU_CACHE_SHARED=str(root))[0] == compiles


def test_a_root_that_is_not_there_is_no_trouble(python, tmp_path):
    (tmp_path / "file").write_text("")
    assert step(python, tmp_path / "own", TORCH_TPU_CACHE_SHARED=str(tmp_path / "file" / "root"))[0] >= 3


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "other", "missing", "name", "unlisted"])
def test_a_damaged_pack_adds_nothing(filled, tmp_path, damage, capsys):
    import io
    import tarfile

    bad, into = tmp_path / "bad.tgz", tmp_path / "into"
    into.mkdir()
    data = bytearray(filled[1].read_bytes())
    if damage == "truncated":
        bad.write_bytes(data[:len(data) * 2 // 3])
    elif damage == "flipped":
        data[len(data) // 2] ^= 1
        bad.write_bytes(data)
    elif damage == "empty":
        bad.write_bytes(b"")
    elif damage == "other":
        bad.write_bytes(b"this is no archive at all")
    elif damage != "missing":  # whole archives with a member too many
        with tarfile.open(filled[1]) as old, tarfile.open(bad, "w:gz") as new:
            for m in old:
                new.addfile(m, old.extractfile(m))
            extra = tarfile.TarInfo("../outside.ttx" if damage == "name" else "0" * 32 + ".ttx")
            extra.size = 3
            new.addfile(extra, io.BytesIO(b"abc"))
    assert cli("--dir", into, "unpack", bad) == 2
    said = capsys.readouterr().err
    assert (
        said.count("\n") == 1
        and "bad.tgz" in said
        and not list(into.iterdir())
        and not (tmp_path / "outside.ttx").exists()
    ), said


def test_verify_finds_what_is_damaged(filled, tmp_path, capsys):
    cache.unpack(tmp_path, filled[1])
    assert cli("--dir", tmp_path, "verify") == 0
    names = [e[0] for e in cache.entries(tmp_path)]
    (tmp_path / names[0]).write_bytes((tmp_path / names[0]).read_bytes()[:-1])
    (tmp_path / names[1]).rename(tmp_path / ("f" * 32 + ".ttx"))
    capsys.readouterr()
    assert cli("--dir", tmp_path, "verify", "--remove") == 1
    out = capsys.readouterr().out
    assert out.count("damaged and removed") == 2 and names[0] in out and "f" * 32 in out
    assert len(cache.entries(tmp_path)) == len(names) - 2 and cli("--dir", tmp_path, "verify") == 0


def test_ls_stats_and_prune(filled, tmp_path, capsys):
    cache.unpack(tmp_path, filled[1])
    all_ = cache.entries(tmp_path)
    old = tmp_path / all_[0][0]
    os.utime(old, (1, 86400 * 365))
    (tmp_path / "left.tmp").write_text("")
    os.utime(tmp_path / "left.tmp", (1, 1))
    assert cli("--dir", tmp_path, "ls") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(all_) and lines[-1].startswith(all_[0][0][:32]) and any("mm" in line for line in lines)
    assert cli("--dir", tmp_path, "stats") == 0
    assert f"programs    {len(all_)}\n" in capsys.readouterr().out
    assert cli("--dir", tmp_path, "prune", "--days", 100) == 0
    assert not old.exists() and not (tmp_path / "left.tmp").exists() and len(cache.entries(tmp_path)) == len(all_) - 1
    assert cli("--dir", tmp_path, "prune", "--bytes", 0) == 0 and not cache.entries(tmp_path)
    assert cli("--dir", tmp_path / "nowhere", "ls") == 2 and "no such folder" in capsys.readouterr().err


def test_the_command_line_needs_no_plugin(python, tmp_path):
    code = (
        "import torch_tpu.cache as c, sys, torch; s = c.main(['stats']); print(torch.tpu.is_initialized()); sys.exit(s)"
    )
    status, out, err = python(code, TORCH_TPU_CACHE_DIR=str(tmp_path / "fresh"))
    assert (status, err) == (0, "") and "programs    0" in out and out.endswith("False\n")
    status, out, err = python(code, TORCH_TPU_CACHE="0")
    assert status == 2 and "TORCH_TPU_CACHE is 0" in err


def test_plans_have_a_bound_and_what_is_used_stays(python):
    code = """
import torch, torch_tpu
def f(n):
    x = torch.ones(n, device="tpu")
    return (x * 2 + x).sum().item()
for mode in ("strict", "fuse"):
    torch_tpu.set_eager_mode(mode)
    for n in range(1, 60):
        assert f(n) == 3 * n and f(7) == 21, (mode, n)
        assert torch_tpu.counters()["plans"] <= 60, torch_tpu.counters()
before = torch_tpu.counters()
assert f(7) == 21  # in use all along
after = torch_tpu.counters()
assert before["plans_dropped"] > 100 and after["cache_misses"] == before["cache_misses"], (before, after)
assert f(3) == 9  # on disk
assert torch_tpu.counters()["compiles"] == after["compiles"]
"""
    status, _, err = python(code, TORCH_TPU_PLANS="30")
    assert status == 0, err


@pytest.mark.tpu
def test_memory_maps_are_bounded(python):
    """Each loaded program maps pieces of memory, of which a process may have so many; late in a long one it died of
    that."""
    code = """if True:
        import torch, torch_tpu
        def maps():
            return sum(1 for _ in open("/proc/self/maps"))
        def run(n):
            assert (torch.ones(n, device="tpu") * 2).sum().item() == 2 * n
        most = []
        for part in range(5):
            for n in range(1 + 40 * part, 41 + 40 * part):
                run(n)
            most.append(maps())
        assert torch_tpu.counters()["plans_dropped"] > 150, torch_tpu.counters()
        assert max(most) < most[0] + 500, most  # of 1,400
        run(1)
    """
    status, _, err = python(code, TORCH_TPU_EXECUTABLES="80")
    assert status == 0, err
