"""torch.distributed on device "tpu": the backend "tpu_dist" (also "tpu"), which PyTorch takes for tensors there by
itself.

    torch.distributed.init_process_group()   # under torchrun"""
import datetime
import functools

import torch
import torch.distributed as dist

from .. import _C


def _create(options, backend_options=None):
    """Makes the backend of one group on this rank: Gloo moves what is in the host's memory."""
    # A rank has one device, whichever its number on the host: where the plugin is loaded no mesh asks for another.
    _C.device_count()
    host = dist.ProcessGroupGloo(
        dist.PrefixStore("gloo", options.store), options.group_rank, options.group_size, timeout=options.timeout
    )
    host.options.global_ranks_in_group = options.global_ranks_in_group
    host.options.group_name = options.group_id
    host._set_sequence_number_for_group()
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    return _C.dist_backend(host, options.store, ranks, options.group_id)


def _on_tpu(group):
    """The backend of a group that is of tpu alone; else None."""
    if isinstance(group, dist.ProcessGroup) and group._device_types == [torch.device("tpu")]:
        return group._get_backend(torch.device("tpu"))


def _with_own_default(new_group):
    """A group made without naming a backend is of the accelerator's alone, and yet says that Gloo, which it lacks, is
    its default."""

    @functools.wraps(new_group)
    def wrapped(*args, **kwargs):
        group, store = new_group(*args, **kwargs)
        if _on_tpu(group):
            group._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        return group, store

    return wrapped


def _give_monitored_barriers(c10d):
    """monitored_barrier() for groups on tpu too: PyTorch asks the backend of the CPU, and refuses by names."""
    method, function = dist.ProcessGroup.monitored_barrier, c10d.monitored_barrier

    def of_group(self, *args, **kwargs):
        backend = _on_tpu(self)
        return backend.monitored_barrier(*args, **kwargs) if backend else method(self, *args, **kwargs)

    @functools.wraps(function)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        backend = _on_tpu(c10d._get_default_group() if group is None else group)
        if backend is None:
            return function(group, timeout, wait_all_ranks)
        if isinstance(timeout, float):
            timeout = datetime.timedelta(seconds=timeout)
        if timeout is None:
            return backend.monitored_barrier(wait_all_ranks=wait_all_ranks)  # after the group's own
        c10d._check_valid_timeout(timeout)
        backend.monitored_barrier(timeout, wait_all_ranks)

    dist.ProcessGroup.monitored_barrier = of_group
    c10d.monitored_barrier = dist.monitored_barrier = monitored_barrier


def register(c10d):
    """Tells torch.distributed of the backend. c10d: torch.distributed.distributed_c10d."""
    if not (dist.is_available() and dist.is_gloo_available()):
        return
    for name in "tpu_dist", "tpu":
        dist.Backend.register_backend(name, _create, extended_api=True, devices=["tpu"])
    c10d._new_process_group_helper = _with_own_default(c10d._new_process_group_helper)
    _give_monitored_barriers(c10d)
