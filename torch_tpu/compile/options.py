"""What torch.compile's mode and options may say."""

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")


def check(mode, options):
    """Raises ValueError for what is not known."""
    if mode is not None and mode not in MODES:
        raise ValueError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    unknown = [k for k in options or {} if not k.startswith("xla_")]
    if unknown:
        raise ValueError(f"options: expected names of XLA options (xla_...), got {', '.join(map(repr, unknown))}")
