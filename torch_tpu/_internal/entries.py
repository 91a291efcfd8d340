"""JSON on disk, one file for each entry, in folders beside the programs: docs/caching.md.

Trouble with the disk is nobody's: what cannot be read is not there, what cannot be written is not kept. Readers see a
whole entry or none."""
import contextlib
import json
import os
import tempfile

from .. import _C


def folder(kind):
    """The folder of a kind of entries, which only this user may write; None where nothing is kept on disk."""
    root = _C.cache_folder(False)
    return os.path.join(root, kind) if root else None


def load(path, read):
    """read(the entry), or None; also where read raises what a malformed entry makes it raise. It counts as used."""
    try:
        with open(path) as f:
            made = read(json.load(f))
        os.utime(path)
        return made
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def save(path, make, most):
    """Keeps make(), of what JSON has, and of the folder's entries the `most` that were used last."""
    inside = os.path.dirname(path)
    with contextlib.suppress(OSError, TypeError, ValueError, NotImplementedError):
        text = json.dumps(make())
        os.makedirs(inside, mode=0o700, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=inside)
        try:
            with os.fdopen(fd, "w") as f:
                f.write(text)
            os.replace(temporary, path)
        except OSError:
            os.remove(temporary)
            raise
        kept = sorted((e.stat().st_mtime, e.path) for e in os.scandir(inside))
        for _, old in kept[: max(0, len(kept) - most)]:
            os.remove(old)
