"""torch_tpu.compile_step(fn): a whole training step as one program, and almost nothing of Python around it.

watch.py notes what the function depends on in Python, record.py runs it on fake tensors, program.py is what is called
from then on, stored.py keeps it for other processes."""

import functools
import logging
import threading
import types
import warnings

import torch
from torch._dynamo import eval_frame
from torch.utils._pytree import tree_flatten

from .. import _C
from . import stored
from .program import Program, storage_of
from .watch import Watch

log = logging.getLogger("torch_tpu.compile")

MOST = 16  # programs for arguments of one kind, before it is said that something changes all the time
FILLS = 2  # calls that may run operator by operator, as they fill caches
_tracing = threading.RLock()
_GlobalState = torch._C._dynamo.guards.GlobalStateGuard


def _counts_to_device(optimizers):
    """State that optimizers keep on the host as tensors of no dims goes where their parameters are."""
    for o in optimizers:
        for p, state in o.state.items():
            for key, value in state.items():
                if (
                    isinstance(value, torch.Tensor)
                    and value.device.type == "cpu"
                    and value.dim() == 0
                    and getattr(p, "is_tpu", False)
                ):
                    state[key] = value.to(p.device)


def _kind(x):
    """What of an argument a program is for."""
    if isinstance(x, torch.Tensor):
        return x.shape, x.stride(), x.dtype, x.device, x.requires_grad
    if isinstance(x, (float, complex)):
        return type(x), repr(x)  # -0.0 equals 0.0, and nan nothing
    if x is None or isinstance(x, (int, bool, str, bytes, torch.dtype, torch.device)):
        return type(x), x
    return id(x)


def _loosely(key):
    """The kind of arguments, but for the values of numbers and for which objects they are."""
    return tuple(
        k[0] if isinstance(k, tuple) and len(k) == 2 and isinstance(k[0], type) else int if isinstance(k, int) else k
        for k in key
    )


def _memory(flat):
    """Which arguments lie in one memory, or are one tensor: part of what a program is for."""
    tensors = [x for x in flat if isinstance(x, torch.Tensor)]
    if len(tensors) < 2:
        return ()
    storages = list(map(storage_of, tensors))
    if len(set(storages)) == len(storages):
        return ()
    objects = list(map(id, tensors))
    return tuple((storages.index(s), x.storage_offset(), objects.index(id(x))) for s, x in zip(storages, tensors))


class _Unfinished(NotImplementedError):
    again = True


