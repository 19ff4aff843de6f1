"""Put on PYTHONPATH of an examined Python: its torch_npu computes on the CPU as soon as it is imported."""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

OPERATORS = os.path.join(os.path.dirname(__file__), "..", "..", "fake_cann", "operators.py")


class _Installing(importlib.abc.Loader):
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        spec = importlib.util.spec_from_file_location("fake_npu_operators", OPERATORS)
        operators = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = operators
        spec.loader.exec_module(operators)
        operators.install()


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch_npu":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            spec.loader = _Installing(spec.loader)
        return spec


sys.meta_path.insert(0, _Finder())
