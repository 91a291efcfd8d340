"""What digests of code are made of: entries on disk are found by them."""
import functools
import hashlib
import types


class Doubt(Exception):
    """Something that a digest does not tell."""


def codes(code):
    """A function's code and those of the functions in it."""
    yield code
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from codes(c)


def code_of(code):
    """What of a function's code decides what it does, of what JSON has."""
    plain = [sorted(c, key=repr) if isinstance(c, frozenset) else c for c in code.co_consts]
    constants = [code_of(c) if isinstance(c, types.CodeType) else repr(c) for c in plain]
    return [code.co_qualname, code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
            code.co_flags, code.co_exceptiontable.hex(), constants]


@functools.cache
def sources(*folders):
    """A digest of the Python files of folders, by their contents."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def attention_settings():
    """What decides, besides the call, how scaled_dot_product_attention is done: for entries that hold what it became."""
    import torch

    from .. import _C

    wants = torch.ops.torch_tpu.attention_wants(0)
    torch.ops.torch_tpu.attention_wants(wants)
    flags = torch.backends.cuda
    enabled = flags.flash_sdp_enabled(), flags.math_sdp_enabled(), flags.mem_efficient_sdp_enabled()
    return [_C.lowers_for_tpu(), wants, *enabled]