class Step:
    """What compile_step returns. programs: how many there are; refused: why calls run operator by operator, by kind of
    arguments."""

    how = "operator by operator"

    def __init__(self, fn, fullgraph, otherwise=None):
        functools.update_wrapper(self, fn, updated=())
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self.fn, self.fullgraph, self.otherwise = fn, fullgraph, otherwise or fn
        self.known = {}  # kind of the arguments -> [(state of torch, Program)], the one used last first
        self.refused = {}
        self.filled = {}  # kind of the arguments -> how many calls have changed what Python keeps
        self.once = {}  # kind of the arguments -> how many programs served one call only
        self.kinds = {}  # kind of the arguments but for numbers -> how many programs

    @property
    def programs(self):
        return sum(len(traced) for traced in self.known.values())

    def __call__(self, *args, **kwargs):
        if torch._C._len_torch_dispatch_stack() or torch.compiler.is_compiling():
            return self.fn(*args, **kwargs)
        if kwargs or not all(isinstance(x, torch.Tensor) for x in args):
            flat, spec = tree_flatten((args, kwargs))
            key = (spec, *map(_kind, flat))
        else:
            flat = args
            key = tuple(map(_kind, args))
        memory = _memory(flat)
        if memory:
            key = (*key, memory)
        known = self.known.get(key)
        if known:
            for at, (state, traced) in enumerate(known):
                if (
                    state.check()
                    and _C.first_changed(traced.watch.places) is None
                    and traced.shared_with(flat) == traced.shared
                ):
                    if at:
                        self.known[key] = [known[at], *known[:at], *known[at + 1 :]]
                    try:
                        return traced.run(flat)
                    except RuntimeError:
                        if not traced.stale:  # nothing has run if it is
                            raise
                    self.known[key] = [k for k in self.known[key] if k[1] is not traced]
                    break
        return self._first(key, flat, args, kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def _first(self, key, flat, args, kwargs):
        loosely = _loosely(key)
        if key in self.refused or loosely in self.refused:
            return self.otherwise(*args, **kwargs)
        if key not in self.known:
            self.kinds[loosely] = self.kinds.get(loosely, 0) + 1
            if self.kinds[loosely] > MOST:
                e = NotImplementedError(
                    f"{MOST} programs are not enough: arguments that are no tensors change from call to call"
                )
                return self._eagerly(loosely, e, args, kwargs)
        with _tracing:
            return self._trace(key, flat, args, kwargs)

    def _trace(self, key, flat, args, kwargs):
        known = self.known.setdefault(key, [])
        why = "new arguments" if not known else known[0][1].watch.changed() or "torch's global state"
        undo = None
        try:
            if len(known) + self.once.get(key, 0) >= MOST:
                raise NotImplementedError(f"{MOST} programs are not enough: {why} changes from call to call")
            state = _GlobalState()
            program, undo = self._program(*tree_flatten((args, kwargs)), why)
            result = program.run(flat)
        except BaseException as e:
            if undo is not None:  # what a program cannot hold is found before anything runs
                undo()
            if not isinstance(e, NotImplementedError):
                raise
            # it may have kept something that it finds from now on
            if getattr(e, "again", False) and not self.fullgraph and self.filled.get(key, 0) < FILLS:
                self.filled[key] = self.filled.get(key, 0) + 1
                return self.otherwise(*args, **kwargs)
            return self._eagerly(key, e, args, kwargs)
        if program.once:
            self.once[key] = self.once.get(key, 0) + 1
        else:
            self.known[key] = [(state, program), *self.known.get(key, ())]
        return result

    def _eagerly(self, key, why, args, kwargs):
        if self.fullgraph:
            hint = "; call the function itself once if this is but a cache" if getattr(why, "again", False) else ""
            raise RuntimeError(f"compile_step: {self.__name__} is not one program: {why}{hint}") from why
        result = self.otherwise(*args, **kwargs)  # what is wrong with it itself it says now
        self.refused[key] = str(why)
        self.known.pop(key, None)
        warnings.warn(f"compile_step: {self.__name__} runs {self.how}: {why}", stacklevel=5)
        return result

    def _program(self, flat, spec, why):
        """(the program of these arguments, what undoes its making)."""
        try:
            watch = Watch([self.fn, *(x for x in flat if not isinstance(x, torch.Tensor))])
        except Exception as e:
            raise NotImplementedError(f"what it refers to cannot be watched: {e}") from e
        unwatched = watch.unwatched()
        if unwatched is not None:
            raise NotImplementedError(unwatched)
        if any(torch.nn.parameter.is_lazy(x) for x in watch.tensors.values()):
            raise _Unfinished("parameters have no shapes yet")
        _counts_to_device(watch.optimizers)
        held = [*watch.tensors.values(), *(x for x in flat if isinstance(x, torch.Tensor))]
        alone = len(set(map(storage_of, held))) == len(held)  # the digest does not tell who shares memory
        name = stored.name_of(watch, flat, spec) if alone else None
        recipe = stored.load(name)
        if recipe is not None:
            log.info("%s comes from the cache: %s", self.__name__, why)
            return Program(recipe, watch, flat), lambda: None
        from .record import record

        log.info("%s is traced: %s", self.__name__, why)
        made, codes = self._record(record, flat, spec)
        try:
            unwatched = made.watch.unwatched(None if made.watch.doubts else codes)
            if unwatched is not None:
                raise NotImplementedError(unwatched)
            program = Program(made.recipe, made.watch, flat, made.function)
        except BaseException:
            made.before.restore()
            raise
        if name is not None and stored.all_known(codes, made.watch):
            stored.save(name, made.recipe)
        return program, made.before.restore


    def _record(self, record, flat, spec):
        """(the recording, which code ran or None). Functions that were called and not found are looked for from there,
        once."""
        more = []
        for _ in range(2):
            with stored.executed() as codes:
                made = record(self.fn, flat, spec, more)
            if codes is None:
                return made, None
            unknown = made.watch.unknown(codes)
            if not unknown:
                try:
                    made.watch.add_names(codes)
                except BaseException:
                    made.before.restore()
                    raise
                return made, codes
            made.before.restore()
            more = [types.FunctionType(code, names) for code, names in unknown.items() if not code.co_freevars]
        who = next(iter(unknown)).co_qualname
        raise NotImplementedError(f"{who} ran, which was not found among what the step refers to")


class CompiledStep(Step):
    """What torch.compile returns for options={"step": True}: what is no program runs by Dynamo's graphs (otherwise)."""

    how = "as several graphs"

    def __init__(self, fn, fullgraph, otherwise):
        if not isinstance(fn, (types.FunctionType, types.MethodType)):
            raise ValueError(f"options: step is for a function, got {type(fn).__name__}")
        super().__init__(fn, fullgraph, otherwise)
        self._torchdynamo_orig_callable = fn  # as Dynamo marks what it returns

    def __call__(self, *args, **kwargs):
        if eval_frame._stance.stance != "default":  # torch.compiler.set_stance
            return self.otherwise(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def compile_step(fn=None, *, fullgraph=False):
    """A training step as one program: step = torch_tpu.compile_step(fn), or as a decorator.

    fn may do what a training step does: zero_grad, the model, the loss, backward, clipping, optimizer.step(). It runs
    in Python once for each kind of arguments; later calls execute the program, which writes parameters, buffers,
    gradients and optimizer state in place. Arguments: tensors (each shape is a program), numbers and objects (each
    value is). Learning rates are operands: a scheduler, stepped outside, costs nothing. A call traces anew when what fn
    refers to has changed: modules and their attributes, parameters, train() and eval(), groups of optimizers, globals.

    What fn returns carries no graph. Python in it (prints, counters) does not happen in later calls. What reads a value
    (item(), printing a loss) or changes Python's state makes all calls run operator by operator, with a warning;
    fullgraph=True raises RuntimeError instead; so do objects that cannot be watched (iterators, arrays) and random
    numbers of the host. Optimizers keep their counts of steps on the device from then on. While one thread traces no
    other may use the same tensors."""
    if fn is None:
        return functools.partial(compile_step, fullgraph=fullgraph)
    return Step(fn, fullgraph)
