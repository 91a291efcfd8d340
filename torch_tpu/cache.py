"""The folder of compiled programs, from the command line: python -m torch_tpu.cache --help.

A program is a file that is named by a digest of its text, the plugin, the compiler's options and the kind of CPU, so a
cache serves every process, and every machine of the same kind. pack makes one file of it, unpack adds such a file to
another cache: all of it or, where anything is damaged, nothing. Programs are machine code: unpack only what you
trust."""
import argparse
import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import tempfile
import time

from . import _C

ENTRY = re.compile(r"[0-9a-f]{32}\.ttx")
MANIFEST, FORMAT = "manifest.json", "torch_tpu cache 1"


class CacheError(Exception):
    """What the command line tells in one line."""


def folder(shared=False) -> str:
    """Where this process keeps compiled programs. CacheError if nowhere."""
    path = _C.cache_folder(shared)
    if path is None:
        raise CacheError(
            "no shared folder: TORCH_TPU_CACHE_SHARED is not set"
            if shared
            else "no cache folder: TORCH_TPU_CACHE is 0, or the folder is not one that only this user may write"
        )
    return path


def entries(path) -> list:
    """(name, bytes, time of the last use) of each program in a folder, the last used first."""
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(path) as files:
        for f in files:
            if ENTRY.fullmatch(f.name):
                with contextlib.suppress(FileNotFoundError):  # another process has dropped it
                    st = f.stat(follow_symlinks=False)
                    found.append((f.name, st.st_size, st.st_mtime))
    return sorted(found, key=lambda e: -e[2])


def names(path) -> dict:
    """The operator that each program was first compiled for, as far as it is known."""
    known = {}
    with contextlib.suppress(OSError), open(os.path.join(path, "names"), errors="replace") as f:
        for line in f:
            digest, _, name = line.rstrip("\n").partition(" ")
            known.setdefault(digest + ".ttx", name)
    return known


@contextlib.contextmanager
def _alone(path):
    """Keeps other processes from evicting meanwhile."""
    with open(os.open(os.path.join(path, "lock"), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600), "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def holds(path, program) -> bool:
    """Whether the folder has the whole program of that name (_C.cache_key)."""
    return _C.cache_check(os.path.join(path, program + ".ttx"))


def bring(text) -> str:
    """Has the program of a text in this process's folder, compiled for its device; returns its name there. CacheError:
    it could not be written."""
    path = folder()
    _C.cache_bring(text)
    program = _C.cache_key(text)
    if not holds(path, program):
        raise CacheError(f"{path}: the program was compiled, but could not be written there: {program}")
    return program


def stats(path) -> dict:
    """folder, programs, bytes, oldest and newest use (seconds since 1970), unfinished files of writers."""
    all_ = entries(path)
    return {
        "folder": path,
        "programs": len(all_),
        "bytes": sum(e[1] for e in all_),
        "newest_use": all_[0][2] if all_ else None,
        "oldest_use": all_[-1][2] if all_ else None,
        "unfinished": sum(n.endswith(".tmp") for n in os.listdir(path)),
    }


def prune(path, bytes=None, days=None) -> list:
    """Removes the programs not used for so many days, then the least recently used ones until at most bytes remain, and
    what writers that died an hour ago have left. Returns the names of the programs removed."""
    gone, now = [], time.time()
    with _alone(path):
        left = entries(path)
        total = sum(e[1] for e in left)
        for name, size, used in reversed(left):
            if (days is not None and now - used > days * 86400) or (bytes is not None and total > bytes):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(path, name))
                gone.append(name)
                total -= size
        for name in os.listdir(path):
            full = os.path.join(path, name)
            with contextlib.suppress(FileNotFoundError):
                if name.endswith(".tmp") and now - os.lstat(full).st_mtime > 3600:
                    os.unlink(full)
    return gone


def verify(path, remove=False) -> list:
    """The names of programs that are damaged; with remove they are deleted."""
    bad = [
        name
        for name, _, _ in entries(path)
        if not _C.cache_check(os.path.join(path, name)) and os.path.lexists(os.path.join(path, name))
    ]
    for name in bad if remove else ():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(path, name))
    return bad


def _add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


@contextlib.contextmanager
def whole(file):
    """A binary file to write, which is there under its name once all of it is written, or not at all."""
    handle, unfinished = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(file)), suffix=".tmp")
    try:
        with open(handle, "wb") as f:
            yield f
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, file)
    except BaseException:
        os.unlink(unfinished)
        raise


def pack(path, file, only=None) -> int:
    """Writes all whole programs of a folder, or only those named, to file; returns how many. The file is there when it
    is complete, or not at all."""
    known, listed = names(path), {}
    with whole(file) as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as tar:
        for name in [n for n, _, _ in entries(path)] if only is None else sorted(only):
            with contextlib.suppress(FileNotFoundError), open(os.path.join(path, name), "rb") as f:
                data = f.read()
                if _C.cache_check(os.path.join(path, name)):
                    _add(tar, name, data)
                    listed[name] = {
                        "sha256": hashlib.sha256(data).hexdigest(),
                        "bytes": len(data),
                        "name": known.get(name, ""),
                    }
        _add(tar, MANIFEST, json.dumps({"format": FORMAT, "programs": listed}).encode())
    return len(listed)


