"""module_db: PyTorch's own inputs for every torch.nn module, in training and in evaluation, forward and backward."""
import copy
import functools

import torch
from torch.utils import _pytree as pytree

from .ops import describe, spread
from .task import Case, Nothing, Task, seed

VARIANTS = ["forward", "backward"]


@functools.cache
def database():
    from torch.testing._internal.common_modules import module_db
    return {info.name: info for info in module_db}


def tasks(variants, dtypes):
    for variant in variants:
        for name, info in database().items():
            for dtype in dtypes or ["float32"]:
                if variant in VARIANTS and getattr(torch, dtype) in info.supported_dtypes("cpu"):
                    yield Task("modules", name, variant, dtype)


class Runner:
    """A module in one mode, on one input."""

    def __init__(self, info, given, training, dtype, backward):
        seed(0)
        made = given.constructor_input
        self.module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
        self.given, self.grad = given.forward_input, backward
        if info.is_lazy:  # it makes its parameters at the first call
            with torch.no_grad():
                self.module(*self.given.args, **self.given.kwargs)

    def run(self, place):
        module = copy.deepcopy(self.module)
        module = (module.double() if place.wide else module).to(place.device)
        args, kwargs = place((self.given.args, self.given.kwargs))
        with torch.set_grad_enabled(self.grad):
            result = place.function(module)(*args, **kwargs)
        state = [b for _, b in module.named_buffers()]
        if not self.grad:
            return [result, state]
        outputs = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
        leaves = [p for p in module.parameters() if p.requires_grad] + [c for _, c in place.pairs() if c.requires_grad]
        if not outputs or not leaves:
            raise Nothing("nothing to differentiate")
        weights = torch.Generator().manual_seed(7)
        given = [torch.randn(t.shape, generator=weights).to(t.dtype).to(place.device) for t in outputs]
        return [list(torch.autograd.grad(outputs, leaves, given, allow_unused=True)), state]


def cases(task, count):
    info, dtype, backward = database()[task.entry], getattr(torch, task.dtype), task.variant == "backward"
    for training in (True, False):
        seed(0)
        inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=backward, training=training)
        for given in spread([i for i in inputs if i.forward_input is not None], count):
            mode = "training" if training else "evaluation"
            made = given.constructor_input
            text = f"{mode} {given.desc}: {describe((made.args, made.kwargs))} on {describe((given.forward_input.args, given.forward_input.kwargs))}"
            yield Case(Runner(info, given, training, dtype, backward).run, text[:300])
