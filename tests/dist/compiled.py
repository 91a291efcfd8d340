"""What ranks do in test_compiled.py: functional collectives inside torch.compile's graphs."""
import time

import torch
import torch.distributed as dist
import torch_tpu
from torch.distributed import _functional_collectives as funcol


def every_kind(x, w):
    group = dist.group.WORLD
    a = x @ w
    total = funcol.all_reduce(a, "sum", group)
    mean = funcol.all_reduce(a, "avg", group)
    meanwhile = (x * 2).relu() @ w
    gathered = funcol.all_gather_tensor(meanwhile, 0, group)
    part = funcol.reduce_scatter_tensor(gathered * 3, "sum", 0, group)
    swapped = funcol.all_to_all_single(a, None, None, group)
    both = funcol.all_reduce_coalesced([a, x], "max", group)
    return total + meanwhile, mean, gathered, part, swapped, *both


def arguments(rank):
    x = torch.arange(32.0).view(8, 4) * (rank + 1)
    return x.to("tpu"), torch.linspace(-1, 1, 16).view(4, 4).to("tpu")


def values(rank):
    """(whether compiled results are eager ones, programs that a call runs)."""
    given = arguments(rank)
    want = [t.cpu() for t in every_kind(*given)]
    run = torch.compile(every_kind, backend="tpu", fullgraph=True)
    got = [t.cpu() for t in run(*given)]
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b)
    before = torch_tpu.counters()["executions"]
    run(*given)
    return torch_tpu.counters()["executions"] - before


def gradients(rank):
    """Through a collective with a derivative: that of eager mode."""
    x, w = arguments(rank)

    def loss(x, w):
        return funcol.all_gather_tensor_autograd((x @ w).sin(), 0, dist.group.WORLD).square().mean()

    found = []
    for f in (loss, torch.compile(loss, backend="tpu", fullgraph=True)):
        v = w.clone().requires_grad_()
        f(x, v).backward()
        found.append(v.grad.cpu())
    torch.testing.assert_close(*found)


def along_an_axis(rank, others):
    """A tensor parallel layer on one axis of a mesh, in a job that has made so many other groups before."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard

    for i in range(others):
        dist.new_group([i % dist.get_world_size()])
    mesh = init_device_mesh("tpu", (2, 2), mesh_dim_names=("dp", "tp"))["tp"]
    x = DTensor.from_local((torch.arange(8.0).view(2, 4) + 10 * rank).to("tpu"), mesh, [Shard(0)])

    def step(x):
        return (x * 2).redistribute(placements=[Replicate()]).to_local() + 1

    return torch.compile(step, backend="tpu", fullgraph=True)(x).cpu(), step(x).cpu()


def overlaps(rank):
    """How long a rank is kept by the launch of a collective whose partner comes late, and what it has done by then."""
    x, w = arguments(0)
    seen = []

    @torch.library.custom_op("tests::note", mutates_args=())
    def note(t: torch.Tensor) -> torch.Tensor:
        seen.append(time.monotonic())
        return t.clone()

    @note.register_fake
    def _(t):
        return torch.empty_like(t)

    def step(x, w):
        total = funcol.all_reduce(x @ w, "sum", dist.group.WORLD)
        other = note((x.relu() @ w).cpu())
        return total + 1, other

    run = torch.compile(step, backend="tpu", fullgraph=True)
    run(x, w)
    dist.barrier()
    seen.clear()
    start = time.monotonic()
    if rank == 1:
        time.sleep(1)
    total, _ = run(x, w)
    total.cpu()
    return seen[0] - start, time.monotonic() - start


def in_order(rank):
    """Collectives of one graph begin in its order, whichever inputs they need."""
    x, w = arguments(rank)

    def step(x, w):
        late = funcol.all_reduce(((x @ w).sin() @ w).cos(), "sum", dist.group.WORLD)
        early = funcol.all_reduce(x, "sum", dist.group.WORLD)  # could begin at once
        return early * 2, late + 1

    from torch_tpu.compile.parts import levels

    graphs = []

    def see(module, inputs):
        from torch._functorch.aot_autograd import make_boxed_func

        graphs.append(module)
        return make_boxed_func(module.forward)

    from torch._dynamo.backends.common import aot_autograd

    torch.compile(step, backend=aot_autograd(fw_compiler=see))(x, w)
    level = levels(graphs[0].graph)
    return [at for node, at in level.items() if "all_reduce" in node.name]
