"""The example of a Llama: FSDP2 x tensor parallelism, then on fewer processes from its checkpoint, are one process's
losses."""
import json
import os
import pathlib
import subprocess
import sys

import pytest
from world import free_port

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "train_llama.py"
SIZES = "--layers 2 --width 32 --heads 4 --groups 2 --length 16 --batch 8".split()


def losses(folder, *options, processes=0):
    launch = (
        ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", str(free_port())]
        if processes
        else []
    )
    path = folder / "losses.json"
    done = subprocess.run(
        [sys.executable, *launch, EXAMPLE, *SIZES, "--losses", path, *options],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(path.read_text())


def test_losses_are_those_of_one_process(tmp_path):
    alone = losses(tmp_path, "--device", "cpu", "--steps", "8")
    folder, picture = ["--checkpoint", str(tmp_path / "checkpoint")], tmp_path / "loss.svg"
    four = losses(tmp_path, "--tensor", "2", "--steps", "5", *folder, processes=4)
    two = losses(tmp_path, "--steps", "8", "--plot", str(picture), *folder, processes=2)
    assert four + two == pytest.approx(alone, abs=1e-5) and alone[-1] < alone[0]
    assert "<polyline" in picture.read_text()
