"""Layers of one kind, one after another, that a traced program holds once: a loop over their stacked parameters.

A model of 36 layers costs what one layer costs to trace, to lower and to compile. Backward is a loop too, which
computes each layer again from its input (activation checkpointing), so that what is kept of a layer is its input."""
import contextlib

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint as _checkpoint

from ._internal.repeat import repeat, trace_body

_recording = 0  # how many programs are being recorded: by torch_tpu.aot, in one thread at a time, with autograd's


@contextlib.contextmanager
def recording():
    """Within it layers are loops: what runs is recorded."""
    global _recording
    _recording += 1
    try:
        yield
    finally:
        _recording -= 1


class _Rows(nn.Module):
    """Stacked parameters, named as a layer's."""

    _torch_tpu_stacked = 1  # the dim to shard along: aot.shard
    _torch_tpu_gather = None  # what it was told


class _Loop(torch.autograd.Function):
    """x through all layers. call(x, rows, others) is one of them; keep: for backward; tensors: n stacks, then
    others."""

    @staticmethod
    def forward(ctx, call, n, keep, x, *tensors):
        stacks, others = tensors[:n], tensors[n:]

        def body(x, *given):
            y = call(x, given[:n], given[n:])
            return [y, x] if keep else [y]

        module, outer = trace_body(body, [_like(x), *map(_row, stacks), *map(_like, others)])
        if keep and any(t.requires_grad for t in outer):
            raise NotImplementedError("layers that use a parameter of no layer: pass it to them as an argument")
        made = repeat(module, False, [x], list(stacks), [*others, *outer])
        ctx.call, ctx.n = call, n
        if keep:
            ctx.save_for_backward(made[1], *tensors)
        return made[0]

    @staticmethod
    def backward(ctx, grad):
        inputs, *tensors = ctx.saved_tensors
        n, call, needs = ctx.n, ctx.call, ctx.needs_input_grad[4:]
        stacks, others = tensors[:n], tensors[n:]
        wanted = [i for i, t in enumerate(needs) if t and i < n], [i - n for i, t in enumerate(needs) if t and i >= n]
        sums = [torch.zeros_like(others[i]) for i in wanted[1]]

        def body(grad, *given):
            sums, (x, *rows), rest = (
                given[: len(sums_like)],
                given[len(sums_like) : len(sums_like) + n + 1],
                given[len(sums_like) + n + 1 :],
            )
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                rows = [r.detach().requires_grad_(needs[i]) for i, r in enumerate(rows)]
                rest = [r.detach().requires_grad_(needs[n + i]) for i, r in enumerate(rest)]
                y = call(x, rows, rest)
                of = [x, *(rows[i] for i in wanted[0]), *(rest[i] for i in wanted[1])]
                found = torch.autograd.grad(y, of, grad, allow_unused=True)
                found = [torch.zeros_like(t) if g is None else g for g, t in zip(found, of)]
            k = 1 + len(wanted[0])
            return [found[0], *(a + b for a, b in zip(sums, found[k:])), *found[1:k]]

        sums_like = sums
        with torch.no_grad():
            module, outer = trace_body(
                body, [_like(grad), *map(_like, sums), _row(inputs), *map(_row, stacks), *map(_like, others)]
            )
            made = repeat(module, True, [grad, *sums], [inputs, *stacks], [*others, *outer])
        result = [None] * len(needs)
        for i, g in zip([*(n + i for i in wanted[1]), *wanted[0]], made[1:]):
            result[i] = g
        return None, None, None, made[0] if ctx.needs_input_grad[3] else None, *result


def _like(x):
    """A tensor of its own like x, of no graph."""
    with torch.fx.experimental.proxy_tensor.disable_proxy_modes_tracing(), torch.no_grad():
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


def _row(x):
    with torch.fx.experimental.proxy_tensor.disable_proxy_modes_tracing(), torch.no_grad():
        return torch.empty(x.shape[1:], dtype=x.dtype, device=x.device)


