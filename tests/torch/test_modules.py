"""Modules: moving them keeps identity and ties; buffers, batch norm, hooks, state dicts."""
import copy

import pytest
import torch
from torch import nn


def test_moving_keeps_ties(dev):
    m = nn.ModuleDict({"emb": nn.Embedding(7, 4), "head": nn.Linear(4, 7, bias=False)})
    m["head"].weight = m["emb"].weight
    m.to(dev)
    assert m["head"].weight is m["emb"].weight and len(list(m.parameters())) == 1
    clone = copy.deepcopy(m)
    assert clone["head"].weight is clone["emb"].weight and clone["head"].weight is not m["head"].weight
    m.cpu()
    assert m["head"].weight is m["emb"].weight and m["emb"].weight.device.type == "cpu"


def test_moving_keeps_parameters(dev):
    m = nn.Linear(3, 2)
    weight = m.weight
    optimizer = torch.optim.SGD(m.parameters(), lr=1.0)
    m.to(dev)
    before = m.weight.detach().cpu().clone()
    m(torch.ones(1, 3, device=dev)).sum().backward()
    optimizer.step()
    assert m.weight is weight and weight.device.type == torch.device(dev).type
    torch.testing.assert_close(m.weight.detach().cpu(), before - 1)


def test_moving_moves_gradients_and_buffers(dev):
    m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    m(torch.randn(4, 2)).sum().backward()
    m.to(dev)
    assert all(
        t.device.type == torch.device(dev).type
        for t in [*m.parameters(), *m.buffers(), *(p.grad for p in m.parameters())]
    )
    m.to(torch.bfloat16)
    assert m[0].weight.dtype == torch.bfloat16 and m[1].num_batches_tracked.dtype == torch.int64


def test_batch_norm_statistics(dev):
    got, want = nn.BatchNorm2d(3).to(dev), nn.BatchNorm2d(3)
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5) * 2 + 1
        torch.testing.assert_close(got(x.to(dev)).cpu(), want(x))
    torch.testing.assert_close(got.running_mean.cpu(), want.running_mean)
    torch.testing.assert_close(got.running_var.cpu(), want.running_var)
    assert got.num_batches_tracked.item() == 3
    x = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(got.eval()(x.to(dev)).cpu(), want.eval()(x))


LAYERS = {
    "linear": (lambda: nn.Linear(6, 4), (3, 6)),
    "bilinear": (lambda: nn.Bilinear(3, 3, 2), None),
    "conv1d": (lambda: nn.Conv1d(2, 4, 3, padding=1), (2, 2, 7)),
    "conv2d": (lambda: nn.Conv2d(4, 8, 3, stride=2, groups=2), (2, 4, 9, 9)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), (1, 1, 4, 4, 4)),
    "transposed": (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), (1, 2, 4, 4)),
    "layer_norm": (lambda: nn.LayerNorm(6), (3, 6)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 5)),
    "rms_norm": (lambda: nn.RMSNorm(6), (3, 6)),
    "instance_norm": (lambda: nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 4)),
    "prelu": (lambda: nn.PReLU(), (3, 4)),
    "lstm": (lambda: nn.LSTM(3, 4, 2), (5, 2, 3)),
    "gru": (lambda: nn.GRU(3, 4, bidirectional=True), (5, 2, 3)),
    "rnn": (lambda: nn.RNN(3, 4), (5, 2, 3)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d(3), (1, 2, 7, 7)),
    "upsample": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (1, 1, 4, 4)),
    "softmax": (lambda: nn.LogSoftmax(1), (3, 5)),
    "unfold": (lambda: nn.Unfold(2), (1, 2, 4, 4)),
    "shuffle": (lambda: nn.PixelShuffle(2), (1, 4, 3, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_forward_and_backward(dev, name):
    make, shape = LAYERS[name]
    want = make()
    got = copy.deepcopy(want).to(dev)
    inputs = [torch.randn(2, 3), torch.randn(2, 3)] if shape is None else [torch.randn(shape)]
    results = []
    for m, d in ((got, dev), (want, "cpu")):
        xs = [x.detach().to(d).requires_grad_() for x in inputs]
        y = m(*xs)
        y = y[0] if isinstance(y, tuple) else y
        y.square().sum().backward()
        results.append([y.detach().cpu()] + [x.grad.cpu() for x in xs] + [p.grad.cpu() for p in m.parameters()])
    for g, w in zip(*results):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_inference_path(dev, norm_first):
    want = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first).eval()
    got = copy.deepcopy(want).to(dev)
    x, padding = torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    causal = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    with torch.no_grad():
        for kw in (
            {},
            {"src_key_padding_mask": padding},
            {"src_mask": causal},
            {"src_mask": causal, "src_key_padding_mask": padding},
        ):
            on = {k: v.to(dev) for k, v in kw.items()}
            torch.testing.assert_close(got(x.to(dev), **on).cpu(), want(x, **kw), rtol=1e-4, atol=1e-5)
        want, got = want.self_attn, got.self_attn
        a, b = want(x, x, x), got(x.to(dev), x.to(dev), x.to(dev))
        torch.testing.assert_close((b[0].cpu(), b[1].cpu()), a, rtol=1e-4, atol=1e-5)


def test_embedding_bag_and_sparse_free_embedding(dev):
    e = nn.Embedding(10, 3, padding_idx=0)
    got = copy.deepcopy(e).to(dev)
    ids = torch.tensor([[0, 3, 3], [9, 0, 1]])
    got(ids.to(dev)).sum().backward()
    e(ids).sum().backward()
    torch.testing.assert_close(got.weight.grad.cpu(), e.weight.grad)


def test_state_dict_round_trip(dev):
    a, b = nn.Linear(2, 2).to(dev), nn.Linear(2, 2).to(dev)
    b.load_state_dict(a.state_dict())
    assert torch.equal(a.weight.cpu(), b.weight.cpu())
    b.load_state_dict({k: v.cpu() for k, v in a.state_dict().items()}, assign=False)
    assert b.weight.device.type == torch.device(dev).type


def test_parametrize_weight_norm_and_hooks(dev):
    m = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)).to(dev)
    seen = []
    m.register_forward_hook(lambda mod, i, o: seen.append(o.shape))
    m(torch.ones(1, 3, device=dev)).sum().backward()
    assert seen == [(1, 2)] and m.parametrizations.weight.original0.grad is not None


def test_scaled_dot_product_attention(dev):
    q, k, v = (torch.randn(2, 3, 5, 8) for _ in range(3))
    mask = torch.rand(2, 1, 5, 5) > 0.3
    mask[..., 0] = True
    for kw in ({}, {"is_causal": True}, {"attn_mask": mask}, {"scale": 0.3}):
        want = nn.functional.scaled_dot_product_attention(q, k, v, **kw)
        on = {n: x.to(dev) if isinstance(x, torch.Tensor) else x for n, x in kw.items()}
        got = nn.functional.scaled_dot_product_attention(q.to(dev), k.to(dev), v.to(dev), **on)
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)
