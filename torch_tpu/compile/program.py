"""A graph of device operators as one program for each kind of inputs.

The graph is traced by running it on traced tensors, through the same lowering as eager operators; the native side keys
the program by the inputs' sizes, strides and aliasing (not by offsets), donates what the graph writes, and takes 0-dim
CPU tensors as run-time operands. A graph with symbolic sizes is traced for capacities (sized.py); where that cannot be,
its sizes and numbers are constants of a program: it is traced again for each combination, without Dynamo or AOTAutograd
hearing of it."""

import logging
import operator

import torch

from .. import _C
from .._internal.execution_mode import unfused
from .._internal.lines import Lines
from . import options as _options
from .sized import Sized


log = logging.getLogger("torch_tpu.compile")


def evaluate(size, known):
    """A size, which may be an expression of symbols, as a number. NotImplementedError if no input has it."""
    if not isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return size
    value = size.node.expr.subs(known)
    kind = float if isinstance(size, torch.SymFloat) else bool if isinstance(size, torch.SymBool) else int
    try:
        return kind(value)
    except TypeError:
        raise NotImplementedError(f"the size {size} depends on values") from None


def _is_symbolic(value):
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


class Symbols:
    """Where the value of each symbol is found in the inputs of a call: [(symbol, read)]."""

    def __init__(self, inputs):
        self.places, known = [], set()
        for i, value in enumerate(inputs):
            for symbol, place in self._of(i, value):
                if symbol not in known:
                    known.add(symbol)
                    self.places.append((symbol, place))

    @staticmethod
    def _of(i, value):
        if isinstance(value, torch.Tensor):
            for d, size in enumerate(value.shape):
                if _is_symbolic(size) and size.node.expr.is_symbol:
                    yield size.node.expr, lambda inputs, d=d: inputs[i].shape[d]
            for d, size in enumerate(value.stride()):
                if _is_symbolic(size) and size.node.expr.is_symbol:
                    yield size.node.expr, lambda inputs, d=d: inputs[i].stride(d)
        elif _is_symbolic(value) and value.node.expr.is_symbol:
            yield value.node.expr, lambda inputs: inputs[i]

    def __call__(self, inputs):
        return {symbol: read(inputs) for symbol, read in self.places}


def root_of(node):
    """What a node is a view of: itself where it is none."""
    while node.op == "call_function":
        maker = node.args[0] if node.target is operator.getitem else node  # of a list of views
        arguments = maker.target._schema.arguments if isinstance(maker.target, torch._ops.OpOverload) else ()
        if not arguments or arguments[0].alias_info is None or arguments[0].alias_info.is_write:
            break
        if not maker.args or not isinstance(maker.args[0], torch.fx.Node):
            break
        node = maker.args[0]
    return node


def _steps(node, root):
    """The views that lead from root to node, in order; None where sizes, strides and offset tell all of them: no other
    dtype, no lazy conjugate or negative."""
    value, base = node.meta["val"], root.meta["val"]
    if (value.dtype, value.is_conj(), value.is_neg()) == (base.dtype, base.is_conj(), base.is_neg()):
        return None
    found = []
    while node is not root:
        found.append(node)
        node = node.args[0]
    return found[::-1]


def _shared(results):
    """{node: its root} of the results that share memory with others."""
    roots = {r: root_of(r) for r in results}
    shared = {}
    for r, root in roots.items():
        if root.op == "call_function" and (r is root or sum(other is root for other in roots.values()) > 1):
            shared[r] = root
    return {r: root for r, root in shared.items() if r is not root}


def described(graph, others=()):
    """The nodes whose values have to be known of where the graph becomes programs: inputs, results and others that go
    from one to the next, and what these are views of."""
    found = {n for n in graph.nodes if n.op in ("placeholder", "get_attr")}
    for r in (*graph.output_node().args[0], *others):
        if isinstance(r, torch.fx.Node):
            found.update((r, root_of(r)))
    return found


