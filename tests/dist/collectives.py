"""What ranks do in test_collectives.py: each function runs on every rank, against what the CPU says."""
import torch
import torch.distributed as dist

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.float8_e4m3fn,
]


def same(got, expected):
    torch.testing.assert_close(got.cpu(), expected)


def full(*sizes, value=1.0, dtype=None):
    return torch.full(sizes, float(value), dtype=dtype, device="tpu")


def all_reduce_dtypes(rank):
    n = dist.get_world_size()
    for dtype in DTYPES:
        t = (torch.arange(4) + rank).to(dtype).to("tpu")
        dist.all_reduce(t)
        wide = torch.complex64 if dtype.is_complex else torch.float64
        expected = sum((torch.arange(4) + r).to(dtype).to(wide) for r in range(n))
        same(t, (expected > 0) if dtype == torch.bool else expected.to(dtype))


def all_reduce_operations(rank):
    n, op = dist.get_world_size(), dist.ReduceOp
    values = torch.arange(1, n + 1)
    for how, expected in [
        (op.SUM, values.sum()),
        (op.AVG, values.sum() / n),
        (op.PRODUCT, values.prod()),
        (op.MIN, values.min()),
        (op.MAX, values.max()),
        (dist._make_nccl_premul_sum(2.0), 2 * values.sum()),
    ]:
        t = full(3, value=rank + 1.0)
        dist.all_reduce(t, how)
        same(t, torch.full((3,), float(expected)))
    for how, function in [(op.BAND, lambda a, b: a & b), (op.BOR, lambda a, b: a | b), (op.BXOR, lambda a, b: a ^ b)]:
        t = torch.tensor([rank + 5], device="tpu")
        dist.all_reduce(t, how)
        expected = 5
        for r in range(1, n):
            expected = function(expected, r + 5)
        assert t.item() == expected


def refusals(rank):
    for call, words in [(lambda: dist.all_reduce(full(2), dist.ReduceOp.BAND), "Cannot use ReduceOp.BAND"),
                        (lambda: dist.all_gather_into_tensor(full(3), full(2)), "output tensor size"),
                        (lambda: dist.reduce_scatter_tensor(full(2), full(3)), "input tensor must be the same size"),
                        (lambda: dist.all_reduce(torch.ones(2)), "cpu")]:
        try:
            call()
        except Exception as e:
            assert words in str(e), str(e)
        else:
            raise AssertionError(words)
    dist.barrier()


def views(rank):
    n = dist.get_world_size()
    t = full(4, 4, value=0.0)
    column = t[:, 1]
    column += rank  # what is written before the call takes part
    dist.all_reduce(column)
    same(t[:, 1], torch.full((4,), float(sum(range(n)))))
    same(t[:, 0], torch.zeros(4))
    out = full(4, n * 2, value=-1.0)
    dist.all_gather_into_tensor(out[1], full(2, value=rank))
    same(out[1], torch.arange(float(n)).repeat_interleave(2))
    same(out[0], torch.full((n * 2,), -1.0))
    shared = full(3, value=rank)
    before = shared.clone()  # may share the buffer
    twice = shared * 2
    dist.all_reduce(shared)
    same(before, torch.full((3,), float(rank)))
    same(twice, torch.full((3,), 2.0 * rank))


def moves(rank):
    n = dist.get_world_size()
    b = full(2, 3, value=rank)
    dist.broadcast(b, 1)
    same(b, torch.ones(2, 3))
    r = full(2, value=rank)
    dist.reduce(r, 2)
    same(r, torch.full((2,), float(sum(range(n)) if rank == 2 else rank)))
    for size in (lambda r: 2), (lambda r: r + 1):  # the same everywhere, and not
        outs = [full(size(r), value=-1.0) for r in range(n)]
        dist.all_gather(outs, full(size(rank), value=rank))
        for i, o in enumerate(outs):
            same(o, torch.full((size(i),), float(i)))
        o = full(size(rank))
        dist.reduce_scatter(o, [full(size(i), value=i) for i in range(n)])
        same(o, torch.full((size(rank),), float(n * rank)))
    o = full(2)
    dist.reduce_scatter_tensor(o, torch.arange(2.0 * n, device="tpu"), dist.ReduceOp.AVG)
    same(o, torch.arange(2.0 * n)[2 * rank:2 * rank + 2])
    outs = [full(2) for _ in range(n)] if rank == 1 else None
    dist.gather(full(2, value=rank), outs, 1)
    for i, o in enumerate(outs or []):
        same(o, torch.full((2,), float(i)))
    o = full(2)
    dist.scatter(o, [full(2, value=10.0 * i) for i in range(n)] if rank == 3 else None, 3)
    same(o, torch.full((2,), 10.0 * rank))


