"""torch.distributed on device "tpu": the backend "tpu_dist" (also "tpu"), which PyTorch takes for tensors there by itself.

    torch.distributed.init_process_group()   # under torchrun"""
import functools

import torch
import torch.distributed as dist

from .. import _C


def _create(options, backend_options=None):
    """Makes the backend of one group on this rank: Gloo moves what is in the host's memory."""
    host = dist.ProcessGroupGloo(dist.PrefixStore("gloo", options.store), options.group_rank, options.group_size, timeout=options.timeout)
    host.options.global_ranks_in_group = options.global_ranks_in_group
    host.options.group_name = options.group_id
    host._set_sequence_number_for_group()
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    return _C.dist_backend(host, options.store, ranks, options.group_id)


def _with_own_default(new_group):
    """A group made without naming a backend is of the accelerator's alone, and yet says that Gloo, which it lacks, is its default."""

    @functools.wraps(new_group)
    def wrapped(*args, **kwargs):
        group, store = new_group(*args, **kwargs)
        if isinstance(group, dist.ProcessGroup) and group._device_types == [torch.device("tpu")]:
            group._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        return group, store

    return wrapped


def register(c10d):
    """Tells torch.distributed of the backend. c10d: torch.distributed.distributed_c10d."""
    if not (dist.is_available() and dist.is_gloo_available()):
        return
    for name in "tpu_dist", "tpu":
        dist.Backend.register_backend(name, _create, extended_api=True, devices=["tpu"])
    c10d._new_process_group_helper = _with_own_default(c10d._new_process_group_helper)
