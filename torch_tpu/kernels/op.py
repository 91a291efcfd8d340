"""torch operators whose program is a function in StableHLO that somebody else wrote.

An operator has a schema, a fake kernel (`outputs`) and `function(platform, args)`, asked when a program is lowered. Its
calls on tpu go the way of every operator without a rule: a key, a plan, and on a miss a decomposition, which here is
one call of torch_tpu::foreign. So it fuses, compiles and is cached as any other, and a hit runs no Python."""
import threading

import torch

from .. import _C
from .._foreign import RESULTS
from .._registry import DECOMPOSITIONS
from .text import Function, spec_of

_compiling = torch.compiler.is_compiling
_failed = threading.local()  # .error: (the kernel, what its lowering on this thread raised last)


def call(function: Function, tensors) -> list:
    """Its results for the tensors, as a part of the program that is being traced. Their types have to be the
    function's."""
    if function.key not in RESULTS:
        _C.foreign_register(function.key, function.entry, function.text)
        RESULTS[function.key] = [(r.dtype, r.shape) for r in function.results]
    return torch.ops.torch_tpu.foreign([x.contiguous() for x in tensors], function.key)


def check(name, what, expected, got):
    """ValueError unless the Specs are the same."""
    expected, got = tuple(expected), tuple(got)
    if len(expected) != len(got):
        raise ValueError(f"{name}: expected {len(expected)} {what}s, got {len(got)}")
    for i, (a, b) in enumerate(zip(expected, got)):
        if a != b:
            raise ValueError(f"{name}: expected {what} {i} of {a}, got {b}")


def check_integers(name, **tensors):
    """TypeError unless the tensors are of integers: counts and places are not rounded."""
    for what, t in tensors.items():
        if t.is_floating_point() or t.is_complex() or t.dtype == torch.bool:
            raise TypeError(f"{name}: expected {what} of integers, got {t.dtype}")


def tensors_of(args):
    """The tensors among an operator's arguments, lists flattened, in order."""
    for a in args:
        if isinstance(a, torch.Tensor):
            yield a
        elif isinstance(a, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in a):
            yield from (x for x in a if isinstance(x, torch.Tensor))


def packed(results, schema):
    """A list of tensors as the schema returns them. ValueError where it returns another number of them."""
    returns = schema.returns
    if len(returns) == 1 and isinstance(returns[0].type, torch.ListType):
        return list(results)
    if len(returns) != len(results):
        raise ValueError(f"{schema.name}: expected {len(returns)} results, as its schema says, got {len(results)}")
    return results[0] if len(returns) == 1 else tuple(results)


def _split(name):
    parts = name.split("::")
    if len(parts) != 2 or not all(p.isidentifier() for p in parts):
        raise ValueError(f"expected a name of the form namespace::operator, got {name!r}")
    if parts[0] in ("aten", "prim", "prims", "torch_tpu"):
        raise ValueError(f"{name}: the namespace {parts[0]} is not for kernels of others")
    return parts


