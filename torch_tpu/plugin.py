"""Which PJRT plugin is the device: TORCH_TPU_PLUGIN if set, else libtpu where the machine has TPU chips, else the
installed XLA CPU plugin."""
import functools
import glob
import importlib.util
import os

from . import _C

GOOGLE = "0x1ae0"  # the PCI vendor of TPU chips


def _in_package(name, *path):
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        return None
    for folder in spec.submodule_search_locations or [os.path.dirname(spec.origin)]:
        file = os.path.join(folder, *path)
        if os.path.exists(file):
            return file
    return None


KNOWN = {
    "xla-cpu-pjrt": lambda: _in_package("xla_plugins", "xla_cpu_pjrt", "xla_cpu_pjrt.so"),
    "fastatomstruct-xla-cpu": lambda: _in_package("fastatomstruct_xla_cpu", "libpjrt_cpu.so"),
    "libtpu": lambda: _in_package("libtpu", "libtpu.so"),
}


def has_tpu_chips() -> bool:
    """Whether this machine has TPU chips that a process can open."""
    if not (glob.glob("/dev/accel*") or glob.glob("/dev/vfio/[0-9]*")):
        return False
    for vendor in glob.glob("/sys/bus/pci/devices/*/vendor"):
        try:
            with open(vendor) as f:
                if f.read().strip() == GOOGLE:
                    return True
        except OSError:
            pass
    return False


def find() -> str:
    """The path of the plugin to use. RuntimeError, saying what to install, if there is none."""
    return _find(os.environ.get("TORCH_TPU_PLUGIN"))


@functools.lru_cache(maxsize=None)  # of what was found: torch's optimizers ask at every step whether there is a device
def _find(asked):
    if asked:
        path = KNOWN[asked]() if asked in KNOWN else asked
        if path is None:
            raise RuntimeError(f"TORCH_TPU_PLUGIN={asked}: the package is not installed: pip install {asked}")
        if not os.path.exists(path):
            raise RuntimeError(f"TORCH_TPU_PLUGIN={asked}: no such file, nor one of {', '.join(KNOWN)}")
        return os.path.abspath(path)
    names = ["xla-cpu-pjrt", "fastatomstruct-xla-cpu"]
    if has_tpu_chips():
        names.insert(0, "libtpu")
    for name in names:
        path = KNOWN[name]()
        if path:
            return path
    raise RuntimeError(
        "torch_tpu found no PJRT plugin: pip install libtpu on a TPU machine, pip install xla-cpu-pjrt elsewhere, "
        "or set TORCH_TPU_PLUGIN to a plugin's path"
    )


def init() -> None:
    """Makes the client of this process. Called by the extension at first use of the device."""
    _C.init(find(), int(os.environ.get("TORCH_TPU_CPU_DEVICES") or 1))
