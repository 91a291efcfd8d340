"""torch.compile(backend="tpu"): a captured graph becomes one program.

Dynamo captures, AOTAutograd makes it functional and splits forward from backward; each graph is then one program
(program.py), or, where parts of it are the host's, a few (parts.py). Loops, branches and saved random state are parts
of programs (control.py)."""

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler

from .. import _fused
from .._internal import lines
from . import cache, control, options as _options, scalars

control.register()

# And operators that torch makes of whole layers: in pieces, so that sizes may vary in them.
_LAYERS = {
    torch.ops.aten._transformer_encoder_layer_fwd.default: _fused.transformer_encoder_layer,
    torch.ops.aten._native_multi_head_attention.default: _fused.multi_head_attention,
}
cache.spare_imports()


def _compilers(made, options):
    # aot_autograd wraps the backward compiler anew each time it is called: each call gets its own.
    def compile(module, example_inputs):
        return made(module, options)

    return {f"{part}_compiler": SerializableAOTDispatchCompiler(made, compile) for part in ("fw", "bw", "inference")}


def tpu(module, example_inputs, *, mode=None, options=None, _made=cache.Compiled):
    """The backend function that torch.compile calls: torch finds it by the entry point torch_dynamo_backends.

    mode: torch's own ("default", "reduce-overhead", "max-autotune" ...) are accepted; a program is what each of them
    asks for."""
    tag = _options.check(mode, options)
    backend = aot_autograd(
        **_compilers(_made, _options.text(options)),
        decompositions={**scalars.TABLE, **_LAYERS},
        keep_inference_input_mutations=True,
    )
    with cache.entries(tag), scalars.whole(), lines.of(module):
        return backend(module, example_inputs)
