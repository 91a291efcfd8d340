"""Programs for many devices: their values on several CPU devices of one process, run by another runtime, and what
libtpu makes of them."""
import importlib.util
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as funcol
from torch.testing._internal.distributed.fake_pg import FakeStore

from torch_tpu import aot
from torch_tpu.aot import count, trace
from torch_tpu.plugin import KNOWN

needs_libtpu = pytest.mark.skipif(KNOWN["libtpu"]() is None, reason="libtpu compiles for TPUs, and it is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")

# JAX on the CPU shows as many devices as it is told to; programs reach it as text, arguments as [replica][argument].
JAX = """
import os, pickle, sys
work = pickle.load(sys.stdin.buffer)
os.environ.update(XLA_FLAGS=f"--xla_force_host_platform_device_count={work['replicas']}", JAX_PLATFORMS="cpu")
import jax, numpy as np
from jax._src.lib import xla_client
jax.config.update("jax_enable_x64", True)
devices = jax.devices()
options = xla_client.CompileOptions()
options.num_replicas = work["replicas"]
sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(devices), ("r",)), jax.sharding.PartitionSpec("r"))
found = []
for text, given in work["programs"]:
    run = devices[0].client.compile_and_load(text, xla_client.DeviceList(tuple(devices)), options)
    args = []
    for parts in zip(*given):
        whole = (len(parts) * parts[0].shape[0], *parts[0].shape[1:])
        args.append(jax.make_array_from_single_device_arrays(whole, sharding, [jax.device_put(p, d) for p, d in zip(parts, devices)]))
    made = run.execute_sharded(args).disassemble_into_single_device_arrays()
    found.append([[np.asarray(r[k]) for r in made] for k in range(len(devices))])
sys.stdout.buffer.write(pickle.dumps(found))
"""


def run(programs, replicas=4):
    """[(text, [replica][argument])] -> [program][replica][result]. Arguments have a dim or more."""
    work = pickle.dumps({"replicas": replicas, "programs": programs})
    done = subprocess.run([sys.executable, "-c", JAX], input=work, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return pickle.loads(done.stdout)


@pytest.fixture(autouse=True)
def alone():
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def world(n, shape=None, rank=0):
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=n)
    return dist.init_device_mesh("tpu", shape or (n,))


def lowered(fn, *args):
    return trace.lower(trace.record(fn, args))


def ranks_of(n, *shape):
    return [np.random.default_rng(k).standard_normal(shape).astype(np.float32) for k in range(n)]


