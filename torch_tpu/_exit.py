"""Leaves the process without a race that PyTorch has on every device with autograd threads.

A device's autograd thread releases the graph it has just run, Python objects among it, after backward() has returned to
the main thread. If Python is being finalised by then, taking the GIL ends the thread in the middle of a C++ destructor,
which aborts the process. So at exit the GIL is let go until those threads sleep. Nor does a plugin begin to compile
while the process goes; what it is at then is left there (graph/fuse.c)."""
import atexit
import glob
import time

from . import _C

PATIENCE = 2.0  # seconds


def _autograd_states():
    states = []
    for task in glob.glob("/proc/self/task/*/stat"):
        try:
            with open(task) as f:
                name, _, rest = f.read().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name.startswith("pt_autograd"):
            states.append(rest.split()[0])
    return states


@atexit.register
def _wait_for_autograd():
    deadline, quiet = time.monotonic() + PATIENCE, 0
    while quiet < 2 and time.monotonic() < deadline and (states := _autograd_states()):
        time.sleep(0.001)  # lets go of the GIL: who waits for it gets it now
        quiet = quiet + 1 if all(state == "S" for state in states) else 0


@atexit.register
def _stop_the_compiler():
    _C.fuse_wait(True)
