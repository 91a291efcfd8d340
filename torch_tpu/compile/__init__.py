"""torch.compile(backend="tpu"): a captured graph becomes one program.

Dynamo captures, AOTAutograd makes it functional and splits forward from backward; each graph is then one program
(program.py), or, where parts of it are the host's, a few (parts.py). Loops, branches and saved random state are parts of
programs (control.py)."""

import torch
from torch._dynamo.backends.common import aot_autograd

from . import control, scalars, options as _options
from .parts import callable_of

control.register()


def _boxed(function):
    """function, of a list of inputs, as AOTAutograd calls it: the list is emptied, so that nothing outlives its last use."""

    def run(args):
        inputs = list(args)
        args.clear()
        return function(inputs)

    run._boxed_call = True
    return run


def _compile(module, example_inputs):
    control.retype_random_states(module.graph)
    return _boxed(callable_of(module))


_aot = aot_autograd(fw_compiler=_compile, decompositions=scalars.TABLE, keep_inference_input_mutations=True)


def tpu(module, example_inputs, *, mode=None, options=None):
    """The backend function that torch.compile calls: torch finds it by the entry point torch_dynamo_backends.

    mode: torch's own ("default", "reduce-overhead", "max-autotune" ...) are accepted; a program is what each of them asks for."""
    _options.check(mode, options)
    return _aot(module, example_inputs)
