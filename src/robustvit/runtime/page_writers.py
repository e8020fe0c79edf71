"""Who draws the pages and figures of results.

Results, analyses, training runs and sweeps are saved together with a page or a figure, but do not import the code that draws
it: the package registers the writers of its `report` room here, by name, and they are imported when the first page is written.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["page_writer", "register_page_writer"]

_WRITERS: dict[str, str] = {}


def register_page_writer(kind: str, home: str) -> None:
    """Registers the function that draws a kind of page.

    Args:
        kind: "results", "analysis", "training" or "sweep".
        home: "package.module:function".
    """
    _WRITERS[kind] = home


def page_writer(kind: str) -> Callable[..., Any]:
    """The registered function."""
    module, _, function = _WRITERS[kind].partition(":")
    return getattr(importlib.import_module(module), function)
