"""Entries under torch.compile: whole graphs through the tpu backend, and which of them ran by their operators instead.

Functions that Dynamo itself does not trace are not the backend's to compile: the same function is captured on the CPU
with torch's "eager" backend, and where that fails too the case is not counted."""
import torch

from ..compile import cache, program, tpu

_graphs = []  # of the case that runs


class _Watched(cache.Compiled):
    def _load(self, module):
        super()._load(module)
        _graphs.append(self._function)


def backend(module, inputs):
    """The tpu backend; what it makes is remembered until refusals() is asked."""
    from torch._functorch import config

    with config.patch(enable_autograd_cache=False):  # what is traced here is never traced again
        return tpu(module, inputs, _made=_Watched)


def function(fn, backend):
    """fn as one graph. What Dynamo may capture is the same for every backend: results whose size data tells, and
    numbers."""
    torch._dynamo.reset()
    torch._dynamo.config.capture_dynamic_output_shape_ops = torch._dynamo.config.capture_scalar_outputs = True
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0  # it empties the CPU's caches, 40 ms for each graph
    return torch.compile(fn, backend=backend, dynamic=False, fullgraph=True)


def refusals():
    """Why graphs since the last call ran operator by operator: their reasons."""
    parts = [
        p
        for f in _graphs
        for p in [f, *(step[2] for step in getattr(f, "steps", ()))]
        if isinstance(p, program.Program)
    ]
    _graphs.clear()
    return sorted({p.refused for p in parts if p.refused is not None})
