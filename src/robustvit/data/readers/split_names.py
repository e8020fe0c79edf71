"""What splits are called in the names of files and folders of detection datasets."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

__all__ = ["SPLIT_NAMES", "chosen_split", "split_folders", "split_of"]

SPLIT_NAMES = {"train": ("train", "training"), "val": ("val", "valid", "validation"), "test": ("test", "testing")}
"""Split -> its names."""


def split_of(name: str) -> str:
    """The split that the name of a file or folder tells: "instances_val2017" -> "val"; "" where it tells none, or several."""
    words = set(re.findall(r"[a-z]+", name.lower()))
    found = [split for split, names in SPLIT_NAMES.items() if words & set(names)]
    return found[0] if len(found) == 1 else ""


def split_folders(path: Path) -> dict[str, Path]:
    """Split -> the folder in `path` that has one of its names."""
    return {
        split: folder for split, names in SPLIT_NAMES.items() for name in reversed(names) if (folder := path / name).is_dir()
    }


def chosen_split(there: Collection[str], split: str) -> str | None:
    """The split that is read when "train", "val" or "test" is asked for; None where it is missing.

    "val" and "test" are val, or test where there is no val, because the annotations of test images are rarely public. What
    has no splits, and so the split "", is read for all of them.
    """
    wanted = ("train", "") if split == "train" else ("val", "test", "")
    return next((name for name in wanted if name in there), None)
