"""What a call of a kernel costs on a hit, beside built-in operators: microseconds of the thread's CPU time, medians of
interleaved turns.

"torch.add" is add by torch's own binding; "aten op" is one by torch.ops, as a kernel is called; "jax_op" a kernel of
jax_op whose gradients JAX derives, and "with gradients" the same where one of its arguments asks for them.

  python bench/kernels.py [--rounds 40] [--calls 100]"""
import argparse
import statistics
import time

import torch

import torch_tpu
from torch_tpu import pallas


@pallas.jax_op("bench_kernels::add")
def add(x: "jax.Array", y: "jax.Array") -> "jax.Array":  # noqa: F821  read as text
    return x + y


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=100)
    options = parser.parse_args()
    x, y = torch.rand(8, 8, device="tpu"), torch.rand(8, 8, device="tpu")
    w, atan2 = torch.rand(8, 8, device="tpu", requires_grad=True), torch.ops.aten.atan2.default
    cases = {"torch.add": lambda: torch.add(x, y), "aten op": lambda: atan2(x, y), "jax_op": lambda: add(x, y),
             "torch.add with gradients": lambda: torch.add(w, y), "jax_op with gradients": lambda: add(w, y)}
    for mode in "strict", "fuse":
        times = {name: [] for name in cases}
        with torch_tpu.set_eager_mode(mode):
            for turn in range(options.rounds + 3):
                for name, call in cases.items():
                    torch.tpu.synchronize()
                    start = time.thread_time()
                    for _ in range(options.calls):
                        call()
                    if turn >= 3:
                        times[name].append((time.thread_time() - start) / options.calls * 1e6)
        base = statistics.median(times["torch.add"])
        for name, found in times.items():
            print(
                f"{mode:7} {name:26} {statistics.median(found):7.2f} us {statistics.median(found) / base:6.2f} x torch.add"
            )


if __name__ == "__main__":
    main()
