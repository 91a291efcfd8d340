"""A graph that is not on the device alone: its host parts run as they are, what lies between is programs.

Host parts are what happens to CPU tensors, copies between the two sides, values that are read (item), and operators
whose results have sizes that only data tells. A node's level says how often the side has to change before it can run:
even levels are the host's, odd ones the device's, so a graph with one transfer in and one out is one program between
two host parts.

Collectives (torch's functional ones) are host parts too: they begin where the graph has them, in the graph's order on
every rank, and their wait_tensor comes just before what needs it; what lies between is a program that runs meanwhile."""

import operator

import torch

from .host import lighten
from .program import Program

aten = torch.ops.aten
WAIT = torch.ops._c10d_functional
COLLECTIVE = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor")


def _tensors(value):
    values = value if isinstance(value, (tuple, list)) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def _unknown_size(value):
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return any(free_unbacked_symbols(v) for v in _tensors(value))


def _value(node):
    """What is known of a node's value; of a higher-order operator's, what its users take from it."""
    if "val" in node.meta:
        return node.meta["val"]
    parts = [_value(u) for u in node.users if u.target is operator.getitem]
    return [t for part in parts for t in (_tensors(part) or [None])]


def _foreign(node):
    return any(t.device.type != "tpu" for t in _tensors(_value(node)))


def _number_like(node):
    """A CPU tensor of no dims, or a constant: what a program takes as a number."""
    tensors = _tensors(_value(node))
    return bool(tensors) and all(t.device.type == "cpu" and t.dim() == 0 for t in tensors)


def folded(graph):
    """Nodes that compute CPU tensors of no dims from others, for operators of the device alone: a schedule's factor, a
    bias correction. They are part of the program, not of the host."""
    found = set()
    for node in reversed(graph.nodes):
        target = node.target
        if node.op != "call_function" or not _number_like(node) or _random(node):
            continue
        pure = isinstance(target, torch._ops.OpOverload) and not target._schema.is_mutable
        if not pure or target in (
            aten._to_copy.default,
            aten._local_scalar_dense.default,
            aten.lift_fresh_copy.default,
        ):
            continue
        inputs = [n for n in node.all_input_nodes]
        if not all(_number_like(n) or _is_number(_value(n)) for n in inputs) or (
            inputs and node.kwargs.get("device") is not None
        ):
            continue
        users = [u for u in node.users]
        if users and all(
            u in found or (u.op == "call_function" and _tensors(_value(u)) and not _foreign(u)) for u in users
        ):
            found.add(node)
    return found


def _is_number(value):
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def _collective(node):
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in COLLECTIVE


def _waits_late(graph):
    """Moves each wait for a collective to where its result is used first. Returns whether there are collectives."""
    found = False
    for node in [n for n in graph.nodes if _collective(n)]:
        found = True
        if node.target is WAIT.wait_tensor.default and node.users:
            place = {n: i for i, n in enumerate(graph.nodes)}
            min(node.users, key=place.get).prepend(node)
    return found


class _Order:
    """What collectives add to the levels: they stay in their order, and so does what lies around them."""

    def __init__(self):
        self.floor = self.last = self.top = 0

    def level(self, node, at, side):
        """The level of a node whose inputs allow `at`."""
        if _collective(node):
            waits = node.target is WAIT.wait_tensor.default
            least = max(self.last, self.top if waits else 0)
            at = max(at, least if least % 2 == 0 else least + 1)
            self.last = self.floor = at
        elif side:
            at = max(at, self.floor + 1 if self.floor else 0)
        self.top = max(self.top, at)
        return at


def _of_host(node, host, inside):
    """Whether the node has to run on the host side; host: those of the nodes before it that do; inside: what is
    folded."""
    if node in inside:
        return any(n in host and _is_number(_value(n)) and n not in inside for n in node.all_input_nodes)
    value = _value(node)
    if _collective(node):
        return True
    if node.target is operator.getitem:
        return node.args[0] in host
    inputs = node.all_input_nodes
    if node.target is aten.copy_.default and node.args[0].op == "placeholder":
        return _foreign(node.args[0])
    tensors = _tensors(value)
    if not tensors:  # numbers, and what returns nothing
        return any(n in host for n in inputs) or any(_tensors(_value(n)) for n in inputs)
    if _foreign(node):
        return True
    if _unknown_size(value) and not any(_unknown_size(_value(n)) for n in inputs):
        return True
    # CPU tensors of no dims are operands; larger ones have to be brought.
    return any(t.device.type != "tpu" and t.dim() > 0 for n in inputs for t in _tensors(_value(n)))


