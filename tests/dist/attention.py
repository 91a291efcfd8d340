"""What ranks do in test_attention.py: attention of parts, and what one process computes."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import context_parallel_unshard, set_rotate_method
from torch.distributed.tensor.experimental._context_parallel import _cp_options


def made(causal, length=64, groups=4, dtype=torch.float32):
    """Query, key and value of [batch, heads, length, width]."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(2, n, length, 16, generator=generator).to(dtype) for n in (4, groups, groups)]


def attend(q, k, v, causal):
    """The result and gradients of a loss that tells rows apart."""
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.3, enable_gqa=q.shape[1] != k.shape[1])
    return [out.detach(), *torch.autograd.grad(out.float().square().sum(), (q, k, v))]


def ring(rank, causal, balanced, rotate, groups, dtype):
    """All rows, of every rank."""
    n = dist.get_world_size()
    mesh = init_device_mesh("tpu", (n,))
    before = _cp_options.enable_load_balance
    _cp_options.enable_load_balance = balanced
    set_rotate_method(rotate)
    try:
        given = [x.to("tpu") for x in made(causal, groups=groups, dtype=dtype)]
        with context_parallel(mesh, buffers=given, buffer_seq_dims=[2] * 3):
            assert given[0].shape[2] == 64 // n
            parts = attend(*(x.detach().clone().requires_grad_() for x in given), causal)
        assert given[0].shape[2] == 64
        whole = context_parallel_unshard(mesh, [x.detach() for x in parts], [2] * 4)
        again = F.scaled_dot_product_attention(*given, is_causal=causal, scale=0.3, enable_gqa=groups != 4)
        return [x.cpu() for x in whole], again.cpu()
    finally:
        _cp_options.enable_load_balance = before
        set_rotate_method("allgather")


def refused(rank, options):
    mesh = init_device_mesh("tpu", (dist.get_world_size(),))
    given = [x.to("tpu") for x in made(True)]
    with context_parallel(mesh, buffers=given, buffer_seq_dims=[2] * 3):
        if options.get("attn_mask"):
            options["attn_mask"] = torch.zeros(2, 1, *[given[0].shape[2]] * 2, device="tpu")
        try:
            F.scaled_dot_product_attention(*given, **options)
        except NotImplementedError as x:
            return str(x)


def placed(rank, flash):
    """Attention of DTensors whose batches and heads are split over 2 x 2: the whole of what is returned."""
    from torch_tpu.kernels.attention import choices
    from torch_tpu.kernels.attention import flash as by_kernel

    mesh = init_device_mesh("tpu", (2, 2))
    given = [distribute_tensor(x.to("tpu"), mesh, [Shard(0), Shard(1)]).requires_grad_() for x in made(True, 16, 2)]
    before = choices().get("the flash kernel", 0)
    with by_kernel(flash):
        parts = attend(*given, True)
    taken = choices().get("the flash kernel", 0) - before
    assert parts[0].placements == (Shard(0), Shard(1))
    return [x.redistribute(mesh, [Replicate()] * 2).to_local().cpu() for x in parts], taken
