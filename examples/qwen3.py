"""A training step of Qwen3-8B on a slice of TPUs that is not here: does it compile, does it fit, how fast could it be.

    python examples/qwen3.py [TOPOLOGY] [--layers 36] [--batch 1] [--length 4096]

The model is an ordinary nn.Module (grouped queries, norms of queries and keys, rotary positions, SwiGLU); its layers
are one loop (torch_tpu.scan_layers, with activation checkpointing), its parameters, AdamW's state and its gradients are
sharded over all devices (aot.shard), each of which has sequences of its own. Nothing is allocated: the weights alone
would be 15 GiB. What the program counts is compared with the operations by hand."""
import argparse
import resource
import time

import torch
from torch import nn
from torch.nn import functional as F

import torch_tpu
from torch_tpu import aot

WIDTH, HEADS, GROUPS, HEAD, INNER, VOCABULARY = 4096, 32, 8, 128, 12288, 151936


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.o = nn.Linear(WIDTH, HEADS * HEAD, bias=False), nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.k, self.v = nn.Linear(WIDTH, GROUPS * HEAD, bias=False), nn.Linear(WIDTH, GROUPS * HEAD, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(HEAD, eps=1e-6), nn.RMSNorm(HEAD, eps=1e-6)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q, k, v = (f(x).view(batch, length, -1, HEAD) for f in (self.q, self.k, self.v))
        q, k = (rotate(y, cos, sin).transpose(1, 2) for y in (self.q_norm(q), self.k_norm(k)))
        y = F.scaled_dot_product_attention(q, k, v.transpose(1, 2), is_causal=True, enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(batch, length, -1))


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm, self.inner_norm = (
            Attention(),
            nn.RMSNorm(WIDTH, eps=1e-6),
            nn.RMSNorm(WIDTH, eps=1e-6),
        )
        self.gate, self.up = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm(x), cos, sin)
        y = self.inner_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Qwen3(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = torch_tpu.scan_layers([Layer() for _ in range(layers)])
        self.norm, self.head = nn.RMSNorm(WIDTH, eps=1e-6), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        angles = torch.arange(tokens.shape[1], device=tokens.device)[:, None] / 1e6 ** (
            torch.arange(0, HEAD, 2, device=tokens.device) / HEAD
        )
        cos, sin = (f(angles).bfloat16()[:, None] for f in (torch.cos, torch.sin))
        return self.head(self.norm(self.layers(self.embed(tokens), cos, sin)))


def by_hand(layers, batch, length):
    """Operations of matrix products in one step of one device: 2 for each parameter and token forward, 4 backward, and
    2 more for the layers, which backward computes again; attention's two products, twice, and the seven of its
    backward, over the pairs of tokens that the flash kernel's blocks of up to 512 see."""
    tokens = batch * length
    layer = 2 * WIDTH * HEADS * HEAD + 2 * WIDTH * GROUPS * HEAD + 3 * WIDTH * INNER
    attention = 2 * batch * HEADS * HEAD * length * (length + min(length, 512)) // 2
    return layers * (8 * tokens * layer + 11 * attention) + 6 * tokens * VOCABULARY * WIDTH


def compiled(topology, layers=36, batch=1, length=4096):
    mesh = aot.mesh(topology)
    with aot.fake():
        model = aot.shard(Qwen3(layers).bfloat16(), mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        tokens = torch.zeros(batch, length + 1, dtype=torch.long)

    def step(tokens):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return aot.compile(step, (tokens,), topology=topology)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("topology", nargs="?", default="tpu7x:2x2x1")
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--batch", type=int, default=1, help="sequences of each device")
    parser.add_argument("--length", type=int, default=4096)
    args = parser.parse_args()
    start = time.process_time()
    made = compiled(args.topology, args.layers, args.batch, args.length)
    print(made)
    hand, counted = by_hand(args.layers, args.batch, args.length), sum(made.cost.matrix.values())
    print(
        f"by hand        {hand / 1e12:.2f} TFLOP of matrix products a step and device, counted {counted / 1e12:.2f} ({counted / hand - 1:+.1%})"
    )
    print(
        f"host           {time.process_time() - start:.0f} s of CPU, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"
    )
    assert made.memory.total <= made.memory.available and abs(counted / hand - 1) < 0.1


if __name__ == "__main__":
    main()