class Kernel:
    """An operator that is a kernel: call it as a function of tensors. op is torch's,
    torch.ops.NAMESPACE.NAME.default."""

    def __init__(self, name: str, schema: str, outputs, function):
        """schema: "(Tensor x, int k) -> Tensor". outputs(args) -> Specs of the results; function(platform, args) ->
        Function of the tensors among args, where platform is "cpu" or "tpu". args: the operator's, all of them, in
        order."""
        namespace, base = _split(name)
        self.__name__ = self.__qualname__ = base
        self.name, self._outputs, self._function = name, outputs, function
        if hasattr(getattr(torch.ops, namespace), base):
            raise ValueError(f"{name}: there is an operator of this name already")
        self._library = torch.library.Library(namespace, "FRAGMENT")
        self._library.define(f"{base}{schema}")
        self.op = getattr(getattr(torch.ops, namespace), base).default
        self._check_schema()
        self._direct = self.op._op  # without the Python around it
        self._translate = None  # (args, kwargs) -> what the operator takes
        self._backward = self._setup_context = self._vmap = None
        torch.library.register_fake(name, self._fake, lib=self._library)
        self._library.impl(base, self._on_cpu, "CPU")
        DECOMPOSITIONS[self.op] = self._lower
        self._let_autograd_in()

    def _check_schema(self):
        schema = self.op._schema
        if schema.is_mutable or any(a.alias_info is not None for a in (*schema.arguments, *schema.returns)):
            raise ValueError(f"{self.name}: a kernel writes none of its arguments and returns none; got {schema}")
        if not any("Tensor" in str(a.type) for a in schema.arguments):
            raise ValueError(f"{self.name}: a kernel takes a tensor at least; got {schema}")

    def __call__(self, *args, **kwargs):
        if self._translate is not None:
            args, kwargs = self._translate(args, kwargs)
        if _compiling():
            return self.op(*args, **kwargs)
        try:
            return self._direct(*args, **kwargs)
        except RuntimeError as e:
            (kernel, error), _failed.error = getattr(_failed, "error", None) or (None, None), None
            if kernel is self and str(error) in str(e):
                raise error from None
            raise

    def __repr__(self):
        return f"<kernel {self.name}{str(self.op._schema).removeprefix(self.name)}>"

    def register_autograd(self, backward, *, setup_context=None):
        """As torch.library.register_autograd: backward(ctx, *gradients) -> gradients of all arguments. The last one
        holds."""
        self._backward, self._setup_context = backward, setup_context

    def _let_autograd_in(self):
        """Without a formula a backward raises, as torch.library's operators do; zeros would be wrong."""
        def setup(ctx, **given):
            if self._setup_context is not None:
                self._setup_context(ctx=ctx, **given)

        def backward(ctx, *gradients):
            if self._backward is None:
                raise RuntimeError(f"Trying to backward through {self.name} but no autograd formula was registered. "
                                   f"Please use register_autograd to add one.")
            return self._backward(ctx, *gradients)

        torch.library.register_autograd(self.name, backward, setup_context=setup, lib=self._library)
        torch.ops.torch_tpu.past_autograd(self.name)  # calls without gradients go by all of that

    def register_vmap(self, fn):
        """As torch.library.register_vmap: fn(info, in_dims, *args) -> (result, out_dims). The last one holds."""
        if self._vmap is None:
            torch.library.register_vmap(self.name, lambda *a, **k: self._vmap(*a, **k), lib=self._library)
        self._vmap = fn

    def _complete(self, args, kwargs):
        given = list(args)
        for a in self.op._schema.arguments[len(given):]:
            given.append(kwargs.get(a.name, a.default_value))
        return given

    def _fake(self, *args, **kwargs):
        args = self._complete(args, kwargs)
        device = next((x.device for x in tensors_of(args)), torch.device("tpu"))
        made = [torch.empty(r.shape, dtype=r.dtype, device=device) for r in self._outputs(args)]
        return packed(made, self.op._schema)

    def _on_cpu(self, *args, **kwargs):
        """Tensors of the CPU: what the device makes of copies."""
        def moved(a, device):
            if isinstance(a, (list, tuple)):
                return type(a)(moved(x, device) for x in a)
            return a.to(device) if isinstance(a, torch.Tensor) else a

        return moved(self.op(*moved(args, "tpu"), **{k: moved(v, "tpu") for k, v in kwargs.items()}), "cpu")

    def _lower(self, *args, **kwargs):
        try:
            args = self._complete(args, kwargs)
            function = self._function("tpu" if _C.lowers_for_tpu() else "cpu", args)
            tensors = list(tensors_of(args))
            check(self.name, "argument", function.args, map(spec_of, tensors))
            check(self.name, "result", self._outputs(args), function.results)
            return packed(call(function, tensors), self.op._schema)
        except Exception as e:
            _failed.error = self, e
            raise


def key_of(x):
    """What tells an argument from others that make another kernel: types and values (0.0 is not -0.0, nan is nan),
    dtype and shape of tensors. TypeError for what has no value that can be compared."""
    if isinstance(x, torch.Tensor):
        return "tensor", x.dtype, tuple(x.shape)
    if isinstance(x, (float, complex)):
        return type(x), repr(x)
    if isinstance(x, (tuple, list)):
        return type(x), tuple(map(key_of, x))
    if isinstance(x, dict):
        return dict, tuple((key_of(k), key_of(v)) for k, v in x.items())
    if type(x).__module__ == "numpy" and hasattr(x, "tobytes") and not x.dtype.hasobject:
        return type(x), str(x.dtype), x.shape, x.tobytes()
    hash(x)
    return type(x), x


def specs_of(args):
    """(Spec, ...) of the tensors among args."""
    return tuple(map(spec_of, tensors_of(args)))