def _read_pack(file, into):
    """Puts the programs of a pack in a folder of their own, checked; returns the manifest's list of them."""
    with tarfile.open(file, "r:gz") as tar:
        sums, manifest = {}, None
        for member in tar:
            if not member.isfile() or not (member.name == MANIFEST or ENTRY.fullmatch(member.name)):
                raise CacheError(f"{file}: not a packed cache: it holds {member.name!r}")
            data = tar.extractfile(member).read()
            if member.name == MANIFEST:
                manifest = json.loads(data)
                continue
            sums[member.name] = hashlib.sha256(data).hexdigest()
            with open(os.open(os.path.join(into, member.name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as f:
                f.write(data)
    if manifest is None or manifest.get("format") != FORMAT:
        raise CacheError(f"{file}: not a whole packed cache: its list of programs is missing or of another version")
    listed = manifest["programs"]
    for name in sums.keys() | listed.keys():
        if (
            name not in sums
            or name not in listed
            or sums[name] != listed[name]["sha256"]
            or not _C.cache_check(os.path.join(into, name))
        ):
            raise CacheError(f"{file}: damaged: {name}")
    return listed


def unpack(path, file, mode=0o600) -> int:
    """Adds the programs of a pack to a folder; returns how many are new there. CacheError if the pack is damaged or is
    none: then nothing is added."""
    have = {name for name, _, _ in entries(path)}
    with tempfile.TemporaryDirectory(dir=path, prefix="unpack-") as into:
        try:
            listed = _read_pack(file, into)
        except FileNotFoundError:
            raise CacheError(f"{file}: no such file") from None
        except (tarfile.TarError, EOFError, OSError, ValueError, KeyError, TypeError, AttributeError) as e:
            raise CacheError(f"{file}: damaged, or not a packed cache: {e}") from None
        fresh = sorted(listed.keys() - have)
        for name in fresh:
            os.chmod(os.path.join(into, name), mode)
            os.replace(os.path.join(into, name), os.path.join(path, name))
        with open(os.path.join(path, "names"), "a") as f:
            f.writelines(f"{name[:32]} {listed[name]['name']}\n" for name in fresh if listed[name].get("name"))
    return len(fresh)


def _mebibytes(n):
    return f"{n / 2**20:.1f} MiB"


def _when(t):
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(t)) if t else "-"


def main(arguments=None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m torch_tpu.cache", description=__doc__.splitlines()[0])
    parser.add_argument("--dir", help="the folder; TORCH_TPU_CACHE_DIR or its default if not given")
    parser.add_argument("--shared", action="store_true", help="the folder of TORCH_TPU_CACHE_SHARED")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("ls", help="programs, the last used first: digest, bytes, last use, operator")
    commands.add_parser("stats", help="how many programs, how large, how old")
    p = commands.add_parser("prune", help="removes programs, the least recently used first")
    p.add_argument(
        "--bytes",
        type=int,
        help="until at most so many bytes remain; TORCH_TPU_CACHE_BYTES or 4 GiB if neither is given",
    )
    p.add_argument("--days", type=float, help="those not used for so many days")
    p = commands.add_parser("verify", help="names damaged programs; the exit status tells whether there are any")
    p.add_argument("--remove", action="store_true", help="and removes them")
    commands.add_parser("pack", help="writes all programs to one file").add_argument("file")
    commands.add_parser("unpack", help="adds the programs of such a file").add_argument("file")
    args = parser.parse_args(arguments)
    try:
        path = args.dir or folder(args.shared)
        if not os.path.isdir(path):
            raise CacheError(f"{path}: no such folder")
        return _run(args, path)
    except (CacheError, OSError) as e:
        print(f"torch_tpu.cache: {e}", file=sys.stderr)
        return 2


def _run(args, path):
    if args.command == "ls":
        known = names(path)
        for name, size, used in entries(path):
            print(f"{name[:32]} {size:>10} {_when(used)} {known.get(name, '')}".rstrip())
    elif args.command == "stats":
        s = stats(path)
        print(
            f"folder      {s['folder']}\nprograms    {s['programs']}\nsize        {_mebibytes(s['bytes'])}\nlast use    {_when(s['newest_use'])}\n"
            f"oldest use  {_when(s['oldest_use'])}\nunfinished  {s['unfinished']}"
        )
    elif args.command == "prune":
        bound = args.bytes
        if bound is None and args.days is None:
            bound = int(os.environ.get("TORCH_TPU_CACHE_BYTES") or 4 << 30)
        print(f"{len(prune(path, bound, args.days))} programs removed, {len(entries(path))} left")
    elif args.command == "verify":
        bad = verify(path, args.remove)
        for name in bad:
            print(f"damaged{' and removed' if args.remove else ''}: {name}")
        print(f"{len(entries(path))} programs, {len(bad)} damaged")
        return 1 if bad else 0
    elif args.command == "pack":
        print(f"{pack(path, args.file)} programs in {args.file}, {_mebibytes(os.path.getsize(args.file))}")
    elif args.command == "unpack":
        print(f"{unpack(path, args.file, 0o644 if args.shared else 0o600)} new programs in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
