"""Files that are there and cannot be used: named in a warning, and where somebody may miss them, kept under another name."""

from __future__ import annotations

import warnings
from itertools import count
from pathlib import Path

__all__ = ["set_aside", "warn_of_damage", "warn_unused"]


def warn_unused(path: Path, why: str, *, stacklevel: int = 2) -> None:
    """Says that a file is not used, and made again."""
    warnings.warn(f"{path} is not used, and made again: {why}", stacklevel=stacklevel + 1)


def warn_of_damage(path: Path, error: Exception, *, stacklevel: int = 2) -> None:
    """Says that a file is damaged, and made again."""
    warn_unused(path, _told(error), stacklevel=stacklevel + 1)


def set_aside(path: Path, error: Exception) -> None:
    """Renames a damaged result to NAME.damaged, or NAME.damaged-2 and so on where that is taken, and says so."""
    names = (path.with_name(f"{path.name}.damaged{'' if i == 1 else f'-{i}'}") for i in count(1))
    aside = next(name for name in names if not name.exists())
    kept = f"; what is left of it is now {aside.name}"
    try:
        path.rename(aside)
    except FileNotFoundError:  # that was the damage, or another process of this run was faster
        kept = ""
    warn_unused(path, _told(error) + kept, stacklevel=3)


def _told(error: Exception) -> str:
    return f"it is damaged ({type(error).__name__}: {error})"
