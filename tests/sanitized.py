"""Runs pytest on the extension that `make test-tsan` or `make test-asan` built: the C core under a sanitizer, inside
Python.

Torch, Python and the plugin are not instrumented, so what is looked at is the core's own memory, on the calling
threads, on autograd's and in the workers of a DataLoader. The sanitizer's library has to be there before Python is.

  python tests/sanitized.py thread|address FOLDER [pytest arguments]         FOLDER: where the extension was built"""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys

LIBRARY = {"thread": "libtsan.so", "address": "libasan.so"}
OPTIONS = {
    # Workers are forked by a process with threads, which TSan takes only when told so; what torch locks it does not
    # see.
    "thread": "TSAN_OPTIONS=ignore_noninstrumented_modules=1:die_after_fork=0:history_size=4:exitcode=66:abort_on_error=0",
    # Python keeps memory to its end, and torch's libraries define things twice.
    "address": "ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:alloc_dealloc_mismatch=0:handle_segv=1:allow_user_segv_handler=0",
}


class Instead:
    """Finds torch_tpu._C where it was built."""

    def __init__(self, path):
        self.path = path

    def find_spec(self, name, path=None, target=None):
        if name != "torch_tpu._C":
            return None
        loader = importlib.machinery.ExtensionFileLoader(name, self.path)
        return importlib.util.spec_from_file_location(name, self.path, loader=loader)


def library(name):
    command = [os.environ.get("CC", "gcc"), f"-print-file-name={name}"]
    return os.path.realpath(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def main():
    sanitizer, folder, *arguments = sys.argv[1:]
    if sanitizer in os.environ.get("TT_SANITIZED", ""):
        (path,) = pathlib.Path(folder).glob("_C.*.so")
        sys.meta_path.insert(0, Instead(str(path)))
        os.environ.pop("LD_PRELOAD")  # programs that tests start are not Python
        import pytest
        # The sanitizer writes to the process's own stderr, which stays as it is.
        return pytest.main(["-q", "-p", "no:cacheprovider", "--capture=sys", *arguments])
    name, options = OPTIONS[sanitizer].split("=", 1)
    # C++ with it, since it looks for what throws exceptions when it starts.
    preload = f"{library(LIBRARY[sanitizer])} {library('libstdc++.so')}"
    environment = {**os.environ, "LD_PRELOAD": preload, name: options, "TT_SANITIZED": sanitizer}
    # Its shadow memory has fixed places, which a random layout of the process may take.
    return subprocess.call(["setarch", "--addr-no-randomize", sys.executable, *sys.argv], env=environment)


if __name__ == "__main__":
    sys.exit(main())
