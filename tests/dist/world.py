"""Some processes that are ranks of one job: each runs the function that it is sent, and sends back what that
returns."""
import ctypes
import multiprocessing
import os
import socket
import traceback


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _enter(namespace):
    """Moves this thread, and those that it starts, into a network namespace that `ip netns` made."""
    with open(f"/run/netns/{namespace}") as f:
        if ctypes.CDLL(None, use_errno=True).setns(f.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")


def _rank(rank, world, port, pipe, options):
    if "namespaces" in options:  # (namespace, network interface) of each rank
        namespace, os.environ["GLOO_SOCKET_IFNAME"] = options["namespaces"][rank]
        _enter(namespace)
    os.environ.update(
        MASTER_ADDR=options.get("address", "127.0.0.1"),
        MASTER_PORT=str(port),
        RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_RANK=str(rank),
    )
    import datetime

    import torch
    import torch.distributed as dist
    import torch_tpu
    torch.set_num_threads(1)
    dist.init_process_group(options.get("backend"), timeout=datetime.timedelta(seconds=options.get("timeout", 60)))
    pipe.send("ready")
    while (job := pipe.recv()) is not None:
        function, args, mode = job
        try:
            torch.manual_seed(0)
            with torch_tpu.set_eager_mode(mode):
                pipe.send((True, function(rank, *args)))
        except Exception:
            pipe.send((False, traceback.format_exc()))
    dist.destroy_process_group()


class World:
    """n ranks. run(function, *args) is function(rank, *args) on each: the list of what they return; a failure raises
    here."""

    def __init__(self, n, **options):
        context = multiprocessing.get_context("forkserver")  # which has imported torch once for all ranks
        context.set_forkserver_preload(["torch", "torch_tpu", "torch.distributed"])
        port, self.pipes, self.processes, self.broken = free_port(), [], [], False
        for rank in range(n):
            here, there = context.Pipe()
            process = context.Process(target=_rank, args=(rank, n, port, there, options), daemon=True)
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)
        for pipe in self.pipes:
            assert pipe.poll(120) and pipe.recv() == "ready"

    def send(self, function, *args, mode="strict"):
        for pipe in self.pipes:
            pipe.send((function, args, mode))

    def answers(self, ranks=None, seconds=150):
        """What the ranks sent: (whether it worked, result or traceback) each."""
        got = []
        for rank in range(len(self.pipes)) if ranks is None else ranks:
            assert self.pipes[rank].poll(seconds), f"rank {rank} does not answer"
            got.append(self.pipes[rank].recv())
        return got

    def run(self, function, *args, mode="strict"):
        self.broken = True
        self.send(function, *args, mode=mode)
        answers = self.answers()
        for rank, (worked, result) in enumerate(answers):
            assert worked, f"rank {rank}:\n{result}"
        self.broken = False
        return [result for _, result in answers]

    def close(self):
        for pipe in self.pipes:
            try:
                pipe.send(None)
            except OSError:
                pass
        for process in self.processes:
            process.join(0 if self.broken else 20)
            if process.is_alive():
                process.kill()
