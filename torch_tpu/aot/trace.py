"""A function of tensors as one StableHLO program, without memory for its tensors and without running anything.

The function runs on fake tensors of device tpu; what it does to tensors is recorded operator by operator, autograd,
optimizers and checkpointing with it (record), and the record is lowered through the table of every program (lower).
Tensors that are no arguments, parameters and optimizer state, become parameters of the program; what is written in
place is written by the program."""
import contextlib
import dataclasses
import inspect
import operator
from unittest import mock

import torch
import torch.fx.traceback as fx_traceback
from torch._prims_common import make_contiguous_strides_for
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from .. import _C
from .._internal.asked import asked_for
from .._internal.execution_mode import set_eager_mode
from .._internal.lines import Lines, note
from .._rolled import recording
from . import collectives, places, sharded


@dataclasses.dataclass
class Record:
    """One call of a function as a graph. Its placeholders stand for the tensors, named as the user's objects name
    them."""

    module: torch.fx.GraphModule
    tensors: list
    names: list


_MODE = FakeTensorMode(allow_non_fake_inputs=True)


@contextlib.contextmanager
def fake():
    """Within it tensors, and modules and optimizers made of them, are of device tpu and take no memory."""
    # What the mode has made it refers to weakly, and module.bfloat16() swaps no parameter that has weak references.
    converter = _MODE.fake_tensor_converter.meta_converter
    converter.tensor_memo = {}
    # torch draws again while any value is out of bounds: there are no values.
    with (
        _MODE,
        torch.device("tpu"),
        mock.patch("torch.nn.init._no_grad_trunc_normal_", lambda tensor, *args, **kwargs: tensor),
    ):
        yield
    converter.tensor_memo.clear()


def _is_fake(x):
    return isinstance(x, FakeTensor) and x.device.type == "tpu"


def _stand_in(mode, x):
    """A fake tensor of device tpu for a tensor."""
    if not isinstance(x, torch.Tensor) or _is_fake(x):
        return x
    with mode:
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="tpu", requires_grad=x.requires_grad)