def test_collectives_compute_what_torch_says():
    """On a mesh of 2 x 2, along both axes; the other groups of an axis are found from that of rank 0."""
    mesh = world(4, (2, 2))
    rows, columns = (mesh.get_group(d) for d in (0, 1))  # ranks 0, 2 and 0, 1
    x = torch.zeros(4, 6)
    c10d, wait = torch.ops._c10d_functional, funcol.wait_tensor
    cases = [
        (lambda x: funcol.all_reduce(x, "sum", rows), lambda xs, g: sum(xs[i] for i in g), (0, 2)),
        (lambda x: funcol.all_reduce(x, "avg", columns), lambda xs, g: sum(xs[i] for i in g) / 2, (0, 1)),
        (lambda x: funcol.all_reduce(x, "max", columns), lambda xs, g: np.maximum(*(xs[i] for i in g)), (0, 1)),
        (lambda x: funcol.all_gather_tensor(x, 0, rows), lambda xs, g: np.concatenate([xs[i] for i in g]), (0, 2)),
        (
            lambda x: funcol.all_gather_tensor(x, 1, columns),
            lambda xs, g: np.concatenate([xs[i] for i in g], 1),
            (0, 1),
        ),
        (
            lambda x: funcol.reduce_scatter_tensor(x, "sum", 0, columns),
            lambda xs, g, k: sum(xs[i] for i in g)[2 * k : 2 * k + 2],
            (0, 1),
        ),
        (
            lambda x: funcol.reduce_scatter_tensor(x, "avg", 1, rows),
            lambda xs, g, k: sum(xs[i] for i in g)[:, 3 * k : 3 * k + 3] / 2,
            (0, 2),
        ),
        (
            lambda x: funcol.all_to_all_single(x, [2, 2], [2, 2], rows),
            lambda xs, g, k: np.concatenate([xs[i][2 * k : 2 * k + 2] for i in g]),
            (0, 2),
        ),
        (
            lambda x: wait(c10d.all_gather_into_tensor_coalesced([x, x * 2], 2, columns.group_name)[1]),
            lambda xs, g: np.concatenate([xs[i] * 2 for i in g]),
            (0, 1),
        ),
        (
            lambda x: wait(torch.ops._dtensor.shard_dim_alltoall(x, 0, 1, rows.group_name)),
            lambda xs, g, k: np.concatenate([xs[i][:, 3 * k : 3 * k + 3] for i in g]),
            (0, 2),
        ),
        (
            lambda x: wait(c10d.all_reduce_(x.clone(), "product", rows.group_name)),
            lambda xs, g: xs[g[0]] * xs[g[1]],
            (0, 2),
        ),
        (lambda x: funcol.broadcast(x, 1, rows), lambda xs, g: xs[g[1]], (0, 2)),
    ]
    given = ranks_of(4, 4, 6)
    found = run([(lowered(fn, x).text, [[g] for g in given]) for fn, _, _ in cases])
    for (_, expected, kind), made in zip(cases, found):
        other = tuple(r for r in range(4) if r not in kind)
        for group in (kind, other):
            for place, rank in enumerate(group):
                want = expected(given, group, place) if expected.__code__.co_argcount == 3 else expected(given, group)
                np.testing.assert_allclose(made[rank][0], want, rtol=1e-6)


def test_a_broadcast_is_from_the_same_place_of_each_group():
    mesh = world(4, (2, 2))
    text = lowered(lambda x: funcol.broadcast(x, 1, mesh.get_group(0)), torch.zeros(3)).text
    assert "all_gather" in text and "dense<[[2, 0], [3, 1]]>" in text


def test_what_has_no_form_on_all_devices_is_refused():
    world(4)
    with pytest.raises(NotImplementedError, match="parts of different sizes"):
        trace.record(
            lambda x: funcol.all_to_all_single(x, [1, 1, 1, 1], [4, 0, 0, 0], dist.group.WORLD), (torch.zeros(4),)
        )
    odd = dist.new_group([0, 1, 3])
    with pytest.raises(NotImplementedError, match=r"ranks \[0, 1, 3\] of 4, which are along no axis"):
        trace.record(lambda x: funcol.all_reduce(x, "sum", odd), (torch.zeros(4),))


def test_groups_of_flattened_axes_are_found_in_the_mesh():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    mesh = dist.init_device_mesh("tpu", (2, 2, 2), mesh_dim_names=("a", "b", "c"))
    x = torch.zeros(2)
    assert (
        "dense<[[0, 2], [1, 3], [4, 6], [5, 7]]>"
        in lowered(lambda x: funcol.all_reduce(x, "sum", mesh.get_group("b")), x).text
    )
    both = mesh["a", "c"]._flatten().get_group()
    with pytest.raises(NotImplementedError, match="along no axis"):
        lowered(lambda x: funcol.all_reduce(x, "sum", both), x)
    made = trace.lower(trace.record(lambda x: funcol.all_reduce(x, "sum", both), (x,), [mesh]))
    assert "dense<[[0, 1, 4, 5], [2, 3, 6, 7]]>" in made.text


def training(model, optimizer):
    """A step of it: a function of a batch."""

    def step(x):
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.reshape(1)

    return step