class Program:
    """A captured graph of device operators as a function of a list of inputs, which it empties, to a list of results.

    Inputs that the graph writes (copy_ at its end) are written in place; inputs that it returns as they are never enter
    the program."""

    def __init__(self, module, options=None):
        self.module = module
        self.options, buckets = _options.parts(options)  # as _C.set_options takes them
        nodes = list(module.graph.nodes)
        placeholders = [n for n in nodes if n.op == "placeholder"]
        position = {n: i for i, n in enumerate(placeholders)}
        (output,) = [n for n in nodes if n.op == "output"]
        copies = {n for n in nodes if n.target is torch.ops.aten.copy_.default and n.args[0] in position}
        written = {n.args[0] for n in copies}
        inputs = [n.meta.get("val") for n in placeholders]
        tensors = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        self.count = len(inputs)
        self.numbers = [i for i in range(len(placeholders)) if i not in tensors]
        self.written = [i for i in tensors if placeholders[i] in written]
        self.read = [i for i in tensors if placeholders[i] not in written]
        self.results = []  # where each result comes from
        self.values = []  # what is known of what the program computes: fake tensors
        at, computed = {}, []  # of the nodes that the program computes
        returned = list(output.args[0])
        shared = _shared(
            dict.fromkeys(
                r
                for r in returned
                if isinstance(r, torch.fx.Node) and r not in copies and isinstance(r.meta.get("val"), torch.Tensor)
            )
        )

        def compute(node):
            if node not in at:
                at[node] = len(computed)
                computed.append(node)
                self.values.append(node.meta["val"])
            return at[node]

        for r in returned:
            value = r.meta.get("val") if isinstance(r, torch.fx.Node) else r
            if isinstance(r, torch.fx.Node) and r in position:
                self.results.append(("input", position[r]))
            elif isinstance(r, torch.fx.Node) and r in copies:
                self.results.append(("input", position[r.args[0]]))
            elif r in shared:
                self.results.append(("view", (compute(shared[r]), value, _steps(r, shared[r]))))
            elif isinstance(value, torch.Tensor):
                self.results.append(("new", compute(r)))
            else:
                self.results.append(("number", value))
        self.plain = self.results == [("new", i) for i in range(len(computed))]
        # What is traced: the graph itself, unless it does not return all that has to be computed.
        self.traced = module
        if any(node not in returned for node in computed):
            graph, same = torch.fx.Graph(), {}
            graph.graph_copy(module.graph, same)
            graph.output([same[n] for n in computed])
            self.traced, returned = torch.fx.GraphModule(module, graph), computed
        self.places = [returned.index(node) for node in computed]
        self.at = at
        symbols = Symbols(inputs)
        self.symbols = symbols if symbols.places else None
        self.handles = {}  # what symbols and numbers stand for -> handle
        self.refused = None  # why the graph cannot be one program, once that is known
        self.sized = Sized(self, buckets) if self.symbols else None
        self.exact = self.sized.reason if self.sized else None  # why each combination of sizes is a program of its own

    def _register(self, numbers, known):
        outputs = [
            (
                str(v.dtype).removeprefix("torch."),
                tuple(evaluate(s, known) for s in v.shape),
                tuple(evaluate(s, known) for s in v.stride()),
            )
            for v in self.values
        ]

        def trace(args):
            """Called by the native side with traced tensors: [written, read]."""
            arguments = [None] * self.count
            for where, values in zip((self.numbers, self.written, self.read), (numbers, *args)):
                for i, value in zip(where, values):
                    arguments[i] = value
            with torch.no_grad():
                results = Lines(self.traced).run(*arguments)
            torch.ops.torch_tpu.deliver([results[k] for k in self.places])

        log.debug("a program of %d inputs for %s %s", self.count, numbers, known)
        return _C.graph_register(trace, outputs)

    def handle(self, inputs):
        """The native handle for these inputs, and what the symbols stand for."""
        known = self.symbols(inputs) if self.symbols else {}
        numbers = tuple(inputs[i] for i in self.numbers)
        key = (numbers, tuple(known.values())) if known else numbers
        handle = self.handles.get(key)
        if handle is None:
            handle = self.handles[key] = self._register(numbers, known)
        return handle, known

    def _run(self, handle, written, read):
        if not self.options:
            return torch.ops.torch_tpu.graph_call(handle, written, read)
        with unfused():  # a window is compiled later, without the options
            before = _C.set_options(self.options)
            try:
                return torch.ops.torch_tpu.graph_call(handle, written, read)
            finally:
                self._outer = before  # has to live as long as it is set
                _C.set_options(before)

    def __call__(self, inputs):
        if self.refused is not None:
            return self.module(*inputs)
        if self.sized and self.exact is None:
            results = self._for_all_sizes(inputs)
            if results is not None:
                return results
        handle, known = self.handle(inputs)
        try:
            new = self._run(handle, [inputs[i] for i in self.written], [inputs[i] for i in self.read])
        except NotImplementedError as e:
            self.refused = str(e)  # nothing has run: what cannot be traced is found before
            log.info("a graph runs operator by operator: %s", e)
            return self.module(*inputs)
        if self.plain:
            return new
        return [self._result(kind, x, inputs, new, known) for kind, x in self.results]

    def _for_all_sizes(self, inputs):
        try:
            return self.sized(inputs, self._run)
        except NotImplementedError as e:  # nothing has run
            if not self.sized.serves:
                self.exact = str(e)
            return None

    @staticmethod
    def _result(kind, x, inputs, new, known):
        if kind == "input":
            return inputs[x]
        if kind == "new":
            return new[x]
        if kind == "number":
            return evaluate(x, known)
        base, value, steps = x
        if steps:
            view = new[base]
            for node in steps:
                args, kwargs = torch.fx.node.map_arg(
                    (node.args[1:], node.kwargs), lambda n: evaluate(n.meta["val"], known)
                )
                view = node.target(view, *args, **kwargs)
            return view
        shape = [evaluate(s, known) for s in value.shape], [evaluate(s, known) for s in value.stride()]
        return new[base].as_strided(*shape, evaluate(value.storage_offset(), known))

    def __del__(self):
        for handle in getattr(self, "handles", {}).values():
            _C.graph_release(handle)
