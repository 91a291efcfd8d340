"""Imports, which plugin is chosen, caches between processes, environment variables."""
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.tpu
SUM = "import torch, torch_tpu; x = torch.arange(6., device='tpu'); print((x.view(2, 3) * 3 + 1).sum().item());"
COUNT = SUM + "c = torch_tpu.counters(); print(c['compiles'], c['cache_hits_disk'], c['cache_rejects'])"


def numbers(out):
    value, counts = out.strip().splitlines()
    assert value == "51.0"
    return [int(n) for n in counts.split()]


# ---- import ----
def test_importing_torch_is_enough(python):
    status, out, err = python(
        "import torch; print(torch.device('tpu'), torch.tpu.is_initialized(), torch.ones(2, device='tpu').sum().item(),"
        " torch.tpu.is_initialized())"
    )
    assert (status, out, err) == (0, "tpu False 2.0 True\n", "")


def test_importing_torch_tpu_first(python):
    status, out, err = python("import torch_tpu, torch; print(torch_tpu.__version__, torch.ones(1).tpu().is_tpu)")
    assert (status, err) == (0, "") and out.endswith("True\n")


def test_import_loads_no_plugin_and_costs_little(python):
    code = "import time; a = time.process_time(); import torch; print(time.process_time() - a, 'pjrt' in open('/proc/self/maps').read())"
    status, with_it, err = python(code)
    status, without, err = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert with_it.split()[1] == "False" and float(with_it.split()[0]) - float(without.split()[0]) < 1.0


# ---- plugins ----
def test_known_names_and_paths(python):
    import torch_tpu.plugin as plugin

    name = "fastatomstruct-xla-cpu" if plugin.KNOWN["fastatomstruct-xla-cpu"]() else "xla-cpu-pjrt"
    for value in (name, plugin.KNOWN[name]()):
        status, out, err = python(
            "import torch; print(torch.tpu.get_device_properties().plugin)", TORCH_TPU_PLUGIN=value
        )
        assert status == 0 and out.strip() == os.path.abspath(plugin.KNOWN[name]()), err


def test_a_plugin_that_is_not_there(python):
    status, out, err = python("import torch; torch.ones(1, device='tpu')", TORCH_TPU_PLUGIN="nothing-like-it")
    assert status == 1 and "nothing-like-it" in err.strip().splitlines()[-1] and "xla-cpu-pjrt" in err


def test_a_plugin_that_is_no_plugin(python, tmp_path):
    (tmp_path / "x.so").write_bytes(b"not a library")
    status, out, err = python("import torch; torch.ones(1, device='tpu')", TORCH_TPU_PLUGIN=str(tmp_path / "x.so"))
    assert status == 1 and "x.so" in err.strip().splitlines()[-1]


def test_no_plugin_says_what_to_install(python):
    code = """
import torch, torch_tpu.plugin as p
for name in p.KNOWN: p.KNOWN[name] = lambda: None
print(torch.tpu.is_available(), torch.tpu.device_count())
torch.ones(1, device="tpu")
"""
    status, out, err = python(code, TORCH_TPU_PLUGIN=None)
    assert status == 1 and out == "False 0\n" and "pip install" in err.strip().splitlines()[-1]


def test_libtpu_without_a_tpu_is_one_line(python):
    import torch_tpu.plugin as plugin

    if not plugin.KNOWN["libtpu"]() or plugin.has_tpu_chips():
        pytest.skip("wants libtpu installed and no TPU")
    code = "import torch\ntry: torch.ones(1, device='tpu')\nexcept RuntimeError as e: print(e)"
    status, out, err = python(code, TORCH_TPU_PLUGIN="libtpu", TPU_SKIP_MDS_QUERY="1")
    assert status == 0 and len(out.strip().splitlines()) == 1 and "TPU" in out and len(err.splitlines()) <= 2, (
        out,
        err,
    )


def test_more_devices_on_the_cpu_plugin(python):
    code = "import torch; print(torch.tpu.device_count(), [torch.full((2,), i, device=f'tpu:{i}').sum().item() for i in range(3)])"
    status, out, err = python(code, TORCH_TPU_CPU_DEVICES="3")
    assert (status, out) == (0, "3 [0, 2, 4]\n"), err


