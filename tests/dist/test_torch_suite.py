"""A sample of PyTorch's own distributed tests; the whole by `make test-all`, which writes docs/distributed_suite.md."""
import os
import subprocess
import sys

SUITE = os.path.join(os.path.dirname(__file__), "torch_suite.py")


def test_a_sample_of_the_process_group_tests():
    done = subprocess.run([sys.executable, SUITE, "--every", "10"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " fail " not in done.stdout and " skip " not in done.stdout, done.stdout
