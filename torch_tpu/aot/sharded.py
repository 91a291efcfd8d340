"""Programs for many devices: a world that is not there, and modules whose parameters its devices share.

The program is traced as rank 0 of torch's fake process group. Parameters are DTensors, of which each device holds a
part; where a module uses one it is gathered, and its gradient is averaged and scattered (fully sharded data
parallelism), by functional collectives, which a trace holds as any other operator. FSDP2's own hooks move data by
streams and resized storages, which no trace sees."""
import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .topology import Topology, topology as _topology

_c10d = torch.ops._c10d_functional


def mesh(where, shape=None, names=None):
    """A DeviceMesh over all devices of a topology (its name, or a Topology), with this process as rank 0 of a world
    that is not there.

    shape: of the mesh, (devices,) if not given; names: of its dims. Another fake world, of a size that does not fit,
    goes."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    where = where if isinstance(where, Topology) else _topology(where)
    n = len(where.devices)
    if dist.is_initialized() and dist.get_world_size() != n:
        if dist.get_backend() != "fake":
            raise RuntimeError(
                f"a process group of {dist.get_world_size()} ranks exists, and {where.name} has {n} devices"
            )
        dist.destroy_process_group()
    if not dist.is_initialized():
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=n)
    with unset_fake_temporarily(), torch.device("cpu"):  # the mesh's own tensor is read
        return dist.init_device_mesh("tpu", tuple(shape) if shape else (n,), mesh_dim_names=names)


def world_size():
    """How many devices a program of this process is for."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def local(x):
    """The part of a DTensor that this rank holds, itself a plain tensor; x if it is none."""
    if not dist.is_available() or not dist.is_initialized():
        return x
    from torch.distributed.tensor import DTensor

    return x._local_tensor if isinstance(x, DTensor) else x


def _is_dtensor(x):
    return local(x) is not x


def refuse_hooks(modules):
    """NotImplementedError for modules that fully_shard has been given."""
    if not dist.is_available() or not dist.is_initialized():
        return
    from torch.distributed.fsdp import FSDPModule

    if any(isinstance(part, FSDPModule) for m in modules for part in m.modules()):
        raise NotImplementedError(
            "fully_shard moves data by hooks that no trace sees: give the module to torch_tpu.aot.shard(module, mesh) instead"
        )