# ---- the cache on disk ----
def test_a_second_process_compiles_nothing(python, tmp_path):
    first = numbers(python(COUNT, TORCH_TPU_CACHE_DIR=str(tmp_path))[1])
    second = numbers(python(COUNT, TORCH_TPU_CACHE_DIR=str(tmp_path))[1])
    assert first[0] > 0 and second[0] == 0 and second[1] == first[0]
    assert all(f.stat().st_mode & 0o077 == 0 for f in tmp_path.rglob("*"))


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "foreign"])
def test_damaged_entries_are_compiled_again(python, tmp_path, damage):
    python(COUNT, TORCH_TPU_CACHE_DIR=str(tmp_path))
    for f in [f for f in tmp_path.rglob("*") if f.is_file() and f.stat().st_size]:
        data = bytearray(f.read_bytes())
        if damage == "flip":
            data[len(data) // 2] ^= 0x10
        f.write_bytes(
            {"flip": data, "truncate": data[: len(data) // 2], "empty": b"", "foreign": b"x" * len(data)}[damage]
        )
    compiles, hits, rejects = numbers(python(COUNT, TORCH_TPU_CACHE_DIR=str(tmp_path))[1])
    assert compiles > 0 and hits == 0 and rejects == compiles
    assert numbers(python(COUNT, TORCH_TPU_CACHE_DIR=str(tmp_path))[1])[0] == 0


def test_two_processes_at_once_and_a_kill(tmp_path):
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(tmp_path)}
    code = "import torch\nfor n in range(1, 40): (torch.ones(n, device='tpu') * 2 - 1).cpu()\nprint('done')"
    both = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    import time
    time.sleep(4)
    both[2].send_signal(signal.SIGKILL)
    assert [p.communicate(timeout=300)[0] for p in both[:2]] == ["done\n"] * 2
    both[2].communicate()
    done = subprocess.run(
        [sys.executable, "-c", code + "\nimport torch_tpu; print(torch_tpu.counters()['compiles'])"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "done\n0\n", done.stderr


def test_the_cache_can_be_turned_off(python, tmp_path):
    for _ in range(2):
        compiles, hits, _rejects = numbers(python(COUNT, TORCH_TPU_CACHE_DIR=str(tmp_path), TORCH_TPU_CACHE="0")[1])
        assert compiles > 0 and hits == 0
    assert not [f for f in tmp_path.rglob("*") if f.is_file()]


# ---- the rest ----
def test_dump_writes_programs(python, tmp_path):
    python(SUM, TORCH_TPU_DUMP=str(tmp_path))
    texts = [f.read_text() for f in tmp_path.glob("*.mlir")]
    assert texts and all("stablehlo." in t and "func" in t for t in texts)


FALLBACK = """
import torch, torch_tpu
pack = torch.ops.aten._convert_weight_to_int4pack_for_cpu  # a format of the CPU's own
x = torch.arange(64 * 128, dtype=torch.int32).reshape(64, 128) % 16
print(pack(x.to("tpu"), 2).cpu().equal(pack(x, 2)), torch_tpu.counters()["fallbacks"])
"""


def test_fallbacks_are_counted_and_can_be_errors(python):
    name = "_convert_weight_to_int4pack_for_cpu"
    status, out, err = python(FALLBACK, TORCH_TPU_FALLBACK="silent")
    assert status == 0 and out.startswith("True") and name in out and err == ""
    status, out, err = python(FALLBACK, TORCH_TPU_FALLBACK="warn")
    assert status == 0 and err.count(name) >= 1
    status, out, err = python(FALLBACK, TORCH_TPU_FALLBACK="error")
    assert status == 1 and name in err.strip().splitlines()[-1]


def test_docs_list_every_variable():
    from torch_tpu import _C

    text = (pathlib.Path(__file__).parents[2] / "docs" / "environment.md").read_text()
    for name, meaning in _C.env_table():
        assert f"`{name}`" in text and meaning in text, name


def test_counters_have_the_names_that_docs_give():
    import torch_tpu

    c = torch_tpu.counters()
    assert {
        "compiles",
        "cache_hits_memory",
        "cache_hits_disk",
        "executions",
        "bytes_to_device",
        "bytes_from_device",
        "fallbacks",
    } <= set(c)
    json.dumps(c)


def test_torch_tpu_module_is_complete():
    names = """device_count is_available is_initialized init current_device set_device device device_of synchronize get_device_name
    get_device_properties get_device_capability Stream Event stream current_stream default_stream set_stream manual_seed manual_seed_all seed
    seed_all initial_seed get_rng_state get_rng_state_all set_rng_state set_rng_state_all default_generators memory_allocated
    max_memory_allocated memory_reserved max_memory_reserved memory_stats mem_get_info memory_summary reset_peak_memory_stats
    reset_accumulated_memory_stats empty_cache set_per_process_memory_fraction ipc_collect is_bf16_supported get_amp_supported_dtype
    OutOfMemoryError""".split()
    for name in names:
        assert name in torch.tpu.__all__ and (getattr(torch.tpu, name).__doc__ or name == "default_generators"), name
    torch.tpu.init()
    assert torch.tpu.is_initialized() and torch.tpu.current_device() == 0 and torch.tpu.device_count() >= 1
    torch.tpu.set_device("tpu:0")
    with torch.tpu.device(0), torch.tpu.device_of(torch.ones(1, device="tpu")), torch.tpu.device_of(torch.ones(1)):
        assert torch.tpu.current_device() == 0
    p = torch.tpu.get_device_properties(0)
    assert p.name == torch.tpu.get_device_name() and p.total_memory > 0 and torch.tpu.get_device_capability() >= (0, 0)
    assert (
        torch.tpu.is_bf16_supported()
        and not torch.tpu._is_in_bad_fork()
        and issubclass(torch.tpu.OutOfMemoryError, RuntimeError)
    )
    torch.tpu.ipc_collect()
