"""optim_db: PyTorch's own configurations of every optimizer: some steps on the CPU and on tpu give the same parameters.

A variant is an implementation: single tensors, foreach, fused, differentiable, capturable (whose configurations
optim_db keeps for devices; the CPU runs them without that flag), and sparse gradients."""
import copy
import functools

import torch

from .task import Case, Task

VARIANTS = ["single", "foreach", "fused", "differentiable", "capturable", "sparse"]
STEPS = 4


@functools.cache
def database():
    from torch.testing._internal.common_optimizers import optim_db
    return {info.optim_cls.__name__: info for info in optim_db}


def _has(info, variant):
    if variant == "capturable":
        return info.has_capturable_arg
    if variant == "sparse":
        return info.supports_sparse or info.only_supports_sparse_grads
    return not info.only_supports_sparse_grads if variant == "single" else variant in info.supported_impls


def tasks(variants, dtypes):
    for variant in variants:
        for name, info in database().items():
            for dtype in dtypes or ["float32"]:
                if variant in VARIANTS and _has(info, variant):
                    yield Task("optimizers", name, variant, dtype)


def shapes(info):
    return [(3, 4), (5, 2)] if info.optim_cls.__name__ == "Muon" else [(3, 4), (4,), (2, 3, 2), ()]


class Runner:
    """Some steps of one configuration. where: the device of the numbers that are given as tensors, or None for the
    CPU."""

    def __init__(self, info, variant, kwargs, dtype, tensors_move):
        self.info, self.variant, self.kwargs, self.tensors_move = info, variant, kwargs, tensors_move
        generator = torch.Generator().manual_seed(3)

        def make(shape):
            return torch.randn(shape, generator=generator).to(dtype)

        self.start = [make(s) for s in ([(6, 4)] if variant == "sparse" else shapes(info))]
        self.targets = [make(t.shape) for t in self.start]
        self.rows = torch.tensor([[4, 1, 4]])  # of a sparse gradient, one of them twice
        self.row_values = make((3, 4))

    def options(self, place):
        options = dict(self.kwargs)
        if self.variant == "capturable" and place.device.type == "cpu":
            options.pop("capturable")
            numbers = {
                k: (
                    tuple(float(b) for b in v)
                    if isinstance(v, tuple)
                    else float(v) if isinstance(v, torch.Tensor) else v
                )
                for k, v in options.items()
            }
            return numbers
        return place(options) if self.tensors_move else copy.deepcopy(options)

    def run(self, place):
        parameters = [place.tensor(t).clone().requires_grad_() for t in self.start]
        if self.variant == "differentiable":
            return self.differentiate(place, parameters)
        optimizer = self.info.optim_cls(parameters, **self.options(place))
        targets = [place.tensor(t) for t in self.targets]

        def closure():
            optimizer.zero_grad()
            if self.variant == "sparse":
                rows, values = place.tensor(self.rows), place.tensor(self.row_values)
                parameters[0].grad = torch.sparse_coo_tensor(
                    rows, values * parameters[0].detach()[rows[0]], parameters[0].shape
                )
                return None
            loss = sum(((p - t).abs() ** 2).sum() for p, t in zip(parameters, targets))
            loss.backward()
            return loss

        step = place.function(optimizer.step)
        for _ in range(STEPS):
            if self.info.step_requires_closure:
                step(closure)
            else:
                closure()
                step()
        return [[p.detach() for p in parameters], [self.state(optimizer.state[p]) for p in parameters]]

    def state(self, state):
        """Numbers are compared wherever they are. Not the step counts of capturable runs, which the CPU keeps
        otherwise; not the history of LBFGS, differences of nearly equal numbers."""
        if self.variant == "capturable" or self.info.step_requires_closure:
            return []
        return {k: v.item() if isinstance(v, torch.Tensor) and not v.dim() else v for k, v in state.items()}

    def differentiate(self, place, leaves):
        """A step is a function of the parameters and the gradients: its gradients with respect to both."""
        parameters = [p.clone() for p in leaves]
        gradients = [place.tensor(t).clone().requires_grad_() for t in self.targets]
        for p, g in zip(parameters, gradients):
            p.grad = g
        optimizer = self.info.optim_cls(parameters, **self.options(place))
        optimizer.step()
        loss = sum((p.abs() ** 2).sum() for p in parameters)
        return [[p.detach() for p in parameters], torch.autograd.grad(loss, leaves + gradients, allow_unused=True)]


def cases(task, count):
    info, dtype = database()[task.entry], getattr(torch, task.dtype)
    device = "cuda" if task.variant == "capturable" else "cpu"  # the only devices optim_db has such configurations for
    for given in info.optim_inputs_func(device):
        kwargs = dict(given.kwargs)
        if bool(kwargs.get("capturable")) != (task.variant == "capturable"):
            continue
        kwargs.update({flag: flag == task.variant for flag in info.supported_impls if task.variant != "capturable"})
        tensors = any(
            isinstance(x, torch.Tensor) for v in kwargs.values() for x in (v if isinstance(v, tuple) else (v,))
        )
        for move in (False, True) if tensors else (False,):
            runner = Runner(info, task.variant, kwargs, dtype, move)
            yield Case(runner.run, f"{given.desc}: {kwargs}{' on the device' if move else ''}"[:300])
