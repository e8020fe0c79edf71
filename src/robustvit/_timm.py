"""Registers our networks with timm as soon as timm is there, without importing it.

timm and torch take seconds to import; `import robustvit` and `robustvit --help` need neither. So our networks are registered
at once where timm has been imported already, and otherwise right after whoever imports it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["register_with_timm"]


class _AfterTimm(MetaPathFinder):
    """Finds timm like everyone else, and wraps its loader so that our networks are imported after it.

    It stays until that has happened: a mere `find_spec("timm")`, or an import of timm that fails, changes nothing.
    """

    searching = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "timm" or self.searching:
            return None
        self.searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(spec.loader)
        return spec


class _Registering(Loader):
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _AfterTimm)]
        importlib.import_module("robustvit.models")


def register_with_timm() -> None:
    """Makes `timm.create_model` know our networks, now or when timm is imported."""
    if "timm" in sys.modules:
        importlib.import_module("robustvit.models")
    elif not any(isinstance(finder, _AfterTimm) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterTimm())
