"""Programs of torch.export: their StableHLO text, and files of programs that are compiled already.

A file is a zip of the exported program, as torch.export.save writes it, and of its executable, as torch_tpu.cache packs
it: who loads it asks for the same text, and so finds the executable under its name."""

import io
import os
import tempfile
import warnings
import zipfile

import torch
from torch import nn
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._pytree import tree_unflatten

from . import _C, cache
from ._internal.asked import asked_for

FORMAT = "torch_tpu export 1"
_GRAPH, _PROGRAMS, _FORMAT = "graph.pt2", "programs.tgz", "format"
_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)


def _on_tpu(ep):
    from torch.export.passes import move_to_device_pass

    if not isinstance(ep, torch.export.ExportedProgram):
        raise TypeError(f"expected what torch.export.export returned, got {type(ep).__name__}")

    return move_to_device_pass(ep.run_decompositions({}), "tpu")


def _writing(ep):
    """The graph of an exported program that writes what it changes, at its end, and returns what the model does. The
    exported graph returns both."""
    signature, graph, same = ep.graph_signature, torch.fx.Graph(), {}
    graph.graph_copy(ep.graph, same)
    places = {s.target: n for s, n in zip(signature.input_specs, ep.graph.find_nodes(op="placeholder"))}
    names = {n.name: n for n in places.values()} | {n.name: n for n in ep.graph.find_nodes(op="placeholder")}
    results = []
    for spec, node in zip(signature.output_specs, ep.graph.output_node().args[0]):
        if spec.kind in _MUTATIONS:
            at = names[spec.target] if spec.kind == OutputKind.USER_INPUT_MUTATION else places[spec.target]
            graph.call_function(torch.ops.aten.copy_.default, (same[at], same[node])).meta["val"] = at.meta["val"]
        elif spec.kind == OutputKind.USER_OUTPUT:
            results.append(same[node] if isinstance(node, torch.fx.Node) else node)
        else:
            raise NotImplementedError(f"not one program: it returns a {spec.kind.name.lower()}")
    graph.output(results)
    return torch.fx.GraphModule(ep.graph_module, graph)


def _example(ep):
    """What the graph takes: the program's own tensors, and zeros of the sizes of the example inputs."""
    values = {**ep.state_dict, **ep.constants}
    for spec, node in zip(ep.graph_signature.input_specs, ep.graph.find_nodes(op="placeholder")):
        value = node.meta["val"]
        if spec.kind != InputKind.USER_INPUT:
            yield values[spec.target]
        elif isinstance(value, torch.Tensor):
            yield torch.zeros([int(s) for s in value.shape], dtype=value.dtype, device="tpu")
        else:
            yield int(value) if isinstance(value, torch.SymInt) else value


def _take(ep, other, device):
    """Gives an exported program copies of another's tensors on a device. What was one tensor stays one (tied
    weights)."""
    known = {}

    def copied(x):
        key = x.untyped_storage()._cdata, x.storage_offset(), x.shape, x.stride(), x.dtype
        if key not in known:
            known[key] = x.detach().to(device, copy=True)
        return nn.Parameter(known[key], x.requires_grad) if isinstance(x, nn.Parameter) else known[key]

    made = [{n: copied(x) for n, x in values.items() if isinstance(x, torch.Tensor)}
            for values in (other.state_dict, other.constants)]
    ep.state_dict.update(made[0])
    ep.constants.update(made[1])
    return ep


def _read(data):
    """The exported program in a file, as it is called: tensors come from the CPU, so that none is a view of what the
    file has as one piece, which would be another program."""
    ep = torch.export.load(io.BytesIO(data))
    return _take(ep, ep, "tpu")


