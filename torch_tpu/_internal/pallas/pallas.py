"""Functions of JAX arrays that are called with tensors and are no torch operators: each kind of call is a registered
kernel."""
import functools
import itertools

import torch
from torch.utils._pytree import tree_leaves

from ...kernels.op import key_of
from ...kernels.text import parse, spec_of
from ...pallas import trace
from . import tpu_torch_pallas

_numbers = itertools.count()  # fingerprints: never one that another callable had


def jax_placeholder(x: torch.Tensor):
    """A jax.ShapeDtypeStruct with the tensor's shape and dtype."""
    jax = trace.jax_for("jax_placeholder")
    return trace.structs("jax_placeholder", jax, [spec_of(x)])[0]


def get_default_pallas_mesh():
    """A jax Mesh of the devices that a kernel runs on, with the axis "rank": one."""
    jax = trace.jax_for("get_default_pallas_mesh")
    return jax.make_mesh((1,), ("rank",))


def _get_kernel_invocation_key(trace_key, args, kwargs, static_argnums=()):
    """What tells one kind of call from another: trace_key, dtypes and shapes of tensors, other values. TypeError for
    what cannot be compared, and for tensors in lists or given by name, which would be constants of the kernel."""
    inner = [*kwargs.values(), *[a for a in args if not isinstance(a, torch.Tensor)]]
    if any(isinstance(x, torch.Tensor) for x in tree_leaves(inner)):
        raise TypeError("a kernel takes tensors by position, and not in lists")
    return trace_key, key_of(tuple(args)), key_of(dict(sorted(kwargs.items()))), tuple(static_argnums or ())


class JaxCallable:
    """A jitted function of JAX arrays, jit_fn, as a function of tensors.

    trace_key: what else its programs depend on. static_argnums: positions of arguments that are no tensors, which
    jit_fn gets as they are. input_output_aliases: {position of an input: position of a result} of the inputs that get a
    result's values. A mesh has one device. Returns what jit_fn returns, with tensors."""

    def __init__(self, name, jit_fn, trace_key="", *, static_argnums=(), donate_argnums=None, mesh=None,
                 input_partition_specs=None, output_partition_specs=None, input_output_aliases=None):
        if mesh is not None and mesh.size > 1:
            raise NotImplementedError(
                f"{name}: a kernel over a mesh of {mesh.size} devices is not done; it runs on one device"
            )
        self.name, self.jit_fn, self.trace_key, self.mesh = name, jit_fn, trace_key, mesh
        self.static_argnums, self.donate_argnums = tuple(static_argnums or ()), donate_argnums
        self.input_partition_specs, self.output_partition_specs = input_partition_specs, output_partition_specs
        self.input_output_aliases = dict(input_output_aliases or {})
        self.output_shapes = {}  # kind of call -> (Specs of the results, the tree they are leaves of)
        self.kernel_key_to_mlir_fingerprint = {}

    def _trace(self, key, args, kwargs):
        jax, trees = trace.jax_for(self.name), []
        # Tensors may be of a trace, and are not held.
        given = [None if isinstance(a, torch.Tensor) else a for a in args]
        places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
        specs = [spec_of(args[i]) for i in places]

        def kernel(*arrays):
            values = list(given)
            for i, x in zip(places, arrays):
                values[i] = x
            leaves, tree = jax.tree.flatten(self.jit_fn(*values, **kwargs))
            trees.append(tree)
            return leaves

        @functools.cache
        def function(platform):
            return parse(trace.text(self.name, self.jit_fn, kernel, specs, platform))

        results = trace.outputs(self.name, self.jit_fn, kernel, specs)
        fingerprint = f"callable {next(_numbers)}"
        tpu_torch_pallas.register(self.name, fingerprint, specs, results, function)
        self.output_shapes[key] = results, trees[-1]
        self.kernel_key_to_mlir_fingerprint[key] = fingerprint

    def __call__(self, *args, **kwargs):
        key = _get_kernel_invocation_key(self.trace_key, args, kwargs, self.static_argnums)
        if key not in self.output_shapes:
            self._trace(key, args, kwargs)
        fingerprint, (_, tree) = self.kernel_key_to_mlir_fingerprint[key], self.output_shapes[key]
        results = tpu_torch_pallas.call_custom_kernel(self.name, fingerprint,
                                                      inputs=[a for a in args if isinstance(a, torch.Tensor)])
        for i, k in self.input_output_aliases.items():
            args[i].copy_(results[k])
        return tree.unflatten(results)
