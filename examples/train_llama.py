"""Trains a small Llama on the bytes of this repository's pages: FSDP2 x tensor parallelism, checkpoints, a curve of the
loss.

    python examples/train_llama.py                                          # one process, one device torchrun
    --nproc-per-node 4 examples/train_llama.py --tensor 2          # a laptop: 2 x 2 processes on the CPU's plugin
    python -m torch.tpu.distributed examples/train_llama.py --tensor 4      # on each host of a pod: the same file
    python examples/train_llama.py --topology tpu7x:4x4x4 --tensor 4        # what it would be there, with no TPU

Losses are those of one process. Run again with the same --checkpoint and another number of processes, and it goes on
where it ended. What is parallel about it are parallel(), checkpoint() and `part`; all of it is PyTorch's own."""
import argparse
import json
import os
import pathlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F


# ---- the model ----
def rotated(x, angles):
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


class Attention(nn.Module):
    def __init__(self, width, head, groups):
        super().__init__()
        self.head = head
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, groups * head, bias=False), nn.Linear(width, groups * head, bias=False)

    def forward(self, x, angles):
        # of a rank's heads
        q, k, v = (f(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(rotated(q, angles), rotated(k, angles), v, is_causal=True, enable_gqa=True)
        return self.o(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, width, head, groups, inner):
        super().__init__()
        self.attention, self.feed = Attention(width, head, groups), FeedForward(width, inner)
        self.attention_norm, self.feed_norm = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)

    def forward(self, x, angles):
        x = x + self.attention(self.attention_norm(x), angles)
        return x + self.feed(self.feed_norm(x))


class Llama(nn.Module):
    def __init__(self, layers, width, heads, groups, vocabulary=256):
        super().__init__()
        self.head = width // heads
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, self.head, groups, 4 * width) for _ in range(layers))
        self.norm, self.output = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, following):
        """The loss."""
        x = self.embed(tokens)
        frequencies = 10000.0 ** (torch.arange(0, self.head, 2, device=x.device) / -self.head)
        angles = torch.arange(tokens.shape[1], device=x.device)[:, None] * frequencies
        for layer in self.layers:
            x = layer(x, angles)
        return F.cross_entropy(self.output(self.norm(x)).flatten(0, 1), following.flatten())


# ---- what is parallel ----
def parallel(model, mesh, fully_shard=fully_shard):
    """Matrices are split over the ranks of "tensor", all parameters over those of "data"."""
    if mesh["tensor"].size() > 1:
        split = {
            "embed": RowwiseParallel(input_layouts=Replicate()),
            "output": ColwiseParallel(output_layouts=Replicate()),
        }
        columns, rows = ("attention.q", "attention.k", "attention.v", "feed.gate", "feed.up"), (
            "attention.o",
            "feed.down",
        )
        for i in range(len(model.layers)):
            split |= {f"layers.{i}.{name}": ColwiseParallel() for name in columns} | {
                f"layers.{i}.{name}": RowwiseParallel() for name in rows
            }
        parallelize_module(model, mesh["tensor"], split)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["data"])
    return fully_shard(model, mesh=mesh["data"])


def checkpoint(folder, model, optimizer, steps=None):
    """Saves what the ranks have between them after so many steps; or, without a number, loads that and says the number.
    Any ranks may load it."""
    state = {"steps": steps, **dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))}
    if steps is not None:
        return dcp.save(state, checkpoint_id=folder)
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return state["steps"]


