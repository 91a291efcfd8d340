"""torch.tpu.distributed: meshes that follow a machine's links, and starting a script on every host of a slice.

    python -m torch.tpu.distributed [torchrun's options] train.py ARGS    # on each host, the same line

is torchrun with the hosts that the TPU VM or GKE names in the environment."""
import os
import sys

from torch_tpu.distributed.mesh import hops, layout, topology_aware_mesh

__all__ = ["topology_aware_mesh", "layout", "hops", "set_tpu_launch_env", "launch_arguments"]


def _place(environ):
    """(names of all hosts, the index of this one), as the machine's environment tells."""
    hosts = [h.strip() for h in environ.get("TPU_WORKER_HOSTNAMES", "").split(",") if h.strip()]
    return hosts or ["localhost"], int(environ.get("TPU_WORKER_ID") or 0)


def launch_arguments(environ=None, processes_per_host=None, port=29400):
    """torchrun's options for this host, from TPU_WORKER_HOSTNAMES, TPU_WORKER_ID and TPU_CHIPS_PER_HOST_BOUNDS
    ("2,2,1"), which TPU VMs and GKE's JobSets set; without them, one host. ValueError if they contradict one another.

    processes_per_host: one for each chip if not given, and one where nothing says how many there are."""
    environ = os.environ if environ is None else environ
    hosts, worker = _place(environ)
    if worker >= len(hosts):
        raise ValueError(f"TPU_WORKER_ID is {worker}, and TPU_WORKER_HOSTNAMES names {len(hosts)} hosts")
    if processes_per_host is None:
        processes_per_host = 1
        for n in filter(None, environ.get("TPU_CHIPS_PER_HOST_BOUNDS", "").split(",")):
            processes_per_host *= int(n)
    return [
        f"--nnodes={len(hosts)}",
        f"--node-rank={worker}",
        f"--nproc-per-node={processes_per_host}",
        f"--master-addr={hosts[0]}",
        f"--master-port={port}",
    ]


def set_tpu_launch_env(rank=None, world_size=None, local_rank=None, port=29400):
    """Sets what init_process_group() reads (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE, LOCAL_RANK) for one process a
    host, where no launcher has: from the variables that launch_arguments reads, or as given. What is set already
    stays."""
    hosts, worker = _place(os.environ)
    for name, value in {
        "MASTER_ADDR": hosts[0],
        "MASTER_PORT": port,
        "RANK": worker if rank is None else rank,
        "LOCAL_RANK": local_rank or 0,
        "WORLD_SIZE": len(hosts) if world_size is None else world_size,
    }.items():
        os.environ.setdefault(name, str(value))


def main(arguments):
    from torch.distributed.run import main as torchrun

    torchrun(launch_arguments() + arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