def all_to_all(rank):
    n = dist.get_world_size()
    o = full(n)
    dist.all_to_all_single(o, torch.arange(float(n), device="tpu") + 10 * rank)
    same(o, 10 * torch.arange(float(n)) + rank)
    o = full(n * (rank + 1), 2)  # rank r gets r + 1 rows from each
    dist.all_to_all_single(o, full(sum(range(1, n + 1)), 2, value=rank), [rank + 1] * n, list(range(1, n + 1)))
    same(o[:, 0], torch.arange(float(n)).repeat_interleave(rank + 1))
    outs = [full(rank + 1) for _ in range(n)]
    dist.all_to_all(outs, [full(r + 1, value=rank) for r in range(n)])
    for i, o in enumerate(outs):
        same(o, torch.full((rank + 1,), float(i)))


def one_to_one(rank):
    n = dist.get_world_size()
    got = full(3)
    ops = [dist.P2POp(dist.isend, full(3, value=rank), (rank + 1) % n), dist.P2POp(dist.irecv, got, (rank - 1) % n)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(got, torch.full((3,), float((rank - 1) % n)))
    if rank == 0:
        dist.send(full(2, value=7.0), 1, tag=5)
    elif rank == 1:
        t = full(2)
        assert dist.recv(t, tag=5) == 0  # from any rank
        same(t, torch.full((2,), 7.0))


def asynchronous(rank):
    n = dist.get_world_size()
    t = full(1000, value=1.0)
    work = dist.all_reduce(t, async_op=True)
    future = work.get_future().then(lambda f: f.value()[0] + 1)
    same(future.wait(), torch.full((1000,), n + 1.0))
    assert work.is_completed() and work.is_success()
    many = [full(5, value=float(i)) for i in range(20)]
    for work in [dist.all_reduce(t, async_op=True) for t in many]:
        work.wait()
    for i, t in enumerate(many):
        same(t, torch.full((5,), float(n * i)))


def objects(rank):
    n = dist.get_world_size()
    everything = [None] * n
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * rank})
    assert everything == [{"rank": i, "text": "x" * i} for i in range(n)]
    gathered = [None] * n if rank == 0 else None
    dist.gather_object(rank, gathered, 0)
    assert gathered == (list(range(n)) if rank == 0 else None)
    listed = [rank]
    dist.broadcast_object_list(listed, 2)
    assert listed == [2]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {i}" for i in range(n)] if rank == 1 else None, 1)
    assert mine == [f"for {rank}"]


def groups(rank):
    n = dist.get_world_size()
    pair, odd = dist.new_group([0, 1]), dist.new_group(list(range(1, n, 2)))
    for group, members in (pair, [0, 1]), (odd, list(range(1, n, 2))):
        if rank in members:
            t = full(2, value=rank)
            dist.all_reduce(t, group=group)
            same(t, torch.full((2,), float(sum(members))))
    dist.barrier()


def copies(rank):
    """Bytes that went between host buffers for an all-reduce of 4 MB, beyond Gloo's own."""
    import torch_tpu
    t = full(1 << 20, value=1.0) * 2
    torch.tpu.synchronize()
    before = torch_tpu.counters()
    dist.all_reduce(t)
    after = torch_tpu.counters()
    same(t[:2], torch.full((2,), 2.0 * dist.get_world_size()))
    t.add_(1)  # the memory is the device's as ever
    same(t[-2:], torch.full((2,), 2.0 * dist.get_world_size() + 1))
    return {k: after[k] - before[k] for k in ("bytes_to_device", "bytes_from_device", "executions")}


def sparse(rank):
    n = dist.get_world_size()
    t = torch.sparse_coo_tensor([[0, rank]], [1.0, 2.0], (n,)).to("tpu")
    dist.all_reduce(t)
    same(t.to_dense(), torch.tensor([n + 2.0] + [2.0] * (n - 1)))


def monitored(rank):
    from datetime import timedelta
    dist.monitored_barrier(timeout=timedelta(seconds=20))
    group = dist.new_group([0, 1])
    if rank == 0:
        try:
            dist.monitored_barrier(group, timedelta(seconds=1))
        except RuntimeError as e:
            assert "Rank 1 failed to pass monitoredBarrier" in str(e), str(e)
        else:
            raise AssertionError("rank 1 was not missed")
    dist.barrier()
