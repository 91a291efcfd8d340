"""Runs a function when a module has been imported, or now if it has been: what has to be told to parts of torch that
are slow to import and that most programs never use."""
import importlib.abc
import importlib.util
import sys

_waiting = {}  # module name -> functions of the module


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in _waiting:
            return None
        functions = _waiting.pop(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            for function in functions:
                function(module)

        spec.loader.exec_module = exec_module
        return spec


def when_imported(name: str, function) -> None:
    """function(module) is called once: as soon as the module of that name is there."""
    if name in sys.modules:
        function(sys.modules[name])
        return
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(name, []).append(function)
