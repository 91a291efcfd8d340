"""Which TPU programs are made for."""
from ... import _C

CPU_STANDS_FOR = "TPU v6 lite"  # what kernels are shaped for where the CPU runs them


def get_tpu_device_name() -> str:
    """The kind of the current device, as JAX names it ("TPU v6 lite"); on a CPU plugin that of a TPU that kernels may
    be shaped for."""
    return _C.device_kind(_C.current_device()) if _C.platform() == "tpu" else CPU_STANDS_FOR


def get_tpu_topology() -> str:
    """The shape of the devices that this process sees: "1x1" for one. NotImplementedError for several: their
    coordinates are not asked for."""
    if _C.device_count() != 1:
        raise NotImplementedError(f"get_tpu_topology of {_C.device_count()} devices is not done; it is of one")
    return "1x1"
