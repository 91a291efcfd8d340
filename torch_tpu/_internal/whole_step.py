"""torch.compile(step, options={"step": True}): a whole training step as one program (torch_tpu/step), where it can be
one, and Dynamo's graphs where not.

A backend of torch.compile is given graphs, and Dynamo breaks a step into several of these; so the function is taken
where Dynamo would get it."""
import functools


def _asks(backend):
    """Whether torch.compile's backend object is one of ours with the option, which is taken out of its options."""
    function = getattr(backend, "compiler_fn", None)
    given = getattr(backend, "kwargs", {}).get("options") or {}
    if (
        not isinstance(given, dict)
        or "step" not in given
        or not getattr(function, "__module__", "").startswith("torch_tpu.")
    ):
        return False
    if not isinstance(given["step"], bool):
        raise ValueError(f"options: expected a bool for step, got {given['step']!r}")
    others = {key: value for key, value in given.items() if key != "step"}
    if given["step"] and others:
        raise ValueError(f"options: step goes with no other option, got {', '.join(map(repr, others))}")
    del backend.kwargs["options"]
    if others:
        backend.kwargs["options"] = others
    return given["step"]


def register(dynamo):
    """dynamo: torch._dynamo, whose optimize() torch.compile calls."""
    optimize = dynamo.optimize

    @functools.wraps(optimize)
    def of_graphs_or_steps(*args, **kwargs):
        asks = _asks(kwargs.get("backend", args[0] if args else None))
        context = optimize(*args, **kwargs)
        if not asks or not hasattr(context, "callback"):  # compiling is turned off
            return context
        if kwargs.get("dynamic"):
            raise ValueError("options: a step has a program for each shape of its arguments, and no dynamic sizes")
        from ..step import CompiledStep

        return lambda fn: CompiledStep(fn, kwargs.get("nopython", False), context(fn))

    dynamo.optimize = of_graphs_or_steps
