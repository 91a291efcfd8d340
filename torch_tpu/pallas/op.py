"""An annotated function of JAX arrays as a torch operator.

What the operator returns JAX says once for each kind of call, and what its program is, once more for the platform; both
are kept (stored.py). Gradients, unless registered, are JAX's: the backward is an operator as well, which computes the
forward again."""
import inspect

import torch

from .._internal.utils.hardware import get_tpu_device_name
from ..kernels.op import Kernel, specs_of, tensors_of
from ..kernels.text import Spec, parse
from . import signature, stored, trace


class JaxKernel(Kernel):
    """A Kernel of a function of JAX arrays, fn. signature: how its arguments are the operator's. told_by: the user's
    function that fn is made of, if another."""

    def __init__(self, name, fn, sign, schema=None, returned=None, told_by=None):
        self.fn, self.signature, self._returned = fn, sign, returned
        self.gradient_is_own = False  # register_autograd gave it, not JAX
        self._known, self._digest = {}, lambda: stored.digest_of(name, told_by or fn, schema or sign.schema)
        super().__init__(name, schema or sign.schema, self._specs, self._text)
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def register_autograd(self, backward, *, setup_context=None):
        super().register_autograd(backward, setup_context=setup_context)
        torch.ops.torch_tpu.derived(self.name, "")
        self.gradient_is_own = True

    def take_python_values(self, fn):
        """Calls may give what fn takes: members of Enums, numpy's dtypes."""
        python, arguments = inspect.signature(fn), self.op._schema.arguments

        def translate(args, kwargs):
            bound = python.bind(*args, **kwargs)
            bound.apply_defaults()
            values = list(zip(arguments, self.signature.arguments(bound.arguments.values())))
            return [v for a, v in values if not a.kwarg_only], {a.name: v for a, v in values if a.kwarg_only}

        if any(signature.is_translated(p) for p in self.signature.parameters):
            self._translate = translate

    # ---- one kind of call ----
    def _call(self, args, specs):
        """What tells it from others."""
        def told(p, a):
            if p.kind == "static" or a is None:
                return a
            return len(a) if p.kind == "tensors" else "tensor"

        return repr((list(map(str, specs)), list(map(told, self.signature.parameters, args))))

    def bound(self, args):
        """The function of the tensors among args alone, which returns a list."""
        jax = trace.jax_for(self.name)

        def kernel(*arrays):
            names = [p.name for p in self.signature.parameters]
            made = call_by_name(self.fn, dict(zip(names, self.signature.values(args, iter(arrays)))))
            return trace.flat(self.name, self.fn, self.signature.returns, made, jax)

        kernel.__name__ = kernel.__qualname__ = self.__name__
        return kernel

    def _specs(self, args):
        specs = specs_of(args)
        if self._returned:
            return self._returned(args)
        def made():
            return [[str(s.dtype).removeprefix("torch."), s.shape]
                    for s in trace.outputs(self.name, self.fn, self.bound(args), specs)]

        def read(value):
            return tuple(Spec(getattr(torch, dtype), tuple(shape)) for dtype, shape in value)

        return self._kept(self._call(args, specs), made, read)

    def _text(self, platform, args):
        specs = specs_of(args)
        call = (platform if platform == "cpu" else get_tpu_device_name()) + self._call(args, specs)
        return self._kept(call, lambda: trace.text(self.name, self.fn, self.bound(args), specs, platform), parse)

    def _kept(self, call, made, read):
        """read(made()), made once for a kind of call, or found on disk."""
        if call not in self._known:
            digest = self._digest()
            found = stored.load(digest, call, read)
            if found is None:
                value = made()
                if digest == self._digest():  # what it reads is as it was
                    stored.save(digest, call, value)
                found = read(value)
            self._known[call] = found
        return self._known[call]


def call_by_name(fn, values):
    """fn with values by name; positional-only parameters by place."""
    positional, named = [], dict(values)
    for p in inspect.signature(fn).parameters.values():
        if p.kind is p.POSITIONAL_ONLY:
            positional.append(named.pop(p.name))
    return fn(*positional, **named)


def derive_vmap(kernel):
    """Gives a kernel the form for torch.vmap that JAX derives (jax.vmap): an operator NAME_vmap_... for each choice of
    batched dims, with a derivative of its own."""
    sign, made = kernel.signature, {}

    def batched(dims):
        name = f"{kernel.name}_vmap_" + "_".join("n" if d is None else str(d) for d in dims)

        def function(*values):
            jax = trace.jax_for(name)
            names = [p.name for p in sign.parameters]
            arrays = [None if p.kind == "static" else v for p, v in zip(sign.parameters, values)]
            leaves, tree = jax.tree.flatten(arrays)

            def one(*arrays):
                given = jax.tree.unflatten(tree, arrays)
                given = [v if p.kind == "static" else a for p, v, a in zip(sign.parameters, values, given)]
                return trace.flat(name, kernel.fn, sign.returns, call_by_name(kernel.fn, dict(zip(names, given))), jax)

            found = jax.vmap(one, in_axes=dims)(*leaves)
            return found[0] if sign.returns == "Tensor" else tuple(found)

        function.__wrapped__ = kernel.fn
        function.__signature__ = inspect.Signature(
            [inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_ONLY) for p in sign.parameters]
        )
        new = JaxKernel(name, function, sign, told_by=kernel.fn)
        derive_backward(new)
        return new

    def run(info, in_dims, *args, **kwargs):
        if kwargs:
            raise NotImplementedError(f"{kernel.name}: vmap of a kernel with keyword-only arguments is not done")
        if kernel.gradient_is_own and any(x.requires_grad for x in tensors_of(args)):
            raise NotImplementedError(
                f"{kernel.name}: vmap of a kernel whose gradient register_autograd gave is not done; only JAX's is known"
            )
        dims = []
        for a, d in zip(args, in_dims):
            if isinstance(a, torch.Tensor):
                dims.append(d)
            elif isinstance(a, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in a):
                dims += d if isinstance(d, (list, tuple)) else [d] * len(a)
        dims = tuple(dims)
        if dims not in made:
            made[dims] = batched(dims)
        result = made[dims].op(*args)
        return result, 0 if isinstance(result, torch.Tensor) else type(result)([0] * len(result))

    if not any(a.kwarg_only and "Tensor" in str(a.type) for a in kernel.op._schema.arguments):  # as torch has it
        kernel.register_vmap(run)


