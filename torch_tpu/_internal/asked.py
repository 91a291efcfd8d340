"""The programs that a call asks for, as text: nothing is compiled, and nothing runs."""
from .. import _C
from .execution_mode import unfused


def asked_for(call, for_tpu):
    """The StableHLO texts that call() asks for, in order, written for a TPU or for the plugin's device.

    The call ends where it needs the values of a program that was not run; what it raises there is raised here only if
    it asked for none, or if it is a NotImplementedError."""
    with unfused():  # what is deferred runs first
        _C.show_programs(True, for_tpu)
        error = None
        try:
            call()
        except NotImplementedError:
            raise
        except RuntimeError as e:
            error = e
        finally:
            texts = _C.shown_programs()
    if error is not None and not texts:
        raise error
    return texts