@contextlib.contextmanager
def _counts_on_device():
    """Optimizers count their steps on the device, as in compiled code: what the host reads cannot be traced."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    def prepare(optimizer, args, kwargs):
        for group in optimizer.param_groups:
            if "capturable" in group and not group.get("fused"):
                group["capturable"] = True

    handle = register_optimizer_step_pre_hook(prepare)
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def _for_tpu():
    """Attention is what it is in programs for TPUs, unless somebody said otherwise."""
    before = torch.ops.torch_tpu.attention_wants(0)
    torch.ops.torch_tpu.attention_wants(before or 3)
    try:
        yield
    finally:
        torch.ops.torch_tpu.attention_wants(before)


def _known_modules(fn):
    """{prefix of their names: module} of the modules that a function mentions, or is."""
    if isinstance(fn, torch.nn.Module):
        return {"": fn}
    try:
        seen = inspect.getclosurevars(inspect.unwrap(fn))
    except TypeError:  # not a Python function
        return {}
    return {k + ".": v for k, v in {**seen.globals, **seen.nonlocals}.items() if isinstance(v, torch.nn.Module)}


def _known_names(modules):
    """{id of a tensor: name} of what modules hold."""
    return {
        id(sharded.local(x)): prefix + name
        for prefix, m in modules.items()
        for name, x in [*m.named_parameters(), *m.named_buffers()]
    }


def record(fn, args, meshes=()):
    """Records a call of fn(*args), a module or a function, after one more that makes what is made once (optimizer
    state). Of DTensors it has the parts of this rank; meshes: DeviceMeshes whose groups its collectives may name,
    besides regular ones."""
    module = fn if isinstance(fn, torch.nn.Module) else None
    held = [sharded.local(x) for x in (*module.parameters(), *module.buffers())] if module is not None else []
    given, spec = tree_flatten(args)
    parts = [sharded.local(x) for x in given]
    mode = next((x.fake_mode for x in [*parts, *held] if isinstance(x, FakeTensor)), _MODE)
    known = _known_modules(fn)
    sharded.refuse_hooks(known.values())
    names = _known_names(known)
    if not all(_is_fake(x) for x in held):
        stand_ins = {id(x): _stand_in(mode, x) for x in held}
        names = {id(stand_ins[i]): name for i, name in names.items()}
        state = {
            n: stand_ins[id(x)]
            for named in (module.named_parameters, module.named_buffers)
            for n, x in named(remove_duplicate=False)
        }
        fn = lambda *a: torch.func.functional_call(module, state, a)  # noqa: E731
    flat = [_stand_in(mode, x) for x in parts]

    def call(*values):
        made = fn(*tree_unflatten([sharded.wrapped_as(x, like) for x, like in zip(values, given)], spec))
        return [sharded.local(x) for x in tree_flatten(made)[0]]

    def placed(*values):
        with places.Noted():
            return call(*values)

    with mode, _counts_on_device(), recording(), _for_tpu():
        call(*flat)
        with fx_traceback.preserve_node_meta():
            graph = make_fx(placed, tracing_mode="real")(*flat)
    made = _lifted(graph, flat, names)
    _keep_apart(made.module)
    collectives.replace(made.module, collectives.Groups(meshes))
    return made


def _lifted(module, flat, known):
    """The record of a graph: its constants become placeholders, each tensor one; notes for profilers go."""
    graph, made = module.graph, {}  # id of a tensor: (its placeholder, itself, its name)
    for node in reversed(graph.nodes):
        if node.op == "call_function" and "_record_function_" in node.name:
            graph.erase_node(node)
    first = next(n for n in graph.nodes if n.op not in ("placeholder", "get_attr"))

    def stands_for(node, value, name):
        if id(value) not in made:
            with graph.inserting_before(first):
                made[id(value)] = (
                    graph.placeholder(name.replace(".", "_").replace(" ", "_")),
                    value,
                    known.get(id(value), name),
                )
        node.replace_all_uses_with(made[id(value)][0])

    for i, (node, value) in enumerate(zip(graph.find_nodes(op="placeholder"), flat)):
        if isinstance(value, torch.Tensor):
            stands_for(node, value, f"argument {i}")
        graph.erase_node(node)  # a number is a constant of the graph
    for node in graph.find_nodes(op="get_attr"):
        value = operator.attrgetter(node.target)(module)
        if isinstance(value, torch.Tensor):
            stands_for(node, value, node.target.removeprefix("_"))
            graph.erase_node(node)
    graph.set_codegen(torch.fx.graph.CodeGen())  # plain arguments, one for each placeholder
    module.recompile()
    return Record(module, [x for _, x, _ in made.values()], [name for _, _, name in made.values()])


# Operators that write arguments of which their schemas do not say so.
UNTOLD = {torch.ops.aten.native_batch_norm.default: ("running_mean", "running_var"),
          torch.ops.aten.batch_norm_update_stats.default: ("running_mean", "running_var")}


def _keep_apart(module):
    """What backward computes again (checkpointing) waits for the gradient before it: the compiler would take it for
    what forward has computed, and keep that instead."""
    from ..compile.program import root_of

    graph, before, within = module.graph, None, {}
    calls = [
        n
        for n in graph.nodes
        if n.op == "call_function" and "recompute" in n.meta and n.target is not torch.ops.aten.detach.default
    ]
    again = {n for n in calls if n.meta["recompute"]}
    writes = {
        n for n in again if n.target in UNTOLD or getattr(getattr(n.target, "_schema", None), "is_mutable", False)
    }
    written = {root_of(x) for n in writes for x in n.all_input_nodes}
    for node in calls:
        if node not in again:
            if isinstance(node.meta.get("val"), torch.Tensor):
                before = node
            within = {}  # of what is computed again: {value from outside: the same, later}
            continue
        for x in node.all_input_nodes if before is not None else ():
            tensor = x.op == "placeholder" or isinstance(x.meta.get("val"), torch.Tensor)
            if x in again or not tensor or root_of(x) in written:
                continue
            if x not in within:
                with graph.inserting_before(node):
                    within[x] = graph.call_function(torch.ops.torch_tpu.barrier.default, (x, before))
                within[x].meta.update(x.meta)
            node.replace_input_with(x, within[x])
    module.recompile()


def _written(graph):
    """The placeholders that the graph writes, through views or not."""
    from ..compile.program import root_of

    found = set()
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        untold = UNTOLD.get(node.target, ())
        if node.op != "call_function" or schema is None or not (schema.is_mutable or untold):
            continue
        for i, argument in enumerate(schema.arguments):
            if argument.name in untold or (argument.alias_info is not None and argument.alias_info.is_write):
                value = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
                for x in value if isinstance(value, (list, tuple)) else [value]:
                    if isinstance(x, torch.fx.Node):
                        found.add(root_of(x))
    return [n for n in graph.find_nodes(op="placeholder") if n in found]


def _absent(like):
    """A tensor of device tpu without memory. Nothing that reads it can run."""
    x = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device="tpu")
    _C.mark_absent(x.untyped_storage().data_ptr())
    return x


@dataclasses.dataclass
class Program:
    """StableHLO and what it is made of. Its parameters are those tensors that it writes, then the others, then the
    state of the random numbers if it draws any; its results are what fn returns, then what is written."""

    text: str
    written: list  # (name, fake tensor) of parameters
    read: list
    results: list  # fake tensors


def lower(made: Record) -> Program:
    """The program of a record, as a TPU wants it."""
    graph = made.module.graph
    nodes = graph.find_nodes(op="placeholder")
    writes = set(_written(graph))
    note(made.module)
    lines = Lines(made.module)
    at = [i for i, n in enumerate(nodes) if n in writes], [i for i, n in enumerate(nodes) if n not in writes]
    (output,) = graph.find_nodes(op="output")
    results = [n for n in output.args[0] if isinstance(n, torch.fx.Node) and n not in nodes]
    values = [n.meta["val"] for n in results]
    order = [output.args[0].index(n) for n in results]

    def trace(args):
        """Called by the native side with traced tensors: [written, read]."""
        arguments = [None] * len(nodes)
        for where, given in zip(at, args):
            for i, x in zip(where, given):
                arguments[i] = x
        with torch.no_grad():
            out = lines.run(*arguments)
        torch.ops.torch_tpu.deliver([out[k].contiguous() for k in order])

    handle = _C.graph_register(
        trace,
        [(str(v.dtype).removeprefix("torch."), tuple(v.shape), make_contiguous_strides_for(v.shape)) for v in values],
    )
    operands = [[_absent(made.tensors[i]) for i in part] for part in at]
    # what is deferred runs first; the program is made here and now, without what Debug mode checks
    try:
        with set_eager_mode("strict"):
            texts = asked_for(lambda: torch.ops.torch_tpu.graph_call(handle, *operands), for_tpu=True)
    finally:
        _C.graph_release(handle)
    named = [[(made.names[i], made.tensors[i]) for i in part] for part in at]
    return Program(texts[-1], *named, values)
