"""Runs pytest on the extension that `make test-tsan` or `make test-asan` built: the C core under a sanitizer, inside Python.

Torch, Python and the plugin are not instrumented, so what is looked at is the core's own memory, on the calling threads, on
autograd's and in the workers of a DataLoader. The sanitizer's library has to be there before Python is.

  python tests/sanitized.py thread|address FOLDER [pytest arguments]         FOLDER: where the extension was built"""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys

LIBRARY = {"thread": "libtsan.so", "address": "libasan.so"}
OPTIONS = {
    # Workers are forked by a process with threads, which TSan takes only when told so. What it does not see of torch would be guessed at.
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
        return importlib.util.spec_from_file_location(name, self.path, loader=importlib.machinery.ExtensionFileLoader(name, self.path))


def library(sanitizer):
    found = subprocess.run([os.environ.get("CC", "gcc"), f"-print-file-name={LIBRARY[sanitizer]}"], capture_output=True, text=True).stdout.strip()
    return os.path.realpath(found)


def main():
    sanitizer, folder, *arguments = sys.argv[1:]
    if sanitizer in os.environ.get("TT_SANITIZED", ""):
        (path,) = pathlib.Path(folder).glob("_C.*.so")
        sys.meta_path.insert(0, Instead(str(path)))
        os.environ.pop("LD_PRELOAD")  # programs that tests start are not Python
        import pytest
        return pytest.main(["-q", "-p", "no:cacheprovider", *arguments])
    name, options = OPTIONS[sanitizer].split("=", 1)
    environment = {**os.environ, "LD_PRELOAD": library(sanitizer), name: options, "TT_SANITIZED": sanitizer}
    # Its shadow memory has fixed places, which a random layout of the process may take.
    return subprocess.call(["setarch", "--addr-no-randomize", sys.executable, *sys.argv], env=environment)


if __name__ == "__main__":
    sys.exit(main())
