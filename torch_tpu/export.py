"""Programs of torch.export: their StableHLO text."""
import torch

from . import _C
from ._internal.execution_mode import unfused


def to_stablehlo(ep) -> str:
    """The StableHLO module of an exported program, as text.

    Its parameters are what the exported graph takes: those it writes first (buffers), then the others, in the order of
    ep.graph_signature (parameters, buffers, constants, user inputs); its results are the graph's, then what it writes.
    Sizes that were exported as dynamic are those of the example inputs. Nothing is compiled. Raises NotImplementedError
    if the graph cannot be one program."""
    from torch.export.passes import move_to_device_pass

    from .compile.program import Program

    ep = move_to_device_pass(ep.run_decompositions({}), "tpu")
    module = ep.graph_module
    values = {**ep.state_dict, **ep.constants}
    inputs = []
    for spec, node in zip(ep.graph_signature.input_specs, module.graph.find_nodes(op="placeholder")):
        value = node.meta["val"]
        if spec.target is not None:
            inputs.append(values[spec.target])
        elif isinstance(value, torch.Tensor):
            inputs.append(torch.zeros([int(s) for s in value.shape], dtype=value.dtype, device="tpu"))
        else:
            inputs.append(int(value) if isinstance(value, torch.SymInt) else value)
    program = Program(module)
    with unfused():  # what is deferred runs first
        _C.show_programs(True)
        try:
            program(inputs)
        except RuntimeError:
            if program.refused is not None:
                raise
        finally:
            texts = _C.shown_programs()
    if program.refused is not None:
        raise NotImplementedError(f"not one program: {program.refused}")
    return texts[0]
