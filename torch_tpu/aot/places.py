"""Which line of the user's code each line of a program comes from.

While a function is recorded each operator is given the innermost line of the user's that called it (Noted); operators
of a backward get the line of the forward's operator, which autograd's sequence numbers name. When the record is
lowered, how far the text has grown after each operator tells whose its lines are (Lines), and they end with
loc("FILE":LINE:0), which XLA carries to its errors, profiles and optimized programs."""
import re
import sys

import torch
import torch.fx.traceback as fx_traceback
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _C
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


class Lines(torch.fx.Interpreter):
    """Runs a graph, while it is traced to a program, and tells afterwards whose the lines of the program are."""

    def __init__(self, module, ends=None):
        super().__init__(module)
        self.ends = [] if ends is None else ends  # (bytes of the text so far, the place of what was added last)

    def fetch_attr(self, target):
        """The body of a loop or a branch tells of its lines too."""
        found = super().fetch_attr(target)
        return Lines(found, self.ends) if isinstance(found, torch.fx.GraphModule) else found

    def __call__(self, *args):
        return self.run(*args)

    def run_node(self, n):
        made = super().run_node(n)
        self.ends.append((_C.trace_length(), n.meta.get("stack_trace") or ""))
        return made

    def located(self, text):
        """The finished text, its lines with their places."""
        start = text.index("{\n", text.index("@main")) + 2
        ends, at = iter([*self.ends, (len(text), "")]), 0
        end, place = next(ends)
        lines = []
        for line in text[start:].splitlines(keepends=True):
            while at >= end:
                end, place = next(ends)
            at += len(line)
            file, _, number = place.rpartition(":")
            is_operation = "stablehlo." in line or " call @" in line or line.lstrip().startswith("})")
            if file and is_operation and not line.endswith(("({\n", "},\n")):
                line = f"{line[:-1]} loc({_quoted(file)}:{number}:0)\n"
            lines.append(line)
        return text[:start] + "".join(lines)


def _quoted(file):
    return '"' + re.sub(r'[\\"\x00-\x1f]', "?", file) + '"'
