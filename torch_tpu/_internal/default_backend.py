"""The backend of torch.compile(model) where none is named: graphs that have tpu tensors go to the tpu backend, all
others to inductor, which gets its mode and options as if nobody stood between. torch.compiler's set_default_backend
changes it."""
import functools


def _uses_tpu(module, inputs) -> bool:
    import torch

    def on_tpu(value):
        return isinstance(value, torch.Tensor) and value.device.type == "tpu"

    if any(on_tpu(x) for x in inputs):
        return True
    for m in module.modules():
        for node in getattr(getattr(m, "graph", None), "nodes", ()):
            if on_tpu(node.meta.get("example_value")) or on_tpu(node.meta.get("val")):
                return True
    return False


@functools.cache
def _inductor(mode, options):
    import torch

    return torch._TorchCompileInductorWrapper(mode, dict(options) if options else None, None)


def tpu_or_inductor(module, inputs, *, mode=None, options=None):
    """The backend function: by where the graph's tensors are."""
    if _uses_tpu(module, inputs):
        from ..compile import tpu

        return tpu(module, inputs, mode=mode, options=options)
    try:
        inductor = _inductor(mode, tuple(sorted(options.items())) if options else None)
    except TypeError:  # options that cannot be hashed
        inductor = _inductor.__wrapped__(mode, tuple(options.items()))
    return inductor(module, inputs)


def register(registry) -> None:
    """registry: torch._dynamo.backends.registry."""
    if registry.get_default_backend() == "inductor":
        registry.set_default_backend(tpu_or_inductor)