def mlp():
    return nn.Sequential(nn.Linear(6, 10), nn.GELU(), nn.Linear(10, 6))


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_a_sharded_training_step_is_that_of_the_whole_batch(shape):
    """Ten rows over four ranks: the last part is padded. Every rank ends with its part of what one device would
    have."""
    torch.manual_seed(0)
    whole = mlp()
    parameters = [p.detach().clone() for p in whole.parameters()]
    mesh = world(4, shape)
    with aot.fake():
        model = aot.shard(mlp(), mesh)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.zeros(3, 6)

    made = lowered(training(model, optimizer), x)
    assert sorted(n for n, _ in made.written) == sorted(f"model.{n}" for n, _ in whole.named_parameters())
    n = shape[-1]
    batches = ranks_of(4, 3, 6)

    def part(p, rank):
        rows = -(-p.shape[0] // n)
        padded = np.zeros((rows * n, *p.shape[1:]), np.float32)
        padded[: p.shape[0]] = p.detach().numpy()
        return padded[rank % n * rows : (rank % n + 1) * rows]

    named = dict(whole.named_parameters())
    names = [name.removeprefix("model.") for name, _ in made.written]
    (found,) = run([(made.text, [[*(part(named[m], r) for m in names), batches[r]] for r in range(4)])])
    whole(torch.from_numpy(np.concatenate(batches))).pow(2).mean().backward()
    torch.optim.SGD(whole.parameters(), lr=0.1).step()
    assert any(not torch.equal(a, b) for a, b in zip(parameters, whole.parameters()))
    for rank in range(4):
        for name, made_part in zip(names, found[rank][1:]):
            want = part(named[name], rank)
            rows = max(0, min(len(want), named[name].shape[0] - rank % n * len(want)))
            np.testing.assert_allclose(made_part[:rows], want[:rows], rtol=1e-5, atol=1e-6)


def test_what_a_tensor_parallel_plan_has_split_is_sharded_further():
    """FSDP x TP on 2 x 2: every rank ends with its part of what one device would have."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(6, 8, bias=False), nn.GELU(), nn.Linear(8, 4, bias=False))
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    mesh = dist.init_device_mesh("tpu", (2, 2), mesh_dim_names=("data", "tensor"))
    with aot.fake():
        model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.GELU(), nn.Linear(8, 4, bias=False))
        parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        aot.shard(aot.shard(model, mesh["data"]), mesh["data"])  # the second time there is nothing to do
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.zeros(3, 6)

    made = lowered(training(model, optimizer), x)
    names = [name.removeprefix("model.") for name, _ in made.written]
    assert sorted(names) == ["0.weight", "2.weight"]

    def part(p, name, rank):
        p = p.detach().chunk(2, 0 if name == "0.weight" else 1)[rank % 2]
        return p.chunk(2)[rank // 2].contiguous().numpy()

    named = dict(whole.named_parameters())
    batches = [b for b in ranks_of(2, 3, 6) for _ in range(2)]  # ranks of one tensor group see the same
    (found,) = run([(made.text, [[*(part(named[m], m, r) for m in names), batches[r]] for r in range(4)])])
    whole(torch.from_numpy(np.concatenate(batches[::2]))).pow(2).mean().backward()
    torch.optim.SGD(whole.parameters(), lr=0.1).step()
    for rank in range(4):
        for name, got in zip(names, found[rank][1:]):
            np.testing.assert_allclose(got, part(named[name], name, rank), rtol=1e-5, atol=1e-6)


def test_fully_shard_is_refused_and_told_what_to_use():
    from torch.distributed.fsdp import FSDPModule

    world(4)
    model = mlp()
    model.__class__ = type("FSDPSequential", (FSDPModule, nn.Sequential), {})  # as fully_shard makes it
    with pytest.raises(NotImplementedError, match=r"torch_tpu\.aot\.shard\(module, mesh\)"):
        trace.record(lambda x: model(x), (torch.zeros(2, 6),))


def test_dtensors_and_tensor_parallel_plans_are_traced():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = world(4)
    with aot.fake():
        model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 8, bias=False))
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        x = torch.zeros(2, 8)
    made = lowered(lambda x: model(x), x)
    assert made.text.count("stablehlo.all_reduce") == 1 and "tensor<4x8xf32>" in made.text
    torch.manual_seed(1)
    up, down = torch.randn(16, 8), torch.randn(8, 16)
    x = torch.randn(2, 8)
    args = {"model.0.weight": lambda r: up[4 * r : 4 * r + 4], "model.2.weight": lambda r: down[:, 4 * r : 4 * r + 4]}
    (found,) = run(
        [(made.text, [[args.get(n, lambda r: x)(r).contiguous().numpy() for n, _ in made.read] for r in range(4)])]
    )
    for k in range(4):
        np.testing.assert_allclose(found[k][0], (x @ up.T).relu().matmul(down.T).numpy(), rtol=1e-4, atol=1e-4)


def attend(options, *tensors):
    """Attention of DTensors and its gradients, the parts of this rank."""
    q, k, v = (x.detach().requires_grad_() for x in tensors[:3])
    mask = tensors[3] if len(tensors) > 3 else None
    out = nn.functional.scaled_dot_product_attention(q, k, v, mask, **options)
    return [x.to_local() for x in (out, *torch.autograd.grad(out.float().square().sum(), (q, k, v)))]


def test_the_flash_kernel_of_parts():
    """Batches over one dim of a mesh and heads, with their groups' keys, over the other; a mask, that heads share, as
    the batches. Two groups over four devices are gathered."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch_tpu.kernels.attention import flash

    pytest.importorskip("jax", reason="the kernel is written in Pallas")
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 16, 8), torch.randn(2, 2, 16, 8), torch.randn(2, 2, 16, 8)
    mask = torch.randn(2, 1, 16, 16)
    programs, cases = [], []
    for shape, places, options, masks in (
        ((2, 2), [Shard(0), Shard(1)], {"enable_gqa": True}, [mask]),
        ((2, 2), [Shard(0), Shard(1)], {"enable_gqa": True, "is_causal": True}, []),
        ((4,), [Shard(1)], {"enable_gqa": True, "is_causal": True}, []),
    ):
        if dist.is_initialized():
            dist.destroy_process_group()
        mesh = world(4, shape)
        all_placed = [places] * 3 + [[Shard(0), Replicate()]] * len(masks)
        if shape == (4,):
            all_placed[1] = all_placed[2] = [Replicate()]
        with aot.fake():
            given = [
                distribute_tensor(torch.zeros(x.shape), mesh, p) for x, p in zip((q, k, v, *masks), all_placed)
            ]

        def fn(*given):
            with flash():
                return attend(options, *given)

        made = lowered(fn, *given)
        assert ("stablehlo.all_" in made.text) == (shape == (4,))

        def part(x, places, rank, shape=shape):
            for i, place in enumerate(places):
                where = rank if len(shape) == 1 else (rank // 2, rank % 2)[i]
                x = x.chunk(shape[i], place.dim)[where] if place.is_shard() else x
            return x.contiguous().detach().numpy()

        args = [[part(x, p, r) for x, p in zip((q, k, v, *masks), all_placed)] for r in range(4)]
        programs.append((made.text, args))
        whole = [x.clone().requires_grad_() for x in (q, k, v)]
        out = nn.functional.scaled_dot_product_attention(*whole, *masks, **options)
        cases.append((part, places, [out, *torch.autograd.grad(out.square().sum(), whole)]))
    for found, (part, places, expected) in zip(run(programs), cases):
        for rank in range(4):
            for got, x in zip(found[rank], expected):
                whole = x.detach().numpy()
                want = whole if got.shape == whole.shape else part(x, places, rank)
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@needs_libtpu
def test_tensor_parallel_attention_is_the_flash_kernel():
    from torch.distributed.tensor import Shard, distribute_tensor

    pytest.importorskip("jax", reason="the kernel is written in Pallas")
    mesh = aot.mesh("v6e:2x2")
    with aot.fake():
        q, k, v = (
            distribute_tensor(torch.zeros(2, n, 256, 64, dtype=torch.bfloat16), mesh, [Shard(1)]) for n in (16, 4, 4)
        )
    made = aot.compile(
        lambda *given: attend({"is_causal": True, "enable_gqa": True}, *given), (q, k, v), topology="v6e:2x2"
    )
    assert made.program.count("@tpu_custom_call") == 3 and not made.cost.sent
    assert "tensor<2x4x256x64xbf16>, tensor<2x1x256x64xbf16>" in made.program  # a device's heads and their group


@needs_libtpu
@pytest.mark.parametrize("name", ["v6e:4x4", "v5p:4x4x4"])
def test_a_sharded_step_compiles_for_every_device(name):
    mesh = aot.mesh(name)
    with aot.fake():
        model = aot.shard(
            nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 250), nn.GELU(), nn.Linear(250, 64)).bfloat16(), mesh
        )
        optimizer = torch.optim.AdamW(model.parameters())
        tokens = torch.zeros(4, 8, dtype=torch.long)

    def step(tokens):
        loss = model(tokens).float().pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    compiled = aot.compile(step, (tokens,), topology=name)
    n = len(aot.topology(name).devices)
    assert compiled.devices == n and f"for {n} of {n} devices" in str(compiled)
    sizes = [2 * (-(-p.shape[0] // n)) * n * p[0].numel() for p in model.parameters()]
    # by each device in the forward pass, and as much is scattered; the norm is a number
    gathered = sum(sizes) * (n - 1) / n
    assert compiled.cost.sent == pytest.approx(2 * gathered, rel=0.01)
    assert count.Counter(compiled.program).cost.sent == compiled.cost.sent


@needs_libtpu
def test_a_world_that_is_larger_than_the_topology_is_refused():
    world(8)
    with pytest.raises(ValueError, match="the world has 8 ranks, and v6e:2x2 only 4 devices"):
        aot.compile(torch.neg, (torch.ones(2),), topology="v6e:2x2")


@needs_libtpu
@pytest.mark.parametrize("name", ["v6e:4x4", "v5p:4x4x4"])  # and tpu7x:16x16x32, which takes 20 s
def test_every_collective_compiles(name):
    n = len(aot.topology(name).devices)
    mesh = aot.mesh(name, (n // 8, 8), ("outer", "inner"))
    inner, outer = mesh.get_group("inner"), mesh.get_group("outer")
    cases = [lambda x, op=op: funcol.all_reduce(x, op, inner) for op in ("sum", "avg", "max", "min", "product")]
    cases += [
        lambda x: funcol.all_reduce(x, "sum", outer),
        lambda x: funcol.all_gather_tensor(x, 0, inner),
        lambda x: funcol.reduce_scatter_tensor(x, "sum", 0, inner),
        lambda x: funcol.all_to_all_single(x, None, None, inner),
        lambda x: funcol.broadcast(x, 1, inner),
    ]
    with aot.fake():
        x = torch.zeros(16, 8)
    for fn in cases:
        made = aot.compile(fn, (x,), topology=name)
        assert made.devices == n and made.cost.sent


@needs_libtpu
def test_the_llama_example_is_one_program_of_a_slice():
    path = pathlib.Path(__file__).parents[2] / "examples" / "train_llama.py"
    spec = importlib.util.spec_from_file_location("train_llama", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    made = example.compiled("tpu7x:2x2x1", 2, layers=1, width=64, heads=4, groups=2, length=16, batch=2)
    assert made.devices == 8 and made.memory.total < made.memory.available
    # over "tensor": a product's halves are summed; over "data": parameters are gathered, gradients scattered
    assert "all_reduce" in made.program
    assert "dense<[[0, 2, 4, 6], [1, 3, 5, 7]]>" in made.program and "dense<[[0, 1], [2, 3], [4, 5], [6, 7]]>" in made.program
