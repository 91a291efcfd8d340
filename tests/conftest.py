"""Which device the tests run on, and what they compare with.

TORCH_TPU_TEST_DEVICE=cpu runs them on plain PyTorch: that checks the tests, not the device."""
import os
import re
import subprocess
import sys
import zlib

import pytest
import torch

DEVICE = os.environ.get("TORCH_TPU_TEST_DEVICE", "tpu")
MODE = os.environ.get("TORCH_TPU_EAGER_MODE") or "strict"


def pytest_collection_modifyitems(config, items):
    part, parts = map(int, os.environ.get("TORCH_TPU_TEST_PART", "0/1").split("/"))
    left_out = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts != part]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts == part]
    for item in items:
        strict = item.get_closest_marker("strict")
        if strict and MODE != "strict":
            item.add_marker(pytest.mark.skip(reason=f"{strict.args[0]} (TORCH_TPU_EAGER_MODE={MODE})"))
        if DEVICE != "tpu" and item.get_closest_marker("tpu"):
            item.add_marker(pytest.mark.skip(reason="asks about the tpu device itself"))


@pytest.fixture(scope="session")
def dev():
    return DEVICE


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def native():
    """No operator of the test may run on the CPU."""
    if DEVICE != "tpu":
        yield
        return
    import torch_tpu
    before = torch_tpu.counters()["fallbacks"]
    yield
    assert torch_tpu.counters()["fallbacks"] == before


@pytest.fixture
def fresh_dynamo():
    """Dynamo has traced nothing, and will have: nothing is left to later tests."""
    import torch
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Counted:
    """What the counters did inside a with block: c.compiles and so on, after it."""

    def __enter__(self):
        import torch_tpu
        self._before = torch_tpu.counters()
        return self

    def __exit__(self, *exc):
        import torch_tpu
        after = torch_tpu.counters()
        for name, value in after.items():
            if isinstance(value, int):
                setattr(self, name, value - self._before[name])
        self.built = self.compiles + self.cache_hits_disk + self.cache_hits_memory  # programs that were not there yet
        return False


@pytest.fixture
def counted():
    return Counted


@pytest.fixture
def python():
    """Runs code in a Python of its own: (exit status, stdout, stderr without what a plugin logs of code from the disk)."""
    of_the_plugin = re.compile(r"^(WARNING: All log messages before absl|E\d{4} .* cpu_aot_loader\.cc).*\n", re.M)

    def run(code, timeout=300, **env):
        full = {**os.environ, **{k: v for k, v in env.items() if v is not None}}
        for k in [k for k, v in env.items() if v is None]:
            full.pop(k, None)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=full, timeout=timeout)
        return done.returncode, done.stdout, of_the_plugin.sub("", done.stderr)

    return run
