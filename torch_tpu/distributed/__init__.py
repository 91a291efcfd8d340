"""torch.distributed on device "tpu": the backend "tpu_dist" (also "tpu"), which PyTorch takes for tensors there by itself.

    torch.distributed.init_process_group()   # under torchrun: gloo for the CPU, tpu_dist for tpu"""
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


def register():
    if dist.is_available() and dist.is_gloo_available():
        for name in "tpu_dist", "tpu":
            dist.Backend.register_backend(name, _create, extended_api=True, devices=["tpu"])
