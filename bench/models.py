"""The models that train.py trains: GPT, ViT, a ResNet block and MiniLM's encoder for torch, and the same for JAX.

A JAX model is a function of the torch model's own state, {name: array}: both start from the same weights, and a twin
cannot have layers that the original has not. Written as a user of JAX would: plain jax.numpy and lax, nothing tuned."""

import torch
import torch_tpu
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A transformer block, norms first."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """[batch, length] token numbers -> [batch, length, vocabulary] logits; the head is tied to the token embedding."""

    def __init__(self, layers, width, length, heads=4, vocabulary=256):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class ViT(nn.Module):
    """[batch, 3, 32, 32] images -> [batch, 10] logits: 4x4 patches, a class token."""

    def __init__(self, layers=4, width=128, heads=4):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 65, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, False) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class ResNet(nn.Module):
    """[batch, 3, 16, 16] images -> [batch, 10] logits: a stem, one residual block with batch norms, a mean, a head."""

    def __init__(self, width=32):
        super().__init__()
        self.stem, self.conv1, self.conv2 = (nn.Conv2d(n, width, 3, padding=1, bias=False) for n in (3, width, width))
        self.bn0, self.bn1, self.bn2 = (nn.BatchNorm2d(width) for _ in range(3))
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        x = F.relu(self.bn0(self.stem(images)))
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return self.head(F.relu(x + y).mean((2, 3)))


class MiniLM(nn.Module):
    """[batch, length] token numbers -> [batch, 10] logits: the encoder of all-MiniLM-L6 (norms after), a mean, a
    head."""

    def __init__(self, layers=6, width=384, heads=12, vocabulary=1000):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(128, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(EncoderBlock(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, 10)

    def forward(self, ids):
        x = self.norm(self.tokens(ids) + self.positions(torch.arange(ids.size(1), device=ids.device)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class EncoderBlock(nn.Module):
    """A transformer block, norms after, as BERT's."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(b, t, w)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


# ---- the same for JAX: (p: parameters and buffers by name, x) -> (logits, changed buffers) ----
def _linear(jax, p, name, x):
    return x @ p[name + ".weight"].T + p[name + ".bias"]


def _layer_norm(jax, p, name, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[name + ".weight"] + p[name + ".bias"]


def _attention(jax, p, name, x, heads, causal):
    np = jax.numpy
    b, t, w = x.shape
    qkv = _linear(jax, p, name + ".qkv", x)
    q, k, v = qkv.reshape(b, t, 3, heads, -1).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) * (w // heads) ** -0.5
    if causal:
        scores = np.where(np.tril(np.ones((t, t), bool)), scores, -np.inf)
    y = (jax.nn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3).reshape(b, t, w)
    return _linear(jax, p, name + ".out", y)


def _feed_forward(jax, p, name, x):
    return _linear(jax, p, name + ".down", jax.nn.gelu(_linear(jax, p, name + ".up", x), approximate=False))


def _block(jax, p, name, x, heads, causal):
    x = x + _attention(jax, p, name, _layer_norm(jax, p, name + ".norm1", x), heads, causal)
    return x + _feed_forward(jax, p, name, _layer_norm(jax, p, name + ".norm2", x))


def _layers(p):
    return len({name.split(".")[1] for name in p if name.startswith("blocks.")})


def _blocks(jax, p, x, heads, causal):
    for i in range(_layers(p)):
        x = _block(jax, p, f"blocks.{i}", x, heads, causal)
    return _layer_norm(jax, p, "norm", x)


def _conv(jax, weight, x, stride, padding):
    return jax.lax.conv_general_dilated(
        x, weight, (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


def _batch_norm(jax, p, changed, name, x):
    n = x.shape[0] * x.shape[2] * x.shape[3]
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    for buffer, value in (("running_mean", mean), ("running_var", variance * n / (n - 1))):
        changed[f"{name}.{buffer}"] = 0.9 * p[f"{name}.{buffer}"] + 0.1 * jax.lax.stop_gradient(value)
    scale = (p[name + ".weight"] * jax.lax.rsqrt(variance + 1e-5))[:, None, None]
    return (x - mean[:, None, None]) * scale + p[name + ".bias"][:, None, None]


def gpt_twin(jax, p, ids):
    x = p["tokens.weight"][ids] + p["positions.weight"][: ids.shape[1]]
    return _blocks(jax, p, x, 4, True) @ p["tokens.weight"].T, {}


def vit_twin(jax, p, images):
    np = jax.numpy
    x = _conv(jax, p["patches.weight"], images, 4, 0) + p["patches.bias"][:, None, None]
    x = x.reshape(x.shape[0], x.shape[1], -1).swapaxes(1, 2)
    token = np.broadcast_to(p["token"], (x.shape[0], 1, x.shape[2]))
    x = _blocks(jax, p, np.concatenate([token, x], 1) + p["positions"], 4, False)
    return _linear(jax, p, "head", x[:, 0]), {}


def resnet_twin(jax, p, images):
    changed = {}
    x = jax.nn.relu(_batch_norm(jax, p, changed, "bn0", _conv(jax, p["stem.weight"], images, 1, 1)))
    y = jax.nn.relu(_batch_norm(jax, p, changed, "bn1", _conv(jax, p["conv1.weight"], x, 1, 1)))
    y = _batch_norm(jax, p, changed, "bn2", _conv(jax, p["conv2.weight"], y, 1, 1))
    return _linear(jax, p, "head", jax.nn.relu(x + y).mean((2, 3))), changed


def minilm_twin(jax, p, ids):
    x = _layer_norm(jax, p, "norm", p["tokens.weight"][ids] + p["positions.weight"][: ids.shape[1]])
    for name in (f"blocks.{i}" for i in range(_layers(p))):
        x = _layer_norm(jax, p, name + ".norm1", x + _attention(jax, p, name, x, 12, False))
        x = _layer_norm(jax, p, name + ".norm2", x + _feed_forward(jax, p, name, x))
    return _linear(jax, p, "head", x.mean(1)), {}


def _text(batch, length):
    ids = torch.randint(0, 256, (batch, length + 1))
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


# name -> (make the model, make (inputs, targets), the JAX twin)
MODELS = {
    "GPT small": (lambda: GPT(2, 64, 32), lambda: _text(2, 32), gpt_twin),
    "GPT base": (lambda: GPT(4, 256, 128), lambda: _text(4, 128), gpt_twin),
    "ViT": (ViT, lambda: (torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))), vit_twin),
    "ResNet block": (ResNet, lambda: (torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,))), resnet_twin),
    "MiniLM": (MiniLM, lambda: (torch.randint(0, 1000, (4, 64)), torch.randint(0, 10, (4,))), minilm_twin),
}


