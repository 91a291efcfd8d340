"""The eager mode: how calls run, of the process, or of a thread inside a context."""
import contextlib
import enum
import threading

from .. import _C


class EagerMode(str, enum.Enum):
    """How operators run. Members equal their names in lower case, which is what set_eager_mode takes as well.

    STRICT: each when it is called, without waiting. DEBUG: each waits for its results, and values that the CPU refuses
    (indices, chances, division of integers by zero) raise what the CPU raises, at their line; in other modes indices
    out of range are clamped where they read and left out where they write. DEFER_AND_FUSE ("fuse"): calls may be put
    off, to run as one program."""

    STRICT = "strict"
    DEBUG = "debug"
    DEFER_AND_FUSE = "fuse"

    def __str__(self):
        return self.value


_MODES = list(EagerMode)  # a mode's number in the native code is its place
_NONFINITE = 4


_contexts = threading.local()  # .open: what mode_leave takes, for each context this thread is in


def _assign(settings):
    """Of the process, or of the innermost context of this thread."""
    open_ = getattr(_contexts, "open", None)
    if open_:
        _C.mode_leave(open_[-1])
        open_[-1] = _C.mode_enter(settings)
    else:
        _C.mode_set(settings)


class set_eager_mode:
    """Sets the mode: "strict", "debug", "fuse" or an EagerMode.

    As a call, of the process, or, inside a context, of what is left of that context. In a with statement, of this
    thread until its end, and of the threads that run backward for it; others keep theirs. TORCH_TPU_EAGER_MODE says how
    a process begins.

    check_nonfinite, in debug mode: the first operator that makes a nan or an infinity from operands without any raises,
    and names itself, its shapes and the line."""

    def __init__(self, mode, check_nonfinite=False):
        try:
            self._settings = _MODES.index(EagerMode(mode))
        except ValueError:
            raise ValueError(f"expected strict, debug or fuse, got {mode}") from None
        if check_nonfinite:
            if mode != "debug":
                raise ValueError(
                    f"check_nonfinite looks at the results of each call, which only debug mode does, not {mode}"
                )
            self._settings += _NONFINITE
        self._before = _C.mode_settings()
        _assign(self._settings)

    def __enter__(self):
        _assign(self._before)
        vars(_contexts).setdefault("open", []).append(_C.mode_enter(self._settings))
        return self

    def __exit__(self, *exc):
        _C.mode_leave(_contexts.open.pop())
        return False


@contextlib.contextmanager
def unfused():
    """Strict mode where fuse is on, for this thread: for what has to be compiled and run here and now."""
    before = _C.mode_enter(_MODES.index("strict")) if _C.mode_settings() % _NONFINITE == _MODES.index("fuse") else None
    try:
        yield
    finally:
        if before is not None:
            _C.mode_leave(before)


def __getattr__(name):
    if name == "eager_mode":  # the mode of the calling thread
        return _MODES[_C.mode_settings() % _NONFINITE]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
