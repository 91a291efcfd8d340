"""How often a fixed set of scripts compiles, and how many programs it executes.

Each script runs in a process of its own with an empty cache, strict and fused, and its result must be torch CPU's.
"again" is what a second run of the same script in the same process still builds. "fuse/strict" is of time: both modes
in one process, warm, taking turns.

  python bench/compiles.py [--only NAME,...] [--json FILE]"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import common
import torch
import torch_tpu
from torch.nn import functional as F


def lr_schedule(device):
    """20 AdamW steps under a cosine schedule."""
    model = torch.nn.Linear(8, 4).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    x = torch.randn(16, 8).to(device)
    for _ in range(20):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
    return loss.detach()


def decode(device, steps, cache):
    """Greedy decode with one attention layer. cache(state, k, v, position): all keys, all values, mask, new state."""
    width, vocabulary = 32, 64
    weights = [torch.randn(width, width).div(6).to(device) for _ in range(3)]
    embed = torch.randn(vocabulary, width).to(device)
    token, state, said = torch.zeros(1, dtype=torch.long, device=device), None, []
    with torch.no_grad():
        for i in range(steps):
            x = embed[token]
            q, k, v = (x @ w for w in weights)
            keys, values, mask, state = cache(state, k, v, i)
            y = F.scaled_dot_product_attention(q[None, None], keys[None, None], values[None, None], attn_mask=mask)[
                0, 0
            ]
            token = ((x + y) @ embed.T).argmax(-1)
            said.append(token)
    return torch.cat(said)


def decode_cat(device):
    """200 tokens, keys and values grown by cat."""

    def grow(state, k, v, i):
        keys, values = (k, v) if state is None else (torch.cat([state[0], k]), torch.cat([state[1], v]))
        return keys, values, None, (keys, values)

    return decode(device, 200, grow)


def decode_static(device):
    """200 tokens, a cache of fixed size written by position."""
    store = torch.zeros(2, 256, 32, device=device)
    places = torch.arange(256, device=device)

    def write(state, k, v, i):
        store[0, i], store[1, i] = k[0], v[0]
        return store[0], store[1], (places <= i)[None], None

    return decode(device, 200, write)


def masks(device):
    """50 boolean masks of one shape, each choosing another number of rows."""
    x, g, sums = torch.randn(64, 8).to(device), torch.Generator().manual_seed(1), []
    for _ in range(50):
        mask = (torch.rand(64, generator=g) < 0.5).to(device)
        sums.append(x[mask].sum(0))
    return torch.stack(sums)


def scalars(device):
    """20 values of each of five scalar arguments."""
    x, sums = torch.randn(8, 8).to(device), []
    for i in range(20):
        a = 0.1 + i / 7
        y = (torch.add(x, x, alpha=a) * a + a).clamp(-a, a).pow(2)
        sums.append(y.sum() + torch.full((3,), a, device=device).sum())
    return torch.stack(sums)


def rows(device):
    """x[i] and x[i:i + 4] over 60 values of i."""
    x = torch.randn(64, 8).to(device)
    return torch.stack([x[i] * 2 + x[i : i + 4].sum(0) for i in range(60)])


def variable_batch(device):
    """A classifier over 40 batches of 1 to 40 rows, in random order."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).to(device)
    x, g = torch.randn(40, 8), torch.Generator().manual_seed(1)
    with torch.no_grad():
        return torch.stack([model(x[: n + 1].to(device)).softmax(-1).sum(0) for n in torch.randperm(40, generator=g)])


def prompts(device):
    """A small GPT's logits for 20 prompts of 3 to 60 tokens, in random order, as generate() asks for them."""
    import models

    model = models.GPT(1, 32, 64, vocabulary=64).to(device).eval()
    ids, g = torch.randint(0, 64, (1, 64)), torch.Generator().manual_seed(1)
    with torch.no_grad():
        return torch.stack(
            [model(ids[:, :n].to(device))[0, -1] for n in (3 + torch.randperm(58, generator=g)[:20]).tolist()]
        )


def bert_mask(device):
    """Padded batches: attention masks made from 20 sets of lengths."""
    x, g, out = torch.randn(4, 2, 24, 16).to(device), torch.Generator().manual_seed(1), []
    for _ in range(20):
        lengths = torch.randint(1, 25, (4,), generator=g).to(device)
        mask = (torch.arange(24, device=device) < lengths[:, None])[:, None, None]
        out.append(F.scaled_dot_product_attention(x, x, x, attn_mask=mask).mean((0, 1, 2)))
    return torch.stack(out)


SCRIPTS = {
    f.__name__: f
    for f in (lr_schedule, decode_cat, decode_static, masks, scalars, rows, variable_batch, prompts, bert_mask)
}


def one(name, mode):
    """Runs in a process of its own; prints the counts."""
    f = SCRIPTS[name]

    def run(device):
        torch.manual_seed(0)
        return f(device).cpu()

    want, got = run("cpu"), []
    with torch_tpu.set_eager_mode(mode):
        first = common.counted(lambda: got.append(run("tpu")))
        again = common.counted(lambda: got.append(run("tpu")))
    for value in got:
        torch.testing.assert_close(value, want, rtol=1e-3, atol=1e-4)
    print(
        json.dumps(
            {
                "built": common.built(first),
                "again": common.built(again),
                "executions": again["executions"],
                "to_device": again["bytes_to_device"],
                "from_device": again["bytes_from_device"],
            }
        )
    )


def times(name):
    """Runs in a process of its own; prints the medians of both modes."""

    def turn(mode):
        def run():
            torch.manual_seed(0)
            with torch_tpu.set_eager_mode(mode):
                SCRIPTS[name]("tpu").cpu()

        return run

    turns = {mode: turn(mode) for mode in ("strict", "fuse")}
    common.warm(*turns.values())
    print(json.dumps(common.take_turns({mode: (f, 1, lambda: None) for mode, f in turns.items()}, 15)))


def started(cache, *args):
    """This script in a process of its own, with a cache of its own."""
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": cache}
    command, pipe = [sys.executable, __file__, *args], subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)


def result(process, what):
    """What it printed last, or None."""
    out, err = process.communicate()
    if process.returncode:
        print(f"{what}: {err[-2000:]}", flush=True)
        return None
    return json.loads(out.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(SCRIPTS))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--times", help=argparse.SUPPRESS)
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.one:
        return one(*args.one)
    if args.times:
        return times(args.times)
    lines = []
    for name in args.only.split(","):
        row = [f"{name.replace('_', ' ')}: {' '.join(SCRIPTS[name].__doc__.split())}"]
        with tempfile.TemporaryDirectory() as cold:
            folders = {mode: os.path.join(cold, mode) for mode in ("strict", "fuse")}
            # counts, not times: together
            running = {mode: started(folder, "--one", name, mode) for mode, folder in folders.items()}
            for mode, process in running.items():
                c = result(process, f"{name}, {mode}")
                row += [c["built"], c["again"], c["executions"]] if c else ["fails"] * 3
            t = result(started(folders["fuse"], "--times", name), f"{name}, times") or {}
        row.append(common.ratio(t.get("fuse"), t.get("strict")))
        lines.append(row)
    columns = (f"{mode}: {what}" for mode in ("strict", "fuse") for what in ("built", "again", "executions"))
    head = ["", *columns, "fuse/strict"]
    common.report(args, "compiles", programs_built_and_executed=common.table(head, lines))


if __name__ == "__main__":
    main()