def make(name, device="cpu"):
    """(model, inputs, targets) on a device: the same weights and data at every call."""
    torch.manual_seed(0)
    make_model, make_data, _ = MODELS[name]
    model, (x, y) = make_model(), make_data()
    return model.to(device), x.to(device), y.to(device)


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, -2), y.flatten())


def torch_step(model, x, y, rate=1e-4, compiler=None):
    """A function of no arguments: one step of AdamW, returning its loss, a tensor. compiler: a backend of
    torch.compile, which then gets the loss (with its backward) and the optimizer's step; "whole":
    torch_tpu.compile_step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    loss_function, update = loss_of, optimizer.step
    if compiler == "whole":
        return torch_tpu.compile_step(torch_step(model, x, y, rate), fullgraph=True)
    if compiler:
        loss_function, update = (
            torch.compile(loss_of, backend=compiler),
            torch.compile(optimizer.step, backend=compiler),
        )

    def step():
        optimizer.zero_grad()
        loss = loss_function(model, x, y)
        loss.backward()
        update()
        return loss.detach()

    return step


def jax_step(jax, name, model, x, y, rate=1e-4):
    """The same step under jax.jit, its state donated: a function of no arguments that returns the loss, an array."""
    np, twin = jax.numpy, MODELS[name][2]
    buffers = {n: np.asarray(b.numpy()) for n, b in model.named_buffers() if b.is_floating_point()}
    params = {n: np.asarray(p.detach().numpy()) for n, p in model.named_parameters()}
    zeros = {n: np.zeros_like(p) for n, p in params.items()}
    state = (params, zeros, {n: np.zeros_like(p) for n, p in params.items()}, buffers, np.zeros((), np.float32))
    x, y = np.asarray(x.numpy()), np.asarray(y.numpy())

    def loss_function(params, buffers, x, y):
        logits, changed = twin(jax, {**params, **buffers}, x)
        logits = logits.reshape(-1, logits.shape[-1])
        picked = np.take_along_axis(jax.nn.log_softmax(logits), y.reshape(-1, 1), 1)
        return -picked.mean(), {**buffers, **changed}

    def step(state, x, y):
        params, first, second, buffers, t = state
        (loss, buffers), grads = jax.value_and_grad(loss_function, has_aux=True)(params, buffers, x, y)
        t = t + 1
        first = {n: 0.9 * m + 0.1 * grads[n] for n, m in first.items()}
        second = {n: 0.999 * v + 0.001 * grads[n] ** 2 for n, v in second.items()}
        scale, root = rate / (1 - 0.9**t), np.sqrt(1 - 0.999**t)
        change = {n: scale * first[n] / (np.sqrt(second[n]) / root + 1e-8) for n in params}
        params = {n: p * (1 - rate * 0.01) - change[n] for n, p in params.items()}
        return (params, first, second, buffers, t), loss

    compiled = jax.jit(step, donate_argnums=0)
    held = [state]

    def run():
        held[0], loss = compiled(held[0], x, y)
        return loss

    return run
