"""op_db and python_ref_db: PyTorch's own samples of every operator, forward, backward, in place and with out=."""
import functools
import itertools
import re
import sys

import torch
from torch.utils import _pytree as pytree

from .compare import Rules
from .task import Case, Nothing, Task

VARIANTS = ["forward", "backward", "inplace", "out"]
# an entry's dtype where none is asked for: the first it takes
DEFAULTS = ["float32", "int64", "bool", "complex64", "float8_e4m3fn"]

# The result is memory nobody wrote, or has another law of random numbers on each device.
UNWRITTEN = re.compile(r"^(new_)?empty(_like|_strided|_permuted)?$|^resize_(as_)?$")
# Factors are unique up to signs and phases: op_db says what of them is.
FACTORS = re.compile(r"svd|eig|qr|lobpcg|pca")
# Which of equal elements an index names is not defined.
CHOSEN = {"topk", "sort", "argsort", "msort", "kthvalue", "median", "nanmedian", "mode"}
# Saved statistics that evaluation has no use for: torch's own backends differ in returning them empty.
SPARE = {"native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"}
# Arguments that torch wants on the CPU on every device.
ON_CPU = {"tensor_split"}
MOST = 400  # samples looked at: some entries have thousands


def _without_seed(fn, *args, **kwargs):
    return fn(*args, **kwargs)


@functools.cache
def database(name):
    """{full name: OpInfo}"""
    from torch.testing._internal import common_methods_invocations as invocations
    for module in list(sys.modules.values()):  # operators that seed themselves would look as if they drew nothing
        if (getattr(module, "__name__", None) or "").startswith("torch.testing.") and hasattr(
            module, "wrapper_set_seed"
        ):
            module.wrapper_set_seed = _without_seed
    return {op.full_name: op for op in (invocations.op_db if name == "ops" else invocations.python_ref_db)}


def _has(op, variant):
    return {
        "forward": True,
        "backward": op.supports_autograd,
        "inplace": op.inplace_variant is not None,
        "out": op.supports_out,
    }[variant]


def tasks(name, variants, dtypes):
    """Those that there are; dtypes None: each entry in its first of DEFAULTS."""
    for variant in variants:
        for full_name, op in database(name).items():
            if variant not in VARIANTS or not _has(op, variant):
                continue
            known = op.supported_backward_dtypes("cpu") if variant == "backward" else op.supported_dtypes("cpu")
            taken = [d for d in dtypes or DEFAULTS if getattr(torch, d) in known]
            for dtype in taken if dtypes else taken[:1]:
                yield Task(name, full_name, variant, dtype)


def spread(samples, count):
    samples = list(itertools.islice(samples, MOST))
    if len(samples) <= count:
        return samples
    return [samples[len(samples) * i // count] for i in range(count)]


def describe(tree):
    def one(x):
        if not isinstance(x, torch.Tensor):
            return x
        strides = "" if x.layout is not torch.strided or x.is_contiguous() else f" strides {list(x.stride())}"
        return f"{str(x.dtype)[6:]}{list(x.shape)}{strides}"

    return str(pytree.tree_map(one, tree)).replace("'", "")[:300]


class Runner:
    """Runs one variant of an entry on one sample."""

    def __init__(self, op, variant, sample):
        self.op, self.sample = op, sample
        self.run = getattr(self, variant)
        self.factors = bool(FACTORS.search(op.name))

    def arguments(self, place):
        s = self.sample
        if self.op.name in ON_CPU:
            return place(s.input), s.args, s.kwargs
        return place((s.input, s.args, s.kwargs))

    def call(self, place, **more):
        x, args, kwargs = self.arguments(place)
        return place.function(self.op.op)(x, *args, **kwargs, **more)

    def forward(self, place):
        result = self.call(place)
        return self.sample.output_process_fn_grad(result) if self.factors else result

    def inplace(self, place):
        if self.sample.broadcasts_input or not isinstance(self.sample.input, torch.Tensor):
            raise Nothing("this sample cannot be written in place")
        x, args, kwargs = self.arguments(place)
        result = place.function(self.op.inplace_variant)(x, *args, **kwargs)
        return [x, result is x]

    def backward(self, place):
        result = self.call(place)
        outputs = [
            t
            for t in pytree.tree_leaves(self.sample.output_process_fn_grad(result))
            if isinstance(t, torch.Tensor) and t.requires_grad
        ]
        leaves = [copy for original, copy in place.pairs() if copy.requires_grad]
        if not outputs or not leaves:
            raise Nothing("nothing to differentiate")
        weights = torch.Generator().manual_seed(7)
        given = [torch.randn(t.shape, dtype=torch.complex64 if t.is_complex() else torch.float32, generator=weights)
                 .to(t.dtype).to(place.device) for t in outputs]
        return list(torch.autograd.grad(outputs, leaves, given, allow_unused=True))

    @functools.cached_property
    def shapes(self):
        """(whether there is one result, [(shape, dtype)]) of the CPU."""
        from .place import Place
        result = self.call(Place("cpu"))
        results = [result] if isinstance(result, torch.Tensor) else list(result)
        if not all(isinstance(t, torch.Tensor) for t in results):
            raise Nothing("not all results are tensors")
        return isinstance(result, torch.Tensor), [(t.shape, t.dtype) for t in results]

    def out(self, place):
        """Into tensors of the right shape, and into empty ones, which grow."""
        single, shapes = self.shapes
        found = []
        for empty in (False, True):
            outs = [
                torch.full((0,) if empty else shape, 1, dtype=place.dtype(dtype), device=place.device)
                for shape, dtype in shapes
            ]
            result = self.call(place, out=outs[0] if single else tuple(outs))
            returned = [result] if single else outs if result is None else list(result)
            found += [all(a is b for a, b in zip(returned, outs))] + [t.abs() if self.factors else t for t in outs]
        return found


def cases(task, count):
    op = database(task.database)[task.entry]
    grad = task.variant == "backward"
    for sample in spread(op.sample_inputs("cpu", getattr(torch, task.dtype), requires_grad=grad), count):
        chosen = sample.input if op.name in CHOSEN and isinstance(sample.input, torch.Tensor) else None
        rules = Rules(not UNWRITTEN.search(op.name), chosen, op.name in SPARE)
        yield Case(Runner(op, task.variant, sample).run, describe((sample.input, sample.args, sample.kwargs)), rules)
