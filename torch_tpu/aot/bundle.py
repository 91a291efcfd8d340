"""Programs where processes on a TPU look for them, made where there is none: the pod starts without compiling.

The cache names a program by its text, the compiler's build and options, and the kind of device, all of which are known
here. The text has to be the one that the process will ask for, so it is asked for here too: of a compile_step function,
which is recorded as on a TPU and not run (asked), or of a script, which is run on the CPU plugin with programs written
for a TPU, all of which are kept (of_script)."""
import os
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_flatten

from .. import _C, cache
from .._internal.asked import asked_for
from ..step import Step, program as _program, stored
from .trace import Program
from .topology import Topology, libtpu, topology as _topology

HERE = "here"  # machines like this one, with the plugin of this process


def _without_memory(number, dtype, sizes, strides, device):
    return torch.empty_strided(sizes, strides, dtype=getattr(torch, dtype), device=device)


def _mark_absent(program, flat):
    """Tensors that were never written have contents where the program will run."""
    for x in (*program.tensors, *flat, *(x for part in program.operands for x in part)):
        if isinstance(x, torch.Tensor) and x.device.type == "tpu":
            _C.mark_absent(x.untyped_storage().data_ptr())


def asked(step, args, for_tpu=True):
    """(text of the program that a call of a compile_step function asks for, its step.program.Program). Nothing runs,
    and what the step refers to stays as it was; tensors that were never written (torch.empty, to_empty) take no memory,
    and cannot be read afterwards before they are written. NotImplementedError: it is not one program."""
    flat, spec = tree_flatten((tuple(args), {}))
    if any(isinstance(x, FakeTensor) for x in flat):
        raise NotImplementedError(
            "a compile_step function has tensors of its own: instead of aot.fake() make modules on device meta, then "
            'module.to_empty(device="tpu"), and arguments by torch.empty'
        )
    made, undo = [], []

    def call():
        program, back = step._program(flat, spec, "ahead of time")
        made.append(program)
        undo.append(back)
        _mark_absent(program, flat)
        program.run(flat)

    with mock.patch.object(_program, "begin", _without_memory), mock.patch.object(stored, "load", lambda n: None):
        try:
            texts = asked_for(call, for_tpu)
        finally:
            for back in undo:
                back()
    if len(texts) != 1:
        raise NotImplementedError(f"the call asks for {len(texts)} programs, expected one")
    return texts[0], made[0]


def traced(step, args):
    """What asked says, as a trace.Program, whose operands have no names."""
    text, program = asked(step, args)
    flat = tree_flatten((tuple(args), {}))[0]
    operands = [list(part) for part in program.operands]
    for part, place, i in program.given:
        operands[part][place] = flat[i]
    named = [[(f"operand {i}", x) for i, x in enumerate(part) if isinstance(x, torch.Tensor)] for part in operands]
    return Program(text, *named, [])


def _place(name):
    """The Topology of a name, which may be one already; None for HERE."""
    return None if name == HERE else name if isinstance(name, Topology) else _topology(name)


def fill(step, args=(), *, topology, options=None):
    """Puts the program of step(*args), of what torch_tpu.compile_step returned, into this process's cache folder for
    processes on machines of a topology, or like this one (topology="here"). Returns its name there.

    Such a process finds it if its libtpu, its torch and torch_tpu and its TORCH_TPU_XLA_OPTIONS are this process's, and
    the tensors' sizes and dtypes. What it runs outside of steps are programs of their own: see of_script."""
    from . import compile as compile_

    if not isinstance(step, Step):
        raise TypeError(f"expected what torch_tpu.compile_step returned, got {type(step).__name__}")
    if _place(topology) is not None:
        return compile_(step, args, topology=topology, options=options).fill()
    text, _ = asked(step, args, for_tpu=_C.lowers_for_tpu())
    return cache.bring(text)


def of_script(command, *, topology):
    """Runs a script, [file, argument...], and puts every program that it asks for into the cache folder, for processes
    on machines of a topology or like this one. Returns (names, {name: why not} of those left out, exit status).

    It runs on the CPU plugin, with small data if it likes, as long as shapes are those of the real job: a program is
    one of its operands' sizes. Programs that only a TPU can run (kernels) end the script there; what it had asked for
    until then is kept."""
    where, folder = _place(topology), cache.folder()
    env = dict(os.environ)
    names, left = [], {}
    with tempfile.TemporaryDirectory() as dump:
        env["TORCH_TPU_DUMP"] = dump
        if where is not None:
            env.update(TORCH_TPU_TARGET="tpu", TORCH_TPU_CACHE="0")  # what it runs here is nothing for the bundle
        status = subprocess.run([sys.executable, *command], env=env).returncode
        for file in sorted(pathlib.Path(dump).glob("*.mlir")):
            text = file.read_text()
            try:
                if _C.cache_key(text) != file.stem:
                    raise ValueError("it was compiled with options of its own")
                if where is None:
                    if not cache.holds(folder, file.stem):
                        raise ValueError("it could not be written to the cache folder")
                    names.append(file.stem)
                else:
                    names.append(_C.aot_fill(_C.aot_compile(libtpu(), where.name, text, 1), text))
            except (RuntimeError, ValueError, MemoryError) as e:
                left[file.stem] = str(e).splitlines()[0]
    return names, left, status
