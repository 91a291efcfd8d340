"""torch_tpu: torch.device("tpu"), plain PyTorch tensors on any PJRT plugin.

Importing torch is enough: this package registers itself through PyTorch's `torch.backends` entry points. No plugin is
loaded before a tensor is made on the device, and nothing is printed."""


def _autoload():
    """The `torch.backends` entry point: importing this module has done everything.

    It stands before the imports: `import torch_tpu` imports torch, which asks for it while this module is half made."""


import torch  # noqa: E402  first: the extension needs its libraries

from . import _C  # noqa: E402
from ._internal.execution_mode import set_eager_mode  # noqa: E402, F401
from ._timeline import timeline  # noqa: E402, F401

__version__ = "0.1.0"


def counters() -> dict:
    """What this process has done: compiles, cache hits by tier (plan, memory, disk), executions, bytes each way, live
    and peak bytes, and under "fallbacks" the number of calls that ran on the CPU for each operator."""
    return _C.counters()


def explain(fn=None, *args, **kwargs):
    """What torch.compile makes of fn(*args, **kwargs): graphs, programs, graph breaks, what runs on the host. str() is
    a report.

    Without a function: prints, to file= or stdout, why each program of this process was compiled, which is which part
    of its key was new; where programs came from; how DeferAndFuse's windows were flushed. With TORCH_TPU_TRACE_STACKS=1
    also the lines."""
    if fn is None:
        from . import _explain
        return _explain.explain(**kwargs)
    from .compile.explain import explain as compiled
    return compiled(fn, *args, **kwargs)


def __getattr__(name):
    if name in ("aot", "cache", "export", "kernels", "pallas"):
        import importlib
        return importlib.import_module(f"torch_tpu.{name}")
    if name == "compile_step":
        from .step import compile_step
        return compile_step
    if name == "scan_layers":
        from ._rolled import scan_layers
        return scan_layers
    if name == "eager_mode":  # the calling thread's mode: equal to "strict", "debug" or "fuse"
        from ._internal import execution_mode
        return execution_mode.eager_mode
    raise AttributeError(f"module 'torch_tpu' has no attribute {name!r}")


def _register_distributed(module):
    from . import distributed
    distributed.register(module)


def _register_placements(module):
    from .distributed import attention
    attention.register_placements(module)


def _register_ring(module):
    from .distributed import attention
    attention.register_ring(module)


def _setup():
    torch.utils.rename_privateuse1_backend("tpu")
    from . import tpu
    torch._register_device_module("tpu", tpu)
    torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True,
                                                         for_storage=True)
    from . import plugin
    _C.set_lazy_init(plugin.init)
    from . import _decompose  # noqa: F401  (tells _C how operators without a rule are lowered)
    from . import _meta  # noqa: F401  (what operators return where torch's Meta kernels do not say it as the CPU does)
    from . import _linalg  # noqa: F401  (operators composed of others, with results that only values tell)
    from . import _ranges  # noqa: F401  (ranges between tensors, windows)
    from . import _collectives  # noqa: F401  (schemas of operators between devices)
    from . import _foreign  # noqa: F401  (the schema of kernels of others)
    from . import _sparse  # noqa: F401  (kernels of sparse tensors)
    from . import _dlpack  # noqa: F401  (torch.from_dlpack of tpu tensors)
    from . import _exit  # noqa: F401  (waits for autograd threads at exit)
    from ._internal import default_backend, flex, later, whole_step
    later.when_imported("torch.distributed.distributed_c10d", _register_distributed)
    later.when_imported("torch.distributed.tensor._ops._matrix_ops", _register_placements)
    later.when_imported("torch.distributed.tensor.experimental._context_parallel._attention", _register_ring)
    later.when_imported("torch._dynamo.backends.registry", default_backend.register)
    later.when_imported("torch._dynamo", whole_step.register)
    later.when_imported("torch.nn.attention.flex_attention", flex.allow)


_setup()
