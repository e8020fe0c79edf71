"""Who registers measures besides the table of measures itself.

Attacks register the measures of their results in their own files, which stand above the table and are imported late. The
package names such rooms here, and they are imported when all measures are listed, or when one is not there yet.
"""

from __future__ import annotations

import importlib

__all__ = ["import_measure_homes", "register_measure_home"]

_WAITING: list[str] = []


def register_measure_home(function: str) -> None:
    """Names a function whose call registers measures.

    Args:
        function: "package.module:function".
    """
    _WAITING.append(function)


def import_measure_homes() -> None:
    """Calls the functions that were not called yet."""
    while _WAITING:
        module, _, function = _WAITING.pop(0).partition(":")
        getattr(importlib.import_module(module), function)()
