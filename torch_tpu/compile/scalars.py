"""Numbers of the user's that change from call to call (a learning rate) as run-time operands.

Torch turns such numbers into 0-dim tensors where operators have a form for tensors, and compiles anew for each value
where they do not. These decompositions write the latter with the former; they stand aside (NotImplemented) where all
numbers are constants, so that graphs keep the operators that have rules."""

import contextlib
from unittest import mock

import torch
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.symbolic_convert import TensorifyState
from torch._functorch._aot_autograd import graph_compile
from torch.utils._sympy.symbol import SymT, symbol_is_type

aten = torch.ops.aten


def _symbolic(value):
    if isinstance(value, (list, tuple)):
        return any(_symbolic(v) for v in value)
    return isinstance(value, torch.SymFloat)


def _only_symbolic(function):
    def run(*args, **kwargs):
        if not any(_symbolic(a) for a in (*args, *kwargs.values())):
            return NotImplemented
        return function(*args, **kwargs)

    return run


@contextlib.contextmanager
def whole():
    """While a graph is made: a number is a tensor in all of its uses, or a constant that Dynamo guards in all.

    Torch makes constants of those uses that have no form for tensors, some when they are traced, and guards them. Where
    the same number has become a tensor elsewhere it forgets the guard: the next call's number would meet this
    call's."""
    tensorify = graph_compile.tensorify_python_scalars

    def checked(module, shape_env, fake_mode):
        tensorify(module, shape_env, fake_mode)
        fixed = {*shape_env.replacements, *(s for guard in shape_env.guards for s in guard.expr.free_symbols)}
        fixed = [s for s in fixed if symbol_is_type(s, SymT.FLOAT) and not TensorifyState.should_specialize(str(s))]
        if fixed:
            for symbol in fixed:
                TensorifyState.specialize(str(symbol))
            raise TensorifyScalarRestartAnalysis

    with mock.patch.object(graph_compile, "tensorify_python_scalars", checked):
        yield


def _each(op):
    """A foreach operator of a list and a number, a list of numbers, or another list and a factor for it."""

    def run(xs, other, *, alpha=None):
        others = other if isinstance(other, (list, tuple)) else [other] * len(xs)
        if alpha is not None:
            others = [o * alpha for o in others]
        return [op(x, o) for x, o in zip(xs, others)]

    return run


def _powers(base, exponents):
    # base is a number: exp2 would round otherwise than pow.
    return [aten.pow.Tensor_Tensor(torch.ones_like(e) * base, e) for e in exponents]


def _lerp(x, end, weight):
    return x + (end - x) * weight


def _addc(op):
    def run(x, a, b, value=1):
        return x + op(a, b) * value

    return run


def _many(op):
    def run(*lists_and_number):
        *lists, number = lists_and_number
        numbers = number if isinstance(number, (list, tuple)) else [number] * len(lists[0])
        return [op(*each) for each in zip(*lists, numbers)]

    return run


_addcmul, _addcdiv = _addc(lambda a, b: a * b), _addc(lambda a, b: a / b)

TABLE = {
    op: _only_symbolic(function)
    for op, function in {
        aten._foreach_add.Scalar: _each(lambda x, s: x + s),
        aten._foreach_add.ScalarList: _each(lambda x, s: x + s),
        aten._foreach_add.List: _each(lambda x, y: x + y),
        aten._foreach_sub.Scalar: _each(lambda x, s: x - s),
        aten._foreach_sub.ScalarList: _each(lambda x, s: x - s),
        aten._foreach_sub.List: _each(lambda x, y: x - y),
        aten._foreach_mul.Scalar: _each(lambda x, s: x * s),
        aten._foreach_mul.ScalarList: _each(lambda x, s: x * s),
        aten._foreach_div.Scalar: _each(lambda x, s: x / s),
        aten._foreach_div.ScalarList: _each(lambda x, s: x / s),
        aten._foreach_pow.ScalarAndTensor: _powers,
        aten.pow.Scalar: lambda base, exponent: _powers(base, [exponent])[0],
        aten._foreach_lerp.Scalar: _many(_lerp),
        aten._foreach_addcmul.Scalar: _many(_addcmul),
        aten._foreach_addcmul.ScalarList: _many(_addcmul),
        aten._foreach_addcdiv.Scalar: _many(_addcdiv),
        aten._foreach_addcdiv.ScalarList: _many(_addcdiv),
        aten.lerp.Scalar: _lerp,
        aten.addcmul.default: lambda x, a, b, *, value=1: _addcmul(x, a, b, value),
        aten.addcdiv.default: lambda x, a, b, *, value=1: _addcdiv(x, a, b, value),
        aten.add.Tensor: lambda x, y, *, alpha=1: x + y * alpha if _symbolic(alpha) else NotImplemented,
        aten.sub.Tensor: lambda x, y, *, alpha=1: x - y * alpha if _symbolic(alpha) else NotImplemented,
        aten.rsub.Scalar: lambda x, s, alpha=1: (x * alpha - s) * -1,
    }.items()
}
