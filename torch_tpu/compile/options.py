"""What torch.compile's mode and options may say."""

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")


def check(mode, options):
    """What compiled graphs depend on besides the graph, for caches. Raises ValueError for what is not known."""
    if mode is not None and mode not in MODES:
        raise ValueError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    unknown = [k for k in options or {} if not k.startswith("xla_") and k != "buckets"]
    if unknown:
        raise ValueError(
            f"options: expected names of XLA options (xla_...), buckets or step, got {', '.join(map(repr, unknown))}"
        )
    sizes = (options or {}).get("buckets", ())
    if not isinstance(sizes, (list, tuple)) or not all(isinstance(n, int) and n > 0 for n in sizes):
        raise ValueError(f"options: expected positive integers for buckets, got {sizes!r}")
    from .. import __version__

    return f"torch_tpu {__version__} {sorted((options or {}).items())}"


def text(options):
    """Options as the native side takes them: "name=value,name=value"."""
    if not options:
        return None
    buckets = {"buckets": ":".join(map(str, options["buckets"]))} if "buckets" in options else {}
    options = {**options, **buckets}
    for name, value in options.items():
        if not isinstance(value, (bool, int, float, str)) or "," in str(value):
            raise ValueError(f"options: expected a number, a bool or a string for {name}, got {value!r}")
    return ",".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in options.items())


def parts(text):
    """Of the above: what is for XLA, or None, and the capacities that graphs with dynamic sizes are compiled for."""
    each = text.split(",") if text else []
    buckets = [int(n) for t in each if t.startswith("buckets=") for n in t.split("=")[1].split(":") if n]
    return ",".join(t for t in each if not t.startswith("buckets=")) or None, buckets
