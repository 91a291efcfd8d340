"""Host parts of a graph made cheap: what an optimizer does to its counts of steps, a CPU tensor of no dims for each
parameter.

Operators over lists of such tensors become operators over one vector each, and many copies one call: a step of a model
with 28 parameters does some ten things on the host instead of 250. Values are the same but for the last bit of pow."""

import operator

import torch

aten = torch.ops.aten
FEWEST = 4  # tensors in a list that is worth a vector

_VECTOR = {
    aten._foreach_add.Scalar: torch.add,
    aten._foreach_sub.Scalar: torch.sub,
    aten._foreach_mul.Scalar: torch.mul,
    aten._foreach_div.Scalar: torch.div,
    aten._foreach_add.List: torch.add,
    aten._foreach_sub.List: torch.sub,
    aten._foreach_mul.List: torch.mul,
    aten._foreach_div.List: torch.div,
    aten._foreach_pow.Scalar: torch.pow,
    aten._foreach_pow.ScalarAndTensor: torch.pow,
    aten._foreach_neg.default: torch.neg,
    aten._foreach_reciprocal.default: torch.reciprocal,
    aten._foreach_sqrt.default: torch.sqrt,
}


class _Vectors:
    """Which nodes are numbers on the host, and the vectors that hold them."""

    def __init__(self, graph):
        self.graph, self.of = graph, {}  # of: {unbind: (vector, dtype, length)}

    def dtype(self, node):
        """Of a CPU tensor of no dims; None: it is none, or not known to be."""
        if node.op == "placeholder":
            value = node.meta.get("val")
            known = isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim() == 0
            return value.dtype if known and value.dtype.is_floating_point else None
        return self.of[node.args[0]][1] if node.target is operator.getitem and node.args[0] in self.of else None

    def holding(self, items):
        """A node that is the vector of these."""
        of = items[0].args[0] if items[0].target is operator.getitem else None
        if of in self.of and [(n.target, n.args) for n in items] == [
            (operator.getitem, (of, i)) for i in range(self.of[of][2])
        ]:
            return self.of[of][0]
        return self.graph.call_function(torch.stack, (list(items),))


def _as_vectors(graph, returned):
    vectors = _Vectors(graph)
    for node in list(graph.nodes):
        lists = [a for a in node.args if isinstance(a, (list, tuple))]
        if node.target not in _VECTOR or node.kwargs or not lists or len(lists[0]) < FEWEST:
            continue
        items = [x for a in lists for x in a]
        dtypes = {vectors.dtype(x) if isinstance(x, torch.fx.Node) else None for x in items}
        if len(dtypes) > 1 or None in dtypes or len({len(a) for a in lists}) > 1:
            continue
        if any(u in returned or u.target is not operator.getitem for u in node.users):
            continue  # what is returned has memory of its own
        with graph.inserting_before(node):
            args = tuple(vectors.holding(a) if isinstance(a, (list, tuple)) else a for a in node.args)
            vector = graph.call_function(_VECTOR[node.target], args)
            unbound = graph.call_function(torch.unbind, (vector,))
        vectors.of[unbound] = (vector, dtypes.pop(), len(lists[0]))
        node.replace_all_uses_with(unbound)
        graph.erase_node(node)


def _copies_together(graph):
    copies = [
        n for n in graph.nodes if n.target is aten.copy_.default and not n.users and not n.kwargs and len(n.args) == 2
    ]
    copies = [n for n in copies if n.args[0].op == "placeholder" and isinstance(n.args[1], torch.fx.Node)]
    if len(copies) < FEWEST:
        return
    place = {n: i for i, n in enumerate(graph.nodes)}
    targets = [n.args[0] for n in copies]
    if any(place[u] > place[copies[0]] and u not in copies for t in targets for u in t.users):
        return  # something reads what has been written
    with graph.inserting_before(graph.output_node()):
        graph.call_function(aten._foreach_copy_.default, (targets, [n.args[1] for n in copies]))
    for n in copies:
        graph.erase_node(n)


def lighten(module, returned):
    """Rewrites the graph of a host part; returned: nodes of it that the user gets."""
    _as_vectors(module.graph, returned)
    _copies_together(module.graph)
    for node in reversed(module.graph.nodes):  # only what was left over here
        if node.target in (operator.getitem, torch.unbind) and not node.users:
            module.graph.erase_node(node)
    module.recompile()