def _text(ep):
    """The one program that an exported program on tpu is here. Nothing is compiled or run."""
    from .compile.program import Program

    program, inputs = Program(_writing(ep)), list(_example(ep))
    try:
        texts = asked_for(lambda: program(inputs), _C.lowers_for_tpu())
    except NotImplementedError as e:
        program.refused = str(e)
    if program.refused is not None:
        raise NotImplementedError(f"not one program: {program.refused}")
    if not texts:
        raise NotImplementedError("not one program: it computes nothing")
    return texts[0]


def to_stablehlo(ep) -> str:
    """The StableHLO module of an exported program, as text.

    Its parameters are what the exported graph takes: those it writes first (buffers), then the others, in the order of
    ep.graph_signature (parameters, buffers, constants, user inputs); its results are what it writes, then what the
    model returns. Sizes that were exported as dynamic are those of the example inputs. Nothing is compiled. Raises
    NotImplementedError if the graph cannot be one program."""
    return _text(_on_tpu(ep))


class Exported:
    """An exported program on tpu, called as the model was: one execution. It writes what the model writes (buffers,
    inputs) in place; gradients do not pass through it.

    Arguments of other sizes or dtypes than were exported raise what ep.module() raises for them."""

    def __init__(self, ep):
        from .compile.program import Program

        self._ep, self._program = ep, Program(_writing(ep))

    def __call__(self, *args, **kwargs):
        inputs = list(self._ep._graph_module_flat_inputs(args, kwargs))
        with torch.no_grad():
            results = self._program(inputs)
        return tree_unflatten(results, self._ep.call_spec.out_spec)

    def state_dict(self) -> dict:
        """{name: tensor} of parameters and buffers: the tensors themselves, as the program reads and writes them."""
        return dict(self._ep.state_dict)


def save(ep, file):
    """Writes an exported program with its executable for this process's plugin to a file, which load reads.

    The executable is the one for the sizes of the example inputs. It is compiled here, unless the cache has it. Raises
    NotImplementedError if the graph cannot be one program, torch_tpu.cache.CacheError if there is no cache folder."""
    graph = io.BytesIO()
    torch.export.save(_take(_on_tpu(ep), ep, "cpu"), graph)
    program = cache.bring(_text(_read(graph.getvalue())))
    with tempfile.TemporaryDirectory() as temporary:
        packed = os.path.join(temporary, _PROGRAMS)
        cache.pack(cache.folder(), packed, only={program + ".ttx"})
        with cache.whole(file) as f, zipfile.ZipFile(f, "w") as z:
            z.writestr(_FORMAT, FORMAT)
            z.writestr(_GRAPH, graph.getvalue())
            z.write(packed, _PROGRAMS)


def load(file) -> Exported:
    """Reads what save has written: its tensors are on tpu, its executable joins this process's cache folder. Where that
    is another machine's or plugin's it is not found, and the first call compiles, as calls with other sizes do.

    A file holds machine code: load only what you trust. Raises ValueError for a file that is damaged or none of
    save's."""
    try:
        with zipfile.ZipFile(file) as z:
            if z.read(_FORMAT).decode() != FORMAT:
                raise ValueError(f"{file}: written by another version of torch_tpu.export.save")
            graph, programs = z.read(_GRAPH), z.read(_PROGRAMS)
    except (zipfile.BadZipFile, KeyError, EOFError, UnicodeDecodeError) as e:
        raise ValueError(f"{file}: damaged, or not written by torch_tpu.export.save: {e}") from None
    with tempfile.TemporaryDirectory() as temporary:
        packed = os.path.join(temporary, _PROGRAMS)
        with open(packed, "wb") as f:
            f.write(programs)
        try:
            folder = cache.folder()
        except cache.CacheError as e:
            warnings.warn(f"the program will be compiled again: {e}", stacklevel=2)
        else:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            try:
                cache.unpack(folder, packed)
            except cache.CacheError as e:
                raise ValueError(f"{file}: {e}") from None
    try:
        ep = _read(graph)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, zipfile.BadZipFile) as e:
        raise ValueError(f"{file}: damaged, or of another version of torch: {e}") from e
    return Exported(ep)
