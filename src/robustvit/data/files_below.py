"""The files of a dataset, whatever folders they are in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["files_below"]


def files_below(source: Path) -> Iterator[Path]:
    """Files below a folder, relative to it; hidden ones are none of the dataset's."""
    seen: set[str] = set()  # links may lead in circles
    for folder, folders, names in os.walk(source, followlinks=True):
        folders[:] = [n for n in folders if not n.startswith(".")]
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        yield from (Path(folder, name).relative_to(source) for name in names if not name.startswith("."))
