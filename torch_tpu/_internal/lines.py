"""Programs name the user's lines: a graph's nodes know theirs ("place" of their meta: a file and a number), and while
the graph is traced each is told to the program, whose lines end with loc("FILE":LINE:0). XLA carries that to its errors,
profiles and optimized programs."""
import contextlib
import functools
import re
import threading

import torch

from .. import _C
from .places import is_users

_FRAME = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)
_dynamos = threading.local()  # places: of the nodes of Dynamo's graph that is being compiled


@functools.lru_cache(4096)
def _of_trace(trace):
    if "\n" not in trace:  # "FILE:LINE", as aot notes it
        file, _, line = trace.rpartition(":")
        return (file, int(line)) if file else None
    frames = [(file, int(line)) for file, line in _FRAME.findall(trace) if is_users(file)]
    return frames[-1] if frames else None


@contextlib.contextmanager
def of(module):
    """While it lasts, what is compiled is made of Dynamo's graph module."""
    before = getattr(_dynamos, "places", [])
    _dynamos.places = [_of_trace(n.meta.get("stack_trace") or "") for n in module.graph.nodes]
    try:
        yield
    finally:
        _dynamos.places = before


def note(module):
    """Gives the nodes of a captured graph, and of those in it, their places: the innermost line of the user's.

    place_of: which node of Dynamo's graph has the same place. Who reads the graph from a cache has Dynamo's graph too,
    maybe with other lines."""
    first = {}
    for i, place in enumerate(getattr(_dynamos, "places", [])):
        first.setdefault(place, i)
    for node in _nodes(module):
        place = _of_trace(node.meta.get("stack_trace") or "")
        if place:
            node.meta["place"], node.meta["place_of"] = place, first.get(place)


def find(module):
    """Gives the nodes of a graph from a cache their places."""
    places = getattr(_dynamos, "places", [])
    for node in _nodes(module):
        i = node.meta.get("place_of")
        if i is not None and i < len(places):
            node.meta["place"] = places[i]


def _nodes(module):
    parts = [part for part in module.modules() if isinstance(part, torch.fx.GraphModule)]
    return [node for part in parts for node in part.graph.nodes]


def tell(node):
    """What this thread traces from now on comes from the node's line."""
    _C.trace_place(*(node.meta.get("place") or (None, 0)))


class Lines(torch.fx.Interpreter):
    """Runs a graph while it is traced to a program."""

    def __init__(self, module):
        super().__init__(module)
        self.extra_traceback = False  # errors are words for the user

    def fetch_attr(self, target):
        """The body of a loop or a branch tells of its lines too."""
        found = super().fetch_attr(target)
        return Lines(found) if isinstance(found, torch.fx.GraphModule) else found

    def __call__(self, *args):
        return self.run(*args)

    def run_node(self, n):
        tell(n)
        made = super().run_node(n)
        tell(n)  # what closes a loop
        return made
