"""A sample of PyTorch's own distributed tests; the whole by `make test-all`, which writes docs/distributed_suite.md."""
import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "suite, part", [("torch_suite.py", ["--every", "10"]), ("dtensor_suite.py", ["--every", "40", "--samples", "1"])]
)
def test_a_sample(suite, part):
    done = subprocess.run(
        [sys.executable, os.path.join(os.path.dirname(__file__), suite), *part],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " fail " not in done.stdout and " skip " not in done.stdout, done.stdout
