"""Which line of the user's code each line of a program comes from.

While a function is recorded each operator is given the innermost line of the user's that called it (Noted); operators
of a backward get the line of the forward's operator, which autograd's sequence numbers name. When the record is
lowered its lines end with them (_internal/lines.py)."""
import sys

import torch
import torch.fx.traceback as fx_traceback
from torch.utils._python_dispatch import TorchDispatchMode

from .._internal.places import is_users


class Noted(TorchDispatchMode):
    """Notes "FILE:LINE" as stack_trace of what is recorded, and whether backward computes again what forward has
    (recompute): it records operators for gradients then."""

    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self.of_forward = {}  # sequence number of a node of autograd: the line whose operator made it

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        frame = sys._getframe(1)
        while frame is not None and not is_users(frame.f_code.co_filename):
            frame = frame.f_back
        in_backward = torch._C._current_graph_task_id() >= 0
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        if not in_backward:
            self.of_forward.setdefault(torch.autograd._get_sequence_nr() - 1, place)
        elif not torch.is_grad_enabled():  # autograd's thread runs no Python of the user's
            node = torch._C._current_autograd_node()
            place = self.of_forward.get(node._sequence_nr(), place) if node is not None else place
        fx_traceback.current_meta["stack_trace"] = place
        fx_traceback.current_meta["recompute"] = in_backward and torch.is_grad_enabled()
        return func(*args, **(kwargs or {}))
