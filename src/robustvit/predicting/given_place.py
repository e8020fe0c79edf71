"""Whether there is anything at all where a user says that images are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from robustvit.data.files_below import files_below
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.samples import IMAGE_SUFFIXES
from robustvit.tasks.base import Task

__all__ = ["check_place"]

EXPECTED = "give an image, a folder with images in it or below, a film, or a dataset as for eval, such as scenes:8"
_NAMED = ("scenes", "cifar10:", "cifar100:", "wds/", "hfds/")
"""How datasets begin that are no paths."""


def check_place(images: Any, task: Task) -> None:
    """Refuses a path with nothing to predict, before the layouts of datasets are tried, whose messages are about labels.

    Args:
        images: as given to `predict`; anything but a path is left to the layouts.
        task: of the network. A dense one has images as files; datasets of classes may be arrays or archives.

    Raises:
        FileNotFoundError: there is no such path.
        LayoutError: it is a folder without images.
    """
    if not isinstance(images, str | Path) or str(images).startswith(_NAMED):
        return
    path = Path(images)
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}; {EXPECTED}")
    if path.is_dir() and not any(not task.is_dense or file.suffix.lower() in IMAGE_SUFFIXES for file in files_below(path)):
        raise LayoutError(f"{path} has no images; {EXPECTED}")
