"""PyTorch's own tests of process groups (distributed_test.py in the wheel), with their tensors on tpu and the backend tpu_dist.

What passes on the CPU with Gloo is what counts: each test runs both ways, and the table tells where they differ.

  python tests/dist/torch_suite.py [--match REGEX] [--backend tpu_dist|gloo]"""
import argparse
import collections
import os
import re
import subprocess
import sys
import unittest

BACKEND = os.environ.setdefault("BACKEND", "tpu_dist")
os.environ.setdefault("WORLD_SIZE", "4")
os.environ.setdefault("TEMP_DIR", "/tmp")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from torch.testing._internal.common_distributed import DistTestCases  # noqa: E402

if BACKEND == "tpu_dist":
    for feature in "ddp", "plugin", "subgroup":
        DistTestCases.backend_feature[feature].add(BACKEND)
    DistTestCases.skip_collective["cpu barrier"].add(BACKEND)  # of a group without a backend for the CPU
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


class TestProcessGroup(TestDistBackend, DistributedTest._DistTestBase):
    @classmethod
    def _run(cls, *args, **kwargs):
        torch.set_default_device("tpu" if BACKEND == "tpu_dist" else "cpu")
        torch.set_num_threads(1)
        super()._run(*args, **kwargs)


def names(match):
    return [n for n in unittest.TestLoader().getTestCaseNames(TestProcessGroup) if re.search(match, n)]


def one(name, backend, seconds=100):
    """(outcome, last lines of output) of a test in a process of its own."""
    command = [sys.executable, __file__, "--only", name]
    try:
        done = subprocess.run(command, env={**os.environ, "BACKEND": backend}, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "timeout", ""
    text = done.stderr + done.stdout
    if done.returncode == 0:
        return ("skip" if "skipped=" in text else "pass"), text
    return "fail", text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--backend", action="append", help="only with this one")
    args = parser.parse_args()
    if args.only:
        unittest.main(argv=[sys.argv[0], f"TestProcessGroup.{args.only}"])
    counts, differ = collections.Counter(), []
    for name in names(args.match):
        outcome = {b: one(name, b) for b in args.backend or ["gloo", "tpu_dist"]}
        words = tuple(o for o, _ in outcome.values())
        counts[words] += 1
        print(name, *words, flush=True)
        if len(words) == 2 and words[0] == "pass" and words[1] != "pass":
            errors = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception)\b.*$", outcome["tpu_dist"][1], re.M)
            differ.append((name, words[1], errors[0][:150] if errors else outcome["tpu_dist"][1][-150:].replace("\n", " ")))
    print(dict(counts))
    passed = sum(n for w, n in counts.items() if w[0] == "pass")
    print(f"of {passed} that pass with Gloo on the CPU {passed - len(differ)} pass on tpu")
    for row in differ:
        print("  ", *row)


if __name__ == "__main__":
    main()
