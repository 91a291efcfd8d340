"""Which TPU programs are made for."""
import contextlib
import threading

from ... import _C

CPU_STANDS_FOR = "TPU v6 lite"  # what kernels are shaped for where the CPU runs them
_here = threading.local()  # .kind: of the TPU that this thread makes programs for


@contextlib.contextmanager
def made_for(kind):
    """Within it this thread makes programs for a TPU of this kind, which need not be here."""
    before = getattr(_here, "kind", None)
    _here.kind = kind
    try:
        yield
    finally:
        _here.kind = before


def get_tpu_device_name() -> str:
    """The kind of TPU that programs are made for, as JAX names it ("TPU v6 lite"): that of the topology in
    torch_tpu.aot.compile, else the current device's; on a CPU plugin that of a TPU that kernels may be shaped for."""
    kind = getattr(_here, "kind", None)
    return kind or (_C.device_kind(_C.current_device()) if _C.platform() == "tpu" else CPU_STANDS_FOR)


def get_tpu_topology() -> str:
    """The shape of the devices that this process sees: "1x1" for one. NotImplementedError for several: their
    coordinates are not asked for."""
    if _C.device_count() != 1:
        raise NotImplementedError(f"get_tpu_topology of {_C.device_count()} devices is not done; it is of one")
    return "1x1"
