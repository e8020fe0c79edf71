"""timm's augmentations with our randomness.

timm draws from the generators that all of Python and NumPy share. Augmentation runs in a thread beside the network, where
others may draw at any moment, so seeding those would neither be repeatable nor leave the others alone. Here a timm module is
loaded a second time, under no name, with generators of its own: one set a thread, seeded for every sample.
"""

from __future__ import annotations

import importlib.util
import random
import threading
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["keyed_copy", "reseed"]


class _Generators(threading.local):
    def __init__(self) -> None:
        self.key = 0
        self.python = random.Random(0)
        self.numpy = np.random.RandomState(0)
        self.is_numpy_seeded = False


_GENERATORS = _Generators()


class _PythonRandom:
    """What the module `random` is to timm."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_GENERATORS.python, name)


class _NumpyRandom:
    """What `numpy.random` is to timm; seeded when it is first drawn from, because few samples do."""

    def __getattr__(self, name: str) -> Any:
        if not _GENERATORS.is_numpy_seeded:
            _GENERATORS.numpy.seed([_GENERATORS.key >> 32, _GENERATORS.key & 0xFFFFFFFF])
            _GENERATORS.is_numpy_seeded = True
        return getattr(_GENERATORS.numpy, name)


class _Numpy:
    random = _NumpyRandom()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def reseed(key: int) -> random.Random:
    """Starts the generators of this thread anew from a 64-bit key; returns that of Python, for further draws."""
    _GENERATORS.key = key
    _GENERATORS.python.seed(key)
    _GENERATORS.is_numpy_seeded = False
    return _GENERATORS.python


@lru_cache
def keyed_copy(name: str) -> ModuleType:
    """A second `timm.data.NAME`, whose `random` and `np.random` are the generators that `reseed` starts."""
    spec = importlib.util.find_spec(f"timm.data.{name}")
    if spec is None or spec.loader is None:
        raise ImportError(f"timm has no module timm.data.{name}; install timm 1.0.30 or later")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module).update({key: ours for key, ours in (("random", _PythonRandom()), ("np", _Numpy())) if key in vars(module)})
    return module