def wrapped_as(x, like):
    """A part as a DTensor, if `like` is one."""
    if not _is_dtensor(like):
        return x
    return type(like).from_local(
        x, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


class _Gather(torch.autograd.Function):
    """A tensor of which each rank has `rows` of the first dim, rank after rank: the whole, of so many rows. Rows that
    are missing in the last parts are padded, so that parts are of one size. Its gradient is averaged over `groups`
    ((name, ranks); the first is that which the parts are of, others have copies) and each rank keeps its own part."""

    @staticmethod
    def forward(ctx, part, rows, size, groups, reduce_dtype):
        ctx.given = part.shape[0], part.dtype, rows, groups, reduce_dtype
        name, ranks = groups[0]
        return _c10d.wait_tensor(_c10d.all_gather_into_tensor(_padded(part, rows), ranks, name))[:size]

    @staticmethod
    def backward(ctx, grad):
        mine, dtype, rows, groups, reduce_dtype = ctx.given
        (name, ranks), *others = groups
        grad = _padded(grad.to(reduce_dtype or grad.dtype), rows * ranks)
        part = _c10d.wait_tensor(_c10d.reduce_scatter_tensor(grad, "avg", ranks, name))
        for name, _ in others:
            part = _c10d.wait_tensor(_c10d.all_reduce(part, "avg", name))
        return part[:mine].to(dtype), None, None, None, None


def _padded(x, rows):
    missing = rows - x.shape[0]
    return torch.cat([x, x.new_zeros(missing, *x.shape[1:])]) if missing else x.contiguous()


def gather_part(part, mesh, size, param_dtype=None, reduce_dtype=None):
    """The whole of a tensor, of `size` rows, of which this rank has a part: along the last dim of a mesh, with copies
    along others."""
    groups = [(mesh.get_group(d).group_name, mesh.size(d)) for d in reversed(range(mesh.ndim))]
    if param_dtype is not None:
        part = part.to(param_dtype)
    return _Gather.apply(part, -(-size // mesh.size(mesh.ndim - 1)), size, groups, reduce_dtype)


def gather(x, param_dtype=None, reduce_dtype=None):
    """The whole of a DTensor that shard has made, as a plain tensor."""
    return gather_part(x.to_local(), x.device_mesh, x.shape[0], param_dtype, reduce_dtype)


def _part(x, mesh, dim):
    """x as a parameter of which each device of a mesh holds a part along dim; of a mesh of two dims or more, along the
    last, and the others hold copies."""
    from torch.distributed.tensor import DTensor, Replicate, Shard

    n = mesh.size(mesh.ndim - 1)
    rows = -(-x.shape[dim] // n)
    mine = mesh.get_local_rank(mesh.ndim - 1)
    with torch.no_grad():
        part = (
            x.detach()
            .narrow(dim, min(mine * rows, x.shape[dim]), max(min(rows, x.shape[dim] - mine * rows), 0))
            .clone()
        )
    placements = [Replicate()] * (mesh.ndim - 1) + [Shard(dim)]
    made = DTensor.from_local(
        part, mesh, placements, run_check=False, shape=x.shape, stride=torch.empty(x.shape, device="meta").stride()
    )
    return nn.Parameter(made, requires_grad=x.requires_grad)


_classes = {}


def _whole(module, name, options):
    """What a module uses of a parameter: the whole of it or, of one that a tensor parallel plan had split before, the
    DTensor that the plan made."""
    x = gather(module._parameters[name], *options)
    plan = module._torch_tpu_plans.get(name)
    if plan is None:
        return x
    grid, placements, shape, stride = plan
    return type(module._parameters[name].data).from_local(
        x, grid, placements, run_check=False, shape=shape, stride=stride
    )


def _gathering(kind, names, options):
    """A class whose instances are modules of a class that have the whole of the parameters so named."""
    key = kind, names, options
    if key not in _classes:
        def whole(name):
            return property(lambda self: _whole(self, name, options))

        _classes[key] = type(
            kind.__name__,
            (kind,),
            {**{n: whole(n) for n in names}, "__module__": kind.__module__, "_torch_tpu_sharded": True},
        )
    return _classes[key]


def shard(module, mesh, *, param_dtype=None, reduce_dtype=None):
    """Makes the parameters of a module DTensors, of which each device of a mesh holds a part, as fully_shard does.
    Returns the module.

    Where a submodule uses a parameter it has the whole of it, gathered there, in param_dtype if that is given;
    gradients are averaged over the mesh, in reduce_dtype, and each device keeps its part. A mesh of two dims shards
    along its last and replicates along the first (HSDP). Parameters that parallelize_module has split over another dim of the
    mesh are split further, and gathered to what the plan made of them. Optimizers are made afterwards. For programs that are traced
    (torch_tpu.aot)."""
    made = {}
    for part in module.modules():
        names = [
            n
            for n, p in part._parameters.items()
            if p is not None and not (_is_dtensor(p) and p.device_mesh == mesh)
        ]
        dim = getattr(part, "_torch_tpu_stacked", 0)
        plans = part.__dict__.setdefault("_torch_tpu_plans", {})
        for name in names:
            p = part._parameters[name]
            if _is_dtensor(p) and (dim or not p.dim()):
                raise NotImplementedError(
                    f"aot.shard: {type(part).__name__}.{name} was split by parallelize_module, which "
                    + ("layers under scan_layers cannot be" if dim else "a parameter without dims cannot be")
                )
            if _is_dtensor(p):
                plans[name] = p.device_mesh, p.placements, p.shape, p.stride()
            if id(p) not in made:
                mine = nn.Parameter(local(p).detach(), p.requires_grad) if _is_dtensor(p) else p
                made[id(p)] = _part(mine, mesh, dim) if p.dim() > dim else p, p
            part._parameters[name] = made[id(p)][0]
        names = tuple(n for n in names if _is_dtensor(part._parameters[n]))
        if dim:
            part._torch_tpu_gather = param_dtype, reduce_dtype
        elif names:
            part.__class__ = _gathering(type(part), names, (param_dtype, reduce_dtype))
    return module
