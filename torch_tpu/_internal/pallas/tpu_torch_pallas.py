"""Kernels by name and fingerprint: a StableHLO module is registered once and called with tensors, without a torch
operator of its own. All are calls of one operator, torch_tpu_kernels::call, in every mode."""
from ...kernels.op import Kernel, check, specs_of
from ...kernels.text import parse

_kernels = {}  # (name, fingerprint) -> (Specs of its arguments, of its results, platform -> Function)
_texts = {}  # (name, fingerprint) -> the key of its text


def register_custom_kernel(name: str, mlir_fingerprint: str, mlir_module: str):
    """The function main of a module's text as kernel (name, mlir_fingerprint). TextError (a ValueError) for what is no
    such function, ValueError where another text has that name and fingerprint."""
    function = parse(mlir_module)
    if _texts.setdefault((name, mlir_fingerprint), function.key) != function.key:  # programs made of it stay
        raise ValueError(f"{name}: another text is registered under {mlir_fingerprint!r}")
    register(name, mlir_fingerprint, function.args, function.results, lambda platform: function)


def register(name, fingerprint, args, results, function):
    """function(platform), "cpu" or "tpu", gives the Function when a program is made."""
    _kernels[name, fingerprint] = tuple(args), tuple(results), function


def lookup_custom_kernel(name: str, mlir_fingerprint: str) -> bool:
    """Whether such a kernel is registered."""
    return (name, mlir_fingerprint) in _kernels


def _known(name, fingerprint):
    if (name, fingerprint) not in _kernels:
        raise LookupError(f"{name}: no kernel is registered under {fingerprint!r}")
    return _kernels[name, fingerprint]


def _outputs(args):
    tensors, name, fingerprint = args
    takes, gives, _ = _known(name, fingerprint)
    check(name, "argument", takes, specs_of([tensors]))
    return gives


_call = Kernel("torch_tpu_kernels::call", "(Tensor[] args, str name, str fingerprint) -> Tensor[]", _outputs,
               lambda platform, args: _known(args[1], args[2])[2](platform))


def call_custom_kernel(
    name, mlir_fingerprint, *, inputs, output_shapes=None, donate_argnums=None, device_assignment=None
):
    """The results of a registered kernel for tensors, as a list. The other arguments say nothing that the kernel does
    not: its text tells what it returns, and it runs on the device of its inputs. LookupError if it is not
    registered. It has no derivative: a backward through its results raises."""
    return _call(list(inputs), name, mlir_fingerprint)