_TENSOR = object()  # where the tensor is among those saved


def derive_backward(kernel):
    """Gives a kernel the derivative that JAX derives: an operator NAME_backward of all its arguments and the gradients
    of its results, which returns the gradients of its floating tensors."""
    forward, sign = kernel.fn, kernel.signature
    name = kernel.name + "_backward"

    def backward(*values):
        jax = trace.jax_for(name)
        import jax.numpy as jnp
        *inputs, cotangents = values
        names = [p.name for p in sign.parameters]
        arrays = [None if p.kind == "static" else v for p, v in zip(sign.parameters, inputs)]
        leaves, tree = jax.tree.flatten(arrays)
        moving = [i for i, x in enumerate(leaves) if jnp.issubdtype(x.dtype, jnp.floating)]

        def of(*moved):
            now = list(leaves)
            for i, x in zip(moving, moved):
                now[i] = x
            arrays = jax.tree.unflatten(tree, now)
            given = dict(
                zip(names, [v if p.kind == "static" else a for p, v, a in zip(sign.parameters, inputs, arrays)])
            )
            made = trace.flat(kernel.name, forward, sign.returns, call_by_name(forward, given), jax)
            return [x for x in made if jnp.issubdtype(x.dtype, jnp.floating)]

        try:
            made, pull = jax.vjp(of, *[leaves[i] for i in moving])
            return list(pull([g.astype(x.dtype) for g, x in zip(cotangents, made)]))
        except Exception as e:
            raise trace.KernelError(
                f"{kernel.name} ({signature.place(forward)}): JAX derives no gradient of it ({trace.said(e)}); "
                f"register_autograd(backward, setup_context=) gives one"
            ) from e

    def gradients(args):
        return tuple(s for s in specs_of(args[:-1]) if s.dtype.is_floating_point)

    parameters = (*sign.parameters, signature.Parameter("cotangents", "Tensor[]", "tensors"))
    schema = "(" + ", ".join(f"{p.schema} {p.name}" for p in parameters) + ") -> Tensor[]"
    own = signature.Signature(parameters, "Tensor[]", schema)
    backward.__wrapped__ = forward
    places = [inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_ONLY) for p in parameters]
    backward.__signature__ = inspect.Signature(places)
    made = JaxKernel(name, backward, own, schema, gradients, forward)

    def setup_context(ctx, inputs, output, keyword_only_inputs=None):
        inputs = [*inputs, *(keyword_only_inputs or {}).values()]
        ctx.save_for_backward(*tensors_of(inputs))
        ctx.inputs = [[_TENSOR] * len(a) if p.kind == "tensors" else _TENSOR if isinstance(a, torch.Tensor) else a
                      for p, a in zip(sign.parameters, inputs)]
        outputs = output if isinstance(output, (tuple, list)) else [output]
        ctx.outputs = [(x.shape, x.dtype, x.device) for x in outputs]

    def run(ctx, *gradients):
        if len(gradients) == 1 and isinstance(gradients[0], (list, tuple)):
            gradients = gradients[0]
        cotangents = [torch.zeros(shape, dtype=dtype, device=device) if g is None else g
                      for g, (shape, dtype, device) in zip(gradients, ctx.outputs) if dtype.is_floating_point]
        saved = iter(ctx.saved_tensors)
        args = [next(saved) if a is _TENSOR else [next(saved) for _ in a] if p.kind == "tensors" else a
                for p, a in zip(sign.parameters, ctx.inputs)]
        moving = [x.dtype for x in tensors_of(args) if x.requires_grad]
        if any(dtype.is_complex for dtype in (*moving, *[dtype for _, dtype, _ in ctx.outputs])):
            raise trace.KernelError(f"{kernel.name} ({signature.place(forward)}): derivatives of complex tensors are "
                                    f"not done; register_autograd gives them")
        found = iter(made.op(*args, cotangents))

        def gradient(a):
            if isinstance(a, list) and a and isinstance(a[0], torch.Tensor):
                return [gradient(x) for x in a]
            return next(found) if isinstance(a, torch.Tensor) and a.dtype.is_floating_point else None

        return tuple(map(gradient, args))[:len(ctx.needs_input_grad)]  # those left out are not asked for

    def second(ctx, *gradients):
        raise trace.KernelError(f"{kernel.name} ({signature.place(forward)}): a kernel has no second derivative; "
                                f"register_autograd with differentiable operations gives one")

    made.register_autograd(second)
    kernel.register_autograd(run, setup_context=setup_context)
    kernel.gradient_is_own = False
    torch.ops.torch_tpu.derived(kernel.name, name)  # the same without Python
    kernel.backward = made