# ---- ahead of time ----
def compiled(topology, tensor, layers, width, heads, groups, length, batch):
    """A step of each device of a slice that is not here, as one program: torch_tpu.aot.Compiled."""
    from torch_tpu import aot

    devices = len(aot.topology(topology).devices)
    mesh = aot.mesh(topology, (devices // tensor, tensor), ("data", "tensor"))
    with aot.fake():
        model = parallel(Llama(layers, width, heads, groups), mesh, aot.shard)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        tokens = torch.zeros(batch, length, dtype=torch.long)

    def step(tokens, following):
        loss = model(tokens, following)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return aot.compile(step, (tokens, tokens), topology=topology)


# ---- the run ----
def batch(text, step, size, length):
    generator = torch.Generator().manual_seed(step)
    starts = torch.randint(0, len(text) - length - 1, (size,), generator=generator)
    rows = torch.stack([text[s:s + length + 1] for s in starts.tolist()])
    return rows[:, :-1], rows[:, 1:]


def plot(losses, path):
    """The losses as a line in an SVG picture of 640 x 360."""
    top = max(losses)
    points = " ".join(
        f"{40 + 590 * i / max(len(losses) - 1, 1):.1f},{340 - 320 * loss / top:.1f}" for i, loss in enumerate(losses)
    )
    words = [
        (4, 24, f"{top:.2f}"),
        (4, 344, "0"),
        (280, 356, f"{len(losses)} steps"),
        (280, 16, f"loss, {losses[-1]:.3f} at last"),
    ]
    text = "".join(
        f'<text x="{x}" y="{y}" font-family="sans-serif" font-size="12">{word}</text>' for x, y, word in words
    )
    pathlib.Path(path).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="360"><rect width="640" height="360" fill="white"/>'
        f'<path d="M40 20V340H630" fill="none" stroke="gray"/><polyline points="{points}" fill="none" stroke="steelblue" '
        f'stroke-width="2"/>{text}</svg>\n'
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in dict(layers=4, width=128, heads=8, groups=4, length=64, batch=16, steps=60, tensor=1).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--topology", help="compiles a step for such a slice, batches for each device, and runs nothing")
    parser.add_argument("--plot", help="an SVG file for the curve of the loss")
    parser.add_argument("--losses", help="a file for the losses as JSON")
    parser.add_argument("--checkpoint", help="a folder: begins with what is there, and writes the end there")
    args = parser.parse_args()
    if args.topology:
        sizes = (args.layers, args.width, args.heads, args.groups, args.length, args.batch)
        return print(compiled(args.topology, args.tensor, *sizes))

    torch.manual_seed(0)
    model = Llama(args.layers, args.width, args.heads, args.groups).to(args.device)
    part, ranks, mesh = 0, 1, None
    if "RANK" in os.environ:
        dist.init_process_group()
        ranks = dist.get_world_size() // args.tensor
        mesh = init_device_mesh(args.device, (ranks, args.tensor), mesh_dim_names=("data", "tensor"))
        part, model = mesh["data"].get_local_rank(), parallel(model, mesh)
    optimizer = torch.optim.AdamW(model.parameters(), args.rate, foreach=False)
    begun = 0
    if args.checkpoint and os.path.exists(os.path.join(args.checkpoint, ".metadata")):
        begun = checkpoint(args.checkpoint, model, optimizer)

    pages = pathlib.Path(__file__).resolve().parents[1]
    text = torch.frombuffer(
        bytearray(b"".join(p.read_bytes() for p in sorted(pages.glob("docs/*.md")))), dtype=torch.uint8
    ).long()
    losses = []
    for step in range(begun, args.steps):
        tokens, following = (t.chunk(ranks)[part].to(args.device) for t in batch(text, step, args.batch, args.length))
        loss = model(tokens, following)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if mesh:
            dist.all_reduce(loss := loss.detach().clone(), dist.ReduceOp.AVG, mesh["data"].get_group())
        losses.append(loss.item())
        if not dist.is_initialized() or dist.get_rank() == 0:
            print(f"step {step + 1} loss {losses[-1]:.4f}", flush=True)
    if args.checkpoint:
        checkpoint(args.checkpoint, model, optimizer, args.steps)
    if not mesh or dist.get_rank() == 0:
        for path, write in (args.plot, plot), (args.losses, lambda x, to: pathlib.Path(to).write_text(json.dumps(x))):
            if path:
                write(losses, path)
    if mesh:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
