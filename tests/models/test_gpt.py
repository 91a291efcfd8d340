"""A small GPT trained as people train one: tied embeddings, SDPA, dropout, AdamW, schedule, clipping, accumulation."""
import gc

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(dropout))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (u.view(b, t, self.heads, -1).transpose(1, 2) for u in self.qkv(self.norm1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p if self.training else 0.0)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary=64, dim=32, heads=4, layers=2, length=16, dropout=0.1, recompute=False):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(length, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.recompute = recompute

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(self.norm(x))


def batches(device, n, batch=4, length=16):
    g = torch.Generator().manual_seed(3)
    data = torch.randint(0, 64, (n, batch, length + 1), generator=g)
    return [(d[:, :-1].to(device), d[:, 1:].to(device)) for d in data]


def loss_of(model, ids, targets):
    return F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())


def train(device, steps=6, **kwargs):
    torch.manual_seed(0)
    model = Gpt(dropout=0.0, recompute=kwargs.pop("recompute", False)).to(device)
    assert model.head.weight is model.tokens.weight
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, **kwargs)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses, pairs = [], batches(device, 2 * steps)
    for step in range(steps):
        for ids, targets in pairs[2 * step:2 * step + 2]:  # two batches for one step
            loss = loss_of(model, ids, targets) / 2
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("kwargs", [dict(foreach=True), dict(foreach=False), dict(fused=True), dict(recompute=True)],
                         ids=lambda k: ",".join(k))
def test_gpt_losses_equal_cpu(dev, kwargs):
    ours, reference = train(dev, **dict(kwargs)), train("cpu", **{k: v for k, v in kwargs.items() if k == "recompute"})
    assert ours == pytest.approx(reference, rel=1e-3)


@pytest.mark.parametrize("kwargs", [dict(foreach=True), dict(fused=True)], ids=lambda k: ",".join(k))
def test_gpt_learning_rates_compile_nothing_and_memory_is_flat(dev, counted, kwargs):
    import torch_tpu
    gc.collect()
    before = torch_tpu.counters()
    model = Gpt().to(dev)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, **kwargs)
    live = []
    for step, (ids, targets) in enumerate(batches(dev, 20)):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 / (step + 1)
        with counted() as c:
            loss_of(model, ids, targets).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        if step >= 2:
            assert c.built == 0, f"step {step} built {c.built} programs"
            now = torch_tpu.counters()
            live.append((now["live_storages"], now["live_bytes"] - 16 * now["scalar_uploads"]))
    assert len({storages for storages, _ in live}) == 1
    del model, optimizer, ids, targets, group
    gc.collect()
    torch.tpu.empty_cache()
    assert torch_tpu.counters()["live_storages"] == before["live_storages"]


def test_gpt_autocast_and_scaler(dev):
    torch.manual_seed(0)
    model = Gpt(dropout=0.0).to(dev)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scaler = torch.amp.GradScaler(dev, init_scale=1024.0)
    first = last = None
    ids, targets = batches(dev, 1)[0]
    for _ in range(12):
        with torch.autocast(dev, dtype=torch.bfloat16):
            loss = loss_of(model, ids, targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        last = loss.item()
        first = last if first is None else first
    assert last < first - 0.3


def test_dropout_differs_between_calls_and_repeats_with_the_seed(dev):
    model = Gpt(dropout=0.5).to(dev)
    ids, _ = batches(dev, 1)[0]
    torch.manual_seed(5)
    a, b = model(ids).cpu(), model(ids).cpu()
    torch.manual_seed(5)
    assert torch.equal(a, model(ids).cpu()) and not torch.equal(a, b)
