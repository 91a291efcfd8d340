"""PyTorch's own tests of process groups and DDP (distributed_test.py in the wheel), with their tensors on tpu and the
backend tpu_dist.

What passes on the CPU with Gloo is what counts: tests/dist/torch_suite.json names those tests (--gloo writes it). Four
ranks run each test, forked from one process that has imported torch, so that a test costs a second or two.

  python tests/dist/torch_suite.py [--match REGEX] [--every N] [--gloo] [--write docs/distributed_suite.md]"""
import argparse
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).parent
KNOWN = HERE / "torch_suite.json"
BACKEND = os.environ.get("BACKEND", "tpu_dist")
os.environ["BACKEND"] = "gloo"  # what the module's decorators ask for when it is imported: they skip by names
for name, value in dict(
    WORLD_SIZE="4", TEMP_DIR="/tmp", OMP_NUM_THREADS="1", DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="60"
).items():
    os.environ.setdefault(name, value)

import torch  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402


REASONS = {"test_ddp_logging_data_cpu": "PyTorch calls every backend that is not its own \"custom\" where DDP logs it:"}


class Name(str):
    """Where a test branches by the backend's name, Gloo's branch is meant: it is that of a CPU's tensors."""

    def __eq__(self, other):
        return str(other) in (str(self), "gloo")

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


distributed_test.BACKEND = Name(BACKEND)


class TestProcessGroup(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    @classmethod
    def _run(cls, *args, **kwargs):
        if BACKEND == "tpu_dist":
            torch.set_default_device("tpu")
            # the old constructors know no default device
            torch.DoubleTensor = lambda n: torch.empty(n, dtype=torch.float64)
        torch.set_num_threads(1)
        super()._run(*args, **kwargs)

    if BACKEND == "tpu_dist":
        # as PyTorch's test for CUDA: what is expected is made on the CPU, where sums are merged
        def test_sparse_all_reduce_sum(self):
            torch.set_default_device("cpu")
            self._test_sparse_all_reduce_sum(lambda t: t.to("tpu"))


def names(match=""):
    return [n for n in unittest.TestLoader().getTestCaseNames(TestProcessGroup) if re.search(match, n)]


def one(name):
    """(outcome, text of the error) of a test, in this process's backend."""
    result = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.TestSuite([TestProcessGroup(name)]))
    if result.skipped:
        return "skip", result.skipped[0][1]
    wrong = result.errors + result.failures
    return ("fail", wrong[0][1]) if wrong else ("pass", "")


def reason(text):
    """The first line of an error that says what happened."""
    lines = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception|Timeout|Timing out)\b.*$", text, re.M)
    lines = [line for line in lines if "exited with error code" not in line] or lines or text.strip().splitlines()[-1:]
    return lines[0][:240] if lines else ""


def run(chosen):
    """{name: (outcome, reason)} of each test."""
    results = {}
    for name in chosen:
        start = time.time()
        outcome, text = one(name)
        results[name] = outcome, reason(text)
        print(f"{name} {outcome} {time.time() - start:.1f} s {results[name][1]}", flush=True)
        if outcome == "fail" and "TORCH_TPU_TEST_TEXT" in os.environ:
            print(text, flush=True)
    return results


def table(results):
    """What does not pass, with reasons, between the marks of the page."""
    rows = [
        f"| `{n}` | {outcome} | {REASONS.get(n, '')} `{why}` |"
        for n, (outcome, why) in sorted(results.items())
        if outcome != "pass"
    ]
    head = ["", "| test | outcome | reason |", "| --- | --- | --- |"] if rows else []
    return "\n".join([f"{len(results) - len(rows)} of {len(results)} pass.", *head, *rows]) + "\n"


def put(page, mark, text):
    """Replaces what stands between two marks of a page."""
    path = pathlib.Path(page)
    before, rest = path.read_text().split(f"<!-- {mark} -->\n")
    path.write_text(f"{before}<!-- {mark} -->\n{text}<!-- /{mark} -->\n" + rest.split(f"<!-- /{mark} -->\n")[1])


def command_line(description):
    """A parser of what both suites are asked."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--match", default="")
    parser.add_argument("--every", type=int, default=1, help="only one of so many")
    parser.add_argument("--gloo", action="store_true", help="find anew what passes on the CPU with Gloo, of all tests")
    parser.add_argument("--write", metavar="PAGE", help="write the table of what does not pass")
    return parser


def passed(results):
    """The names of those that pass, in order."""
    return sorted(n for n, (outcome, _) in results.items() if outcome == "pass")


def conclude(results, what, page, mark):
    """Says how many of `what` pass, writes the table of a page if it is given; the exit status."""
    good = len(passed(results))
    print(f"of {len(results)} {what} {good} pass on tpu")
    if page:
        put(page, mark, table(results))
    return 0 if good >= 0.98 * len(results) else 1


def main():
    args = command_line(__doc__.splitlines()[0]).parse_args()
    if args.gloo and BACKEND != "gloo":
        return subprocess.call([sys.executable, *sys.argv], env={**os.environ, "BACKEND": "gloo"})
    if args.gloo:
        KNOWN.write_text(json.dumps(passed(run(names(args.match))), indent=1) + "\n")
        return 0
    chosen = [n for n in json.loads(KNOWN.read_text()) if re.search(args.match, n)][:: args.every]
    return conclude(run(chosen), "tests that pass on the CPU with Gloo", args.write, "process groups")


if __name__ == "__main__":
    sys.exit(main())
