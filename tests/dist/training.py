"""What ranks do in test_training.py: steps of a small model under PyTorch's parallel APIs, and their losses."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

STEPS = 20


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4))


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(8, 16, generator=generator), torch.randint(0, 4, (8,), generator=generator)


def train(model, take=lambda t: t, device="tpu", steps=STEPS, clip=None, scale=1):
    """The loss of each step, the mean over ranks."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, foreach=False)
    losses = []
    for step in range(steps):
        x, y = (take(t).to(device) for t in batch(step))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        loss = loss.detach().clone()
        if device == "tpu":
            dist.all_reduce(loss, dist.ReduceOp.AVG)
        losses.append(loss.item())
    return losses


def part_of(n, index):
    return lambda t: t.chunk(n)[index]


def parallel(rank, which):
    n = dist.get_world_size()
    which, compiled, _ = which.partition(", compiled")
    model, mine = make().to("tpu"), part_of(n, rank)
    compile = (lambda model: torch.compile(model, backend="tpu")) if compiled else (lambda model: model)
    if which in ("ddp", "ddp, small buckets", "ddp, static"):
        model = DistributedDataParallel(
            model, bucket_cap_mb=0.001 if "small" in which else 25, static_graph="static" in which
        )
        return train(compile(model), mine)
    if which in ("fsdp", "fsdp, clipped", "fsdp, kept"):
        mesh = init_device_mesh("tpu", (n,))
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh, reshard_after_forward="kept" not in which)
        fully_shard(model, mesh=mesh)
        return train(compile(model), mine, clip=0.1 if "clipped" in which else None)
    if which == "fsdp, meta":
        with torch.device("meta"):
            empty = make()
        fully_shard(empty, mesh=init_device_mesh("tpu", (n,)))
        empty.to_empty(device="tpu")
        for to, of in zip(empty.parameters(), model.parameters()):
            from torch.distributed.tensor import distribute_tensor
            with torch.no_grad():
                to.copy_(distribute_tensor(of.detach(), to.device_mesh, to.placements))
        return train(empty, mine)
    if which == "hsdp":
        fully_shard(model, mesh=init_device_mesh("tpu", (2, n // 2), mesh_dim_names=("replicate", "shard")))
        return train(compile(model), mine)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    if which == "tp":
        parallelize_module(model, init_device_mesh("tpu", (n,)), plan)
        return train(compile(model))
    if which == "fsdp x tp":
        mesh = init_device_mesh("tpu", (2, n // 2), mesh_dim_names=("dp", "tp"))
        parallelize_module(model, mesh["tp"], plan)
        fully_shard(model, mesh=mesh["dp"])
        return train(compile(model), part_of(2, mesh["dp"].get_local_rank()))
    raise ValueError(which)


def zero(rank):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = DistributedDataParallel(make().to("tpu"))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-2, foreach=False)
    take, losses = part_of(dist.get_world_size(), rank), []
    for step in range(STEPS):
        x, y = (take(t).to("tpu") for t in batch(step))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        loss = loss.detach().clone()
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        losses.append(loss.item())
    return losses


def accumulate(rank):
    """no_sync: gradients of two halves of this rank's batch are those of all of it."""
    model = DistributedDataParallel(make().to("tpu"))
    x, y = (t.chunk(dist.get_world_size())[rank].to("tpu") for t in batch(0))
    with model.no_sync():
        nn.functional.cross_entropy(model(x[:1]), y[:1]).div(2).backward()
    nn.functional.cross_entropy(model(x[1:]), y[1:]).div(2).backward()
    return [p.grad.cpu() for p in model.parameters()]


def uneven(rank):
    """Join: ranks with fewer batches than others."""
    from torch.distributed.algorithms.join import Join
    model = DistributedDataParallel(make().to("tpu"))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Join([model]):
        for step in range(rank + 1):
            x, y = (t.to("tpu") for t in batch(step))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


def pipeline(rank, schedule):
    """Losses of a pipeline over all ranks, as its last stage has them."""
    from torch.distributed.pipelining import PipelineStage, schedules
    n = dist.get_world_size()
    kind = getattr(schedules, "Schedule" + schedule)
    several = issubclass(kind, schedules.PipelineScheduleMulti)
    stages_of_rank = 2 if several else 1
    back = "V" in schedule  # the second stages go back from the last rank to the first
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(n * stages_of_rank)]
    places = [rank + i * n if i == 0 or not back else 2 * n - 1 - rank for i in range(stages_of_rank)]
    mine = [layers[place].to("tpu") for place in places]
    stages = [PipelineStage(m, p, n * stages_of_rank, torch.device("tpu")) for m, p in zip(mine, places)]
    loss = nn.functional.mse_loss
    run = kind(stages if several else stages[0], 8, loss_fn=loss)
    optimizer = torch.optim.SGD([p for m in mine for p in m.parameters()], 0.1)
    losses = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(8, 16, generator=generator), torch.randn(8, 16, generator=generator)
        optimizer.zero_grad()
        given, parts = [x.to("tpu")] if rank == 0 else [], []
        if rank == (0 if back else n - 1):  # which has the last stage
            run.step(*given, target=y.to("tpu"), losses=parts)
            losses.append(torch.stack(parts).mean().item())
        else:
            run.step(*given)
        optimizer.step()
    return losses


def pipeline_alone(stages, steps=STEPS):
    """What pipeline() computes, on the CPU in one process."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(stages)])
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(8, 16, generator=generator), torch.randn(8, 16, generator=generator)
        optimizer.zero_grad()
        parts = [nn.functional.mse_loss(model(a), b) for a, b in zip(x.chunk(8), y.chunk(8))]
        torch.stack(parts).mean().backward()
        optimizer.step()
        losses.append(torch.stack(parts).mean().item())
    return losses


def save(rank, folder):
    """A sharded model after some steps, written as a distributed checkpoint; and its whole parameters."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    model = make().to("tpu")
    fully_shard(model, mesh=init_device_mesh("tpu", (dist.get_world_size(),)))
    train(model, part_of(dist.get_world_size(), rank), steps=3)
    dcp.save(get_model_state_dict(model), checkpoint_id=folder)
    return [p.detach().full_tensor().cpu() for p in model.parameters()]


def load(rank, folder):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    model = make().to("tpu")
    fully_shard(model, mesh=init_device_mesh("tpu", (dist.get_world_size(),)))
    state = get_model_state_dict(model)
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(model, state)
    return [p.detach().full_tensor().cpu() for p in model.parameters()]


def first_logs(rank):
    """Ranks may branch: one reads and saves what the others do not, also where operators wait to be run together."""
    import io
    model = DistributedDataParallel(make().to("tpu"))
    take, losses = part_of(dist.get_world_size(), rank), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(5):
        x, y = (take(t).to("tpu") for t in batch(step))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if rank == 0:
            losses.append(loss.item())
            torch.save(model.state_dict(), io.BytesIO())
    total = torch.stack([p.detach().sum() for p in model.parameters()]).sum()
    return total.item()


def experts(rank):
    """Expert parallelism: each rank has an expert, to which the others' tokens come by all-to-all, and go back, uneven
    parts both ways. (outputs, gradients of the tokens and of this rank's expert)."""
    from torch.distributed._functional_collectives import all_to_all_single_autograd
    n = dist.get_world_size()
    tokens, choice, matrices = routed(n)
    expert = matrices[rank].to("tpu").requires_grad_()
    x, mine = tokens[rank].to("tpu").requires_grad_(), choice[rank]
    order = mine.argsort(stable=True)
    given = mine.bincount(minlength=n).tolist()
    taken = [int((choice[other] == rank).sum()) for other in range(n)]
    group = dist.group.WORLD
    there = all_to_all_single_autograd(x[order.to("tpu")], taken, given, group)
    back = all_to_all_single_autograd((there @ expert).tanh(), given, taken, group)
    out = torch.empty_like(back).index_copy(0, order.to("tpu"), back)
    out.square().sum().backward()
    return out.detach().cpu(), x.grad.cpu(), expert.grad.cpu()


def routed(n):
    """Tokens of each rank, which expert each goes to, and the experts."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(n, 6, 8, generator=generator)
    return tokens, torch.randint(0, n, (n, 6), generator=generator), torch.randn(n, 8, 8, generator=generator)
