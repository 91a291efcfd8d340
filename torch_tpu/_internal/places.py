"""Which source files are the user's."""
import functools
import pathlib
import sysconfig

import torch

_LIBRARIES = tuple(str(p) for p in (pathlib.Path(torch.__file__).parent, pathlib.Path(__file__).parents[1]))
_STANDARD = sysconfig.get_path("stdlib") + "/"
# What torch itself calls. Packages that use torch (transformers) are the user's.
_NEEDED = tuple(
    f"/site-packages/{name}" for name in ("typing_extensions.py", "sympy/", "mpmath/", "numpy/", "networkx/", "jinja2/")
)


@functools.lru_cache(4096)
def is_users(file):
    """Whether a source file is none of torch's, of ours, or of what Python and torch bring along."""
    if file.startswith(_LIBRARIES) or file.startswith("<"):
        return False
    return not (file.startswith(_STANDARD) and "/site-packages/" not in file) and not any(
        name in file for name in _NEEDED
    )