class RolledLayers(nn.Module):
    """What scan_layers makes. Its parameters are those of a layer, each with a first dim of as many rows as there are
    layers."""

    def __init__(self, layers, checkpoint):
        super().__init__()
        layers = list(layers)
        if not layers:
            raise ValueError("expected a layer or more")
        described = [[(n, t.shape, t.dtype, t.requires_grad) for n, t in _named(layer)] for layer in layers]
        for i, (layer, d) in enumerate(zip(layers, described)):
            if type(layer) is not type(layers[0]) or d != described[0]:
                raise ValueError(f"expected layers of one kind, got layer {i} of another than layer 0")
        all_tensors = [id(t) for layer in layers for _, t in _named(layer)]
        if len(set(all_tensors)) != len(all_tensors):
            raise ValueError("expected layers that share no parameters")
        self.checkpoint, self.length = checkpoint, len(layers)
        self._layer = [layers[0]]  # in a list, so that it is no child: its own parameters are never used
        for name, like in _named(layers[0]):
            *path, last = name.split(".")
            home = self
            for part in path:
                if part not in home._modules:
                    home.add_module(part, _Rows())
                home = home._modules[part]
            stacked = torch.stack([dict(_named(layer))[name].detach() for layer in layers])
            if isinstance(like, nn.Parameter):
                home.register_parameter(last, nn.Parameter(stacked, requires_grad=like.requires_grad))
            else:
                home.register_buffer(last, stacked)
        self._register_state_dict_hook(_unstack)
        self.register_load_state_dict_pre_hook(_stack)

    _torch_tpu_stacked, _torch_tpu_gather = _Rows._torch_tpu_stacked, None

    def train(self, mode=True):
        self._layer[0].train(mode)
        return super().train(mode)

    def _call(self, names, wholes, x, rows, args, kwargs):
        rows = {n: whole(r) for n, r, whole in zip(names, rows, wholes)}
        y = torch.func.functional_call(self._layer[0], rows, (x, *args), kwargs)
        if isinstance(y, (tuple, list)) and len(y) == 1:
            (y,) = y
        got = f"{list(y.shape)} of {y.dtype}" if isinstance(y, torch.Tensor) else type(y).__name__
        if not isinstance(y, torch.Tensor) or (y.shape, y.dtype) != (x.shape, x.dtype):
            expected = f"{list(x.shape)} of {x.dtype}"
            raise ValueError(
                f"expected layers that return what they are given, {expected}, got {got}".replace("torch.", "")
            )
        return y

    def forward(self, x, *args, **kwargs):
        stacks = dict(_named(self))
        names = list(stacks)
        parts, wholes = [], []
        for name, p in stacks.items():
            part, whole = _unsharded(self.get_submodule(name.rpartition(".")[0]), p)
            parts.append(part)
            wholes.append(whole)
        if _recording and (self.checkpoint or not torch.is_grad_enabled()):
            flat, spec = tree_flatten((args, kwargs))
            places = [i for i, a in enumerate(flat) if isinstance(a, torch.Tensor)]

            def call(x, rows, others):
                given = list(flat)
                for i, o in zip(places, others):
                    given[i] = o
                return self._call(names, wholes, x, rows, *tree_unflatten(given, spec))

            return _Loop.apply(call, len(parts), torch.is_grad_enabled(), x, *parts, *(flat[i] for i in places))
        for rows in zip(*(p.unbind() for p in parts)) if parts else [()] * self.length:
            if self.checkpoint and torch.is_grad_enabled():
                x = _checkpoint(self._call, names, wholes, x, rows, args, kwargs, use_reentrant=False)
            else:
                x = self._call(names, wholes, x, rows, args, kwargs)
        return x

    def extra_repr(self):
        return f"{self.length} x {type(self._layer[0]).__name__}"


def _named(module):
    return [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]


def _unsharded(home, p):
    """The part of a stack that this rank has, and what makes a row of it whole."""
    if home._torch_tpu_gather is None or type(p.data) is torch.Tensor:
        return p, lambda row: row
    from .aot import sharded

    if sharded.local(p) is p:
        return p, lambda row: row
    mesh, size = p.device_mesh, p.shape[1]
    return p.to_local(), lambda row: sharded.gather_part(row, mesh, size, *home._torch_tpu_gather)


def _unstack(module, state, prefix, metadata):
    """State is named as that of a ModuleList of the layers."""
    for name, t in _named(module):
        stacked = state.pop(prefix + name, None)
        if stacked is not None:
            state.update({f"{prefix}{i}.{name}": row for i, row in enumerate(stacked)})


def _stack(module, state, prefix, *_):
    for name, t in _named(module):
        keys = [f"{prefix}{i}.{name}" for i in range(module.length)]
        if all(k in state for k in keys):
            state[prefix + name] = torch.stack([state.pop(k) for k in keys])


def scan_layers(layers, *, checkpoint=True):
    """A module that calls layers one after another, x = layer(x, *args, **kwargs), and that a program of torch_tpu.aot
    holds as one loop.

    layers: modules of one kind (a ModuleList), each from a tensor to a tensor of the same size and dtype; args and
    kwargs are the same for all. Their parameters become stacked ones, [layers, ...], of the module that is returned:
    make optimizers afterwards. state_dict() has the names that a ModuleList would give. checkpoint: backward computes
    each layer again from its input; without it a training step holds every layer by itself. Everywhere else the layers
    run one by one. Random numbers within layers cannot be recorded in a loop. Raises ValueError for layers that differ
    or share parameters."""
    return RolledLayers(layers, checkpoint)
