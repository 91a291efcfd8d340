"""Attention of DTensors: where the parts of the flash kernel's results are, and the ring of
torch.distributed.tensor.experimental.context_parallel.

torch knows the placements of its own fused attention, and its ring calls no other; a device's "overrideable" one is
told here. A ring needs the logarithms of each part's sums, which the operator returns."""
import functools

import torch

aten = torch.ops.aten
FORWARD = aten._scaled_dot_product_fused_attention_overrideable.default
BACKWARD = aten._scaled_dot_product_fused_attention_overrideable_backward.default


def register_placements(_module):
    """Tells DTensor: batches and heads may be split, each with its keys; else tensors are whole."""
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
    from torch.distributed.tensor._ops.utils import register_op_strategy

    # out and logs; then what is undefined, numbers, or of a dropout that there is not
    register_op_strategy(FORWARD, schema_info=RuntimeSchemaInfo(4))(
        functools.partial(_strategy, 0, 3, (0, 1, 2), (True, True) + (False,) * 7)
    )
    register_op_strategy(BACKWARD)(functools.partial(_strategy, 1, 4, (0, 1, 2, 3, 6, 7), (True,) * 3 + ("mask",)))


def _strategy(first, bias, split, returned, schema):
    """Placements of an operator whose query, key and value are arguments from `first`, whose mask is argument `bias`
    (broadcast, of up to four dims), and whose arguments `split` are split as they are; returned: which results are
    split too."""
    from torch.distributed.tensor._op_schema import OpStrategy
    from torch.distributed.tensor._ops.utils import expand_to_full_mesh_op_strategy
    from torch.distributed.tensor.placement_types import Replicate, Shard

    args = schema.args_schema

    def of_argument(i, dim):
        if i in split and dim is not None:
            return Shard(dim)
        if i == bias and dim is not None:
            mine = dim + len(args[i].shape) - 4
            if mine >= 0 and args[i].shape[mine] > 1:
                return Shard(mine)
        return Replicate()

    tensors = [i for i, a in enumerate(args) if isinstance(a, OpStrategy)]

    def of_result(is_split, dim):
        if is_split == "mask":  # of a gradient that nobody asks for, which only torch's meta kernel returns
            return of_argument(bias, dim) if bias in tensors else None
        return of_argument(split[0], dim) if is_split else None

    ways = [
        [of_result(r, dim) for r in returned] + [of_argument(i, dim) for i in tensors] for dim in (None, 0, 1)
    ]
    mesh = schema.get_mesh_from_args(validate=first == 0)
    found = expand_to_full_mesh_op_strategy(mesh, schema, ways, input_index=len(returned))
    heads, groups = args[first].shape[1], args[first + 1].shape[1]

    def together(way):
        """Are queries where their keys are? Parts of different sizes need not be."""
        parts = 1
        for n, placement in zip(mesh.shape, way.input_specs[first].placements):
            parts *= n if placement.is_shard(1) else 1
        return heads == groups or groups % parts == 0

    return OpStrategy([way for way in found.strategies if together(way)])


# ---- the ring ----
def _forward(query, key, value, *, is_causal, scale):
    return FORWARD(query, key, value, None, 0.0, is_causal, scale=scale)[:2]


def _backward(*, grad_out, query, key, value, out, logsumexp, is_causal, scale):
    none = torch.empty((), dtype=torch.long, device=query.device)
    return BACKWARD(
        grad_out, query, key, value, None, [True] * 3 + [False], out, logsumexp, None, None, query.shape[2],
        key.shape[2], 0.0, is_causal, none, none, scale=scale,
    )[:3]


def _of_parts(*tensors):
    """The one mesh of DTensors that are split by length, and their parts."""
    from torch.distributed.tensor import DTensor, Shard

    for t in tensors:
        if not isinstance(t, DTensor) or t.device_mesh.ndim != 1 or t.placements != (Shard(2),):
            raise NotImplementedError("context_parallel takes attention of tensors split by length, over one mesh dim")
    return tensors[0].device_mesh, [t._local_tensor for t in tensors]


def _distributed(part, mesh):
    from torch.distributed.tensor import DTensor, Shard

    return DTensor.from_local(part, mesh, [Shard(2)], run_check=False)


def _ring_forward(ring, op, args, kwargs):
    query, key, value, _, _, causal, *_ = [*args, None, 0.0, False][: max(len(args), 6)]
    mesh, (q, k, v) = _of_parts(query, key, value)
    parts = ring._templated_ring_attention(
        mesh.get_group(), 2, _forward, q, k, v, is_causal=causal, scale=kwargs.get("scale")
    )
    none = torch.empty((), dtype=torch.long, device=q.device)
    return *(_distributed(x, mesh) for x in parts), None, None, query.shape[2], key.shape[2], none, none, None


def _ring_backward(ring, op, args, kwargs):
    (gradient, query, key, value), out, logs, causal = args[:4], args[6], args[7], args[13]
    from torch.distributed.tensor import Shard

    gradient = gradient.redistribute(query.device_mesh, [Shard(2)])
    mesh, (g, q, k, v, out, logs) = _of_parts(gradient, query, key, value, out, logs)
    made = ring._templated_ring_attention_backward(
        mesh.get_group(), 2, _backward, grad_out=g, grad_out_name="grad_out", query=q, key=k, value=v, out=out,
        logsumexp=logs, is_causal=causal, scale=kwargs.get("scale"),
    )
    return *(_distributed(part, mesh) for part in made[:3]), None


def register_ring(ring):
    """Makes what context_parallel switches on and off (torch's module of it) also route attention on tpu."""
    enable, disable = ring._enable_cp_dtensor_dispatcher, ring._disable_cp_dtensor_dispatcher

    @functools.wraps(enable)
    def enabled():
        enable()
        handlers = ring.DTensor._op_dispatcher._custom_op_handlers
        handlers[FORWARD] = functools.partial(_ring_forward, ring)
        handlers[BACKWARD] = functools.partial(_ring_backward, ring)
        torch.ops.torch_tpu.attention_ring(True)

    @functools.wraps(disable)
    def disabled():
        torch.ops.torch_tpu.attention_ring(False)
        disable()

    ring._enable_cp_dtensor_dispatcher, ring._disable_cp_dtensor_dispatcher = enabled, disabled
