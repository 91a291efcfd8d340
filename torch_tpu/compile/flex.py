"""FlexAttention in a captured graph: the operators that it stands for, as torch's own reference has them, so that score
and mask functions are parts of the program like everything else.

That reference applies these functions element by element through vmap, which a graph that is being lowered cannot: what
it does is recorded on fake tensors, once, where the graph is captured."""

import importlib
import operator

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

# As torch.ops.higher_order names them: what they do, of the module that defines them.
_DENSE = {"flex_attention": "sdpa_dense", "flex_attention_backward": "sdpa_dense_backward"}


def inline(module):
    """Replaces the FlexAttention operators of a graph module, in place."""
    found = [
        n
        for n in module.graph.nodes
        if isinstance(n.target, torch._ops.HigherOrderOperator) and n.target.name() in _DENSE
    ]
    for node in found:
        _replace(module, node)
    if found:
        module.graph.eliminate_dead_code()
        module.recompile()


def _recorded(module, node):
    """What the node does as a graph module, and the nodes that are its inputs."""
    dense = getattr(importlib.import_module("torch._higher_order_ops.flex_attention"), _DENSE[node.target.name()])
    flat, spec = pytree.tree_flatten((node.args, node.kwargs))

    def known(x):
        if not isinstance(x, torch.fx.Node):
            return x
        return operator.attrgetter(x.target)(module) if x.op == "get_attr" else x.meta["val"]

    wanted = _with_gradients(node)
    values = [known(x) for x in flat]
    at = [i for i, x in enumerate(values) if isinstance(x, torch.Tensor)]

    def call(*tensors):
        given = list(values)
        for i, x in zip(at, tensors):
            given[i] = x
        args, kwargs = pytree.tree_unflatten(given, spec)
        return dense(*args, **kwargs)

    tensors = [values[i] for i in at]
    mode = next(x.fake_mode for x in tensors if hasattr(x, "fake_mode"))
    with mode, torch.no_grad():
        tensors = [x.detach().requires_grad_() if flat[i] in wanted else x for i, x in zip(at, tensors)]
        return make_fx(call)(*tensors), [flat[i] for i in at]


def _with_gradients(node):
    """What a score function captures and the graph wants gradients of: torch's reference asks the tensors for that."""
    if node.target.name() != "flex_attention_backward":
        return set()
    captured = node.args[12]  # score_mod_other_buffers
    lists = [u for u in node.users if u.args[1] == 3]
    return {captured[u.args[1]] for of in lists for u in of.users if u.users}


def _replace(module, node):
    made, inputs = _recorded(module, node)
    same = dict(zip(made.graph.find_nodes(op="placeholder"), inputs))
    for constant in made.graph.find_nodes(op="get_attr"):
        _fill(made, constant, node)
    with module.graph.inserting_before(node):
        results = module.graph.graph_copy(made.graph, same)
    for copy in same.values():
        if copy not in inputs:
            copy.meta.update({k: v for k, v in node.meta.items() if k not in copy.meta})
    _deliver(node, results)


def _fill(made, constant, node):
    """A number that the reference writes as a tensor is an operator of the graph instead."""
    value = operator.attrgetter(constant.target)(made)
    if not isinstance(value, torch.Tensor) or value.dim():
        raise NotImplementedError(f"{node.target.name()} with a constant of several elements")
    for lifted in list(constant.users):
        known = lifted.meta["val"]
        with torch.utils._python_dispatch._disable_current_modes():
            number = value.item()
        with made.graph.inserting_before(lifted):
            full = made.graph.call_function(
                torch.ops.aten.full.default,
                ([], number),
                {"dtype": value.dtype, "device": torch.device("tpu"), "pin_memory": False},
            )
        with known.fake_mode:
            full.meta["val"] = torch.full([], 0, dtype=value.dtype, device="tpu")
        lifted.replace_all_uses_with(full)
        made.graph.erase_node(lifted)
    made.graph.erase_node(constant)


def _deliver(node, results):
    """The users of a node of several results, and of those that are several again, get them."""
    for user in list(node.users):
        result = results[user.args[1]]
        if isinstance(result, (tuple, list)):
            _deliver(user, result)
            continue
        user.replace_all_uses_with(result)
        node.graph.erase_node(user)
    node.graph.erase_node(node)
