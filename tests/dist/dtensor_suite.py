"""PyTorch's operator data on DTensors over four ranks, their shards on tpu, against plain tensors on the CPU.

The wheel has no file of DTensor tests, but what they are made of: op_db's samples and DTensorConverter, which gives
each tensor among an operator's arguments every even sharding in turn. Results and gradients, made whole again, have to
be those of the call on one CPU. What passes with shards on the CPU and Gloo counts: tests/dist/dtensor_suite.json names
it (--gloo writes it).

  python tests/dist/dtensor_suite.py [--match REGEX] [--every N] [--samples N] [--gloo] [--write
  docs/distributed_suite.md]"""
import datetime
import itertools
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from torch_tpu.conformance.ops import SPARE, database  # noqa: E402
from torch_suite import command_line, conclude, passed, reason  # noqa: E402

KNOWN = pathlib.Path(__file__).with_suffix(".json")
# ranks; for an operator (DTensor takes a minute to place one of batch norm); shardings of a sample that are tried
RANKS, SECONDS, PLACES = 4, 240, 12

LOST = "gave no answer|died|gloo|imed out|timeout|Connection"  # errors after which ranks may be anywhere


op_db = list(database("ops").values())


def name_of(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def close(got, expected):
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4, equal_nan=True)


def same(a, b):
    try:
        close(a, b)
        return True
    except AssertionError:
        return False


def whole(x):
    """x with DTensors made whole and on the CPU."""
    from torch.distributed.tensor import DTensor
    return pytree.tree_map_only(
        torch.Tensor, lambda t: (t.full_tensor() if isinstance(t, DTensor) else t).detach().to("cpu", copy=True), x
    )


def gradients(result, inputs):
    outputs = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    wanted = [t for t in pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not outputs or not wanted:
        return []
    return torch.autograd.grad(sum(t.abs().sum() for t in outputs), wanted, allow_unused=True)


def try_op(op, mesh, device, samples):
    from torch.testing._internal.distributed._tensor.common_dtensor import DTensorConverter
    torch.manual_seed(0)
    tried = 0
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd), samples):
        args, kwargs = (sample.input, *sample.args), sample.kwargs
        torch.manual_seed(0)
        result = sample.output_process_fn_grad(op.op(*args, **kwargs))  # of what is defined up to a sign its magnitude
        expected = whole((result, gradients(result, (args, kwargs))))
        # then sizes are all there is to compare
        by_chance = "empty" in op.name or not same(
            whole(result), whole(sample.output_process_fn_grad(op.op(*args, **kwargs)))
        )
        there = pytree.tree_map_only(
            torch.Tensor, lambda t: t.detach().to(device).requires_grad_(t.requires_grad), (args, kwargs)
        )
        converter = DTensorConverter(mesh, *there)
        for d_args, d_kwargs in itertools.islice(converter, PLACES):
            if not converter.successful():
                continue
            inputs = pytree.tree_map_only(
                torch.Tensor, lambda t: t.detach().requires_grad_(t.requires_grad), (d_args, d_kwargs)
            )
            torch.manual_seed(0)
            result = sample.output_process_fn_grad(op.op(*inputs[0], **inputs[1]))
            pair = whole((result, gradients(result, inputs))), expected
            if op.name in SPARE:  # statistics that torch's own backends differ in returning
                pair = [x[0][0] for x in pair]
            close(*(pytree.tree_map_only(torch.Tensor, torch.zeros_like, x) if by_chance else x for x in pair))
            tried += 1
    return "pass" if tried else "skip"


def work(rank, file, device, samples, pipe):
    from torch.distributed.device_mesh import init_device_mesh
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group(
        "tpu_dist" if device == "tpu" else "gloo",
        init_method="file://" + file,
        rank=rank,
        world_size=RANKS,
        timeout=datetime.timedelta(seconds=20),
    )
    mesh = init_device_mesh(device, (RANKS,))
    while True:
        at = pipe.recv()
        try:
            pipe.send((try_op(op_db[at], mesh, device, samples), ""))
        except Exception as e:
            pipe.send(("fail", reason(f"{type(e).__name__}: {e}".replace("|", "/"))))


class Ranks:
    def __init__(self, device, samples):
        context = torch.multiprocessing.get_context("fork")
        self.file = tempfile.mktemp()
        self.pipes, self.processes = [], []
        for rank in range(RANKS):
            here, there = context.Pipe()
            self.processes.append(
                context.Process(target=work, args=(rank, self.file, device, samples, there), daemon=True)
            )
            self.processes[-1].start()
            there.close()
            self.pipes.append(here)

    def run(self, at):
        """(outcome, reason), and whether the ranks are still in step."""
        for pipe in self.pipes:
            pipe.send(at)
        answers, until = [], time.time() + SECONDS
        for rank, pipe in enumerate(self.pipes):
            try:
                answers.append(
                    pipe.recv() if pipe.poll(max(0.0, until - time.time())) else ("fail", f"rank {rank} gave no answer")
                )
            except EOFError:
                answers.append(("fail", f"rank {rank} died"))
        in_step = len({outcome for outcome, _ in answers}) == 1 and not any(re.search(LOST, why) for _, why in answers)
        return next((a for a in answers if a[0] == "fail"), answers[0]), in_step

    def end(self):
        for process in self.processes:
            process.kill()
            process.join()
        if os.path.exists(self.file):
            os.unlink(self.file)


def run(chosen, device, samples):
    results, ranks = {}, None
    for at in chosen:
        ranks = ranks or Ranks(device, samples)
        start = time.time()
        results[name_of(op_db[at])], in_step = ranks.run(at)
        print(name_of(op_db[at]), *results[name_of(op_db[at])], f"{time.time() - start:.1f} s", flush=True)
        if not in_step:
            ranks.end()
            ranks = None
    if ranks:
        ranks.end()
    return results


def main():
    parser = command_line(__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=3, help="of each operator")
    args = parser.parse_args()
    chosen = [i for i, op in enumerate(op_db) if re.search(args.match, name_of(op)) and torch.float32 in op.dtypes]
    if args.gloo:
        KNOWN.write_text(json.dumps(passed(run(chosen, "cpu", args.samples)), indent=0) + "\n")
        return 0
    known = set(json.loads(KNOWN.read_text()))
    results = run([i for i in chosen if name_of(op_db[i]) in known][:: args.every], "tpu", args.samples)
    return conclude(results, "operators that pass on DTensors of the CPU", args.write, "dtensor")


if __name__ == "__main__":
    sys.exit(main())