def _random(node):
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def levels(graph):
    """{node: level} of the nodes that compute something. None if all is the device's. Moves waits for collectives."""
    host, level, drawn, inside = set(), {}, 0, folded(graph)
    order = _Order() if _waits_late(graph) else None
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        side = 0 if _of_host(node, host, inside) else 1
        if side == 0:
            host.add(node)
        at = side
        for n in node.all_input_nodes:
            before = level.get(n)
            if before is not None:
                at = max(at, before if before % 2 == side else before + 1)
        if _random(node):  # numbers are drawn in the order of the graph
            at = max(at, drawn if drawn % 2 == side else drawn + 1)
            drawn = at
        if node.target is aten.copy_.default:  # after all that reads what is written
            for reader in node.args[0].users:
                before = level.get(reader, 0)
                at = max(at, before if before % 2 == side else before + 1)
        level[node] = order.level(node, at, side) if order else at
    for node in reversed(graph.nodes):  # numbers are computed where they are used first
        if node in inside and node not in host:
            level[node] = min(level[u] for u in node.users)
    return level if host else None


class _Part:
    """The nodes of one level: a graph of its own, and which nodes of the whole it takes and gives."""

    def __init__(self, module, nodes, wanted):
        graph, self.inputs, made = torch.fx.Graph(), [], {}

        def bring(node):
            if node not in made:
                if node.op == "get_attr":
                    made[node] = graph.get_attr(node.target)
                else:
                    made[node] = graph.placeholder(node.name)
                    self.inputs.append(node)
                made[node].meta = dict(node.meta)
            return made[node]

        for node in nodes:  # placeholders come first
            for n in node.all_input_nodes:
                if n.op != "get_attr" and n not in nodes:
                    bring(n)
        for node in nodes:
            made[node] = graph.node_copy(node, bring)
            made[node].meta = dict(node.meta)
        self.outputs = [n for n in nodes if n in wanted]
        graph.output([made[n] for n in self.outputs])
        self.module = torch.fx.GraphModule(module, graph)
        self.made = made


class Mixed:
    """A graph of host and device parts as a function of a list of inputs to a list of results."""

    def __init__(self, module, level, options):
        graph = module.graph
        self.placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        (output,) = [n for n in graph.nodes if n.op == "output"]
        self.results = output.args[0]
        self.constants = {
            n: self._attribute(module, n) for n in self.results if isinstance(n, torch.fx.Node) and n.op == "get_attr"
        }
        groups = {}
        for node, at in level.items():
            groups.setdefault(at, {})[node] = None
        self.steps = []
        fixed = set()  # nodes that are the same in each call
        returned = {n for n in self.results if isinstance(n, torch.fx.Node)}
        for at in sorted(groups):
            nodes = groups[at]
            wanted = {n for n in nodes if any(u not in nodes for u in n.users)}
            if at == 0:
                once = self._constant_nodes(nodes, returned)
                if once:
                    part = _Part(module, once, {n for n in once if any(u not in once for u in n.users)})
                    fixed.update(part.outputs)
                    self.steps.append(("once", part, part.module))
                    nodes = {n: None for n in nodes if n not in once}
                    wanted = {n for n in nodes if any(u not in nodes for u in n.users)}
                if not nodes:
                    continue
            part = _Part(module, nodes, wanted)
            if at % 2 == 0:
                lighten(part.module, {part.made[n] for n in part.outputs if n in returned})
            self.steps.append(
                ("device", part, Program(part.module, options)) if at % 2 else ("host", part, part.module)
            )
        self.fixed = {}
        last = {}
        for k, (_, part, _fn) in enumerate(self.steps):
            for n in part.inputs:
                last[n] = k
        keep = returned | fixed
        self.dead = [
            [n for n in part.inputs if last[n] == k and n not in keep] for k, (_, part, _fn) in enumerate(self.steps)
        ]

    @staticmethod
    def _attribute(module, node):
        value = module
        for name in node.target.split("."):
            value = getattr(value, name)
        return value

    @staticmethod
    def _constant_nodes(nodes, returned):
        """Those that depend on constants only: tensors written in the user's code. What is returned has to be new each
        time."""
        once = {}
        for n in nodes:
            plain = (
                n.op == "call_function" and n not in returned and not _random(n) and n.target is not aten.copy_.default
            )
            if plain and all(i.op == "get_attr" or i in once for i in n.all_input_nodes):
                once[n] = None
        return once

    def __call__(self, inputs):
        known = dict(zip(self.placeholders, inputs))
        known.update(self.constants)
        for (kind, part, fn), dead in zip(self.steps, self.dead):
            if kind == "once":
                if not self.fixed:
                    with torch.no_grad():
                        self.fixed = dict(zip(part.outputs, fn(*(known[n] for n in part.inputs))))
                known.update(self.fixed)
                continue
            given = [known[n] for n in part.inputs]
            known.update(zip(part.outputs, fn(given) if kind == "device" else fn(*given)))
            for n in dead:
                del known[n]
        return [known[n] if isinstance(n, torch.fx.Node) else n for n in self.results]


def callable_of(module, options, level):
    """The graph as a function of a list of inputs: one program where all of it is the device's; level: what levels says
    of it."""
    if not level:
        return Program(module, options)
    if not any(at % 2 for at in level.values()):
        return lambda inputs: module(*inputs)  # nothing of it is the device's
    return Mixed(module, level, options)
