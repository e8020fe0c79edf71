"""Copies of images and the images that they were made from, whatever folders and suffixes the copies have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from robustvit.data.copies.listed_names import open_list, parsed_line
from robustvit.data.files_below import files_below
from robustvit.data.map_samples import MapFile, named
from robustvit.data.object_samples import ObjectFile
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.paired_files import is_image

__all__ = ["Originals", "made_from"]

_ABOVE = 3
"""Folders between the images that were corrupted and their dataset, at most: leftImg8bit/val/CITY."""
File = TypeVar("File", MapFile, ObjectFile)


@dataclass(frozen=True)
class Originals(Generic[File]):
    """The images of a dataset that copies were made from.

    Attributes:
        files: by their path without suffix and ending.
        ending: of the names of images.
    """

    files: Mapping[str, File]
    ending: str = ""

    def key_of(self, file: Path) -> str | None:
        """The key of the image that a file is a copy of, whatever folders it has in front; None if it is of no image."""
        key = file.with_suffix("").as_posix().removesuffix(self.ending)
        while key and key not in self.files:
            key = key.partition("/")[2]
        return key or None

    def skipped(self, root: Path) -> set[str]:
        """Keys of the images that `robustvit corrupt` could not read when it wrote `root`, of which there are no copies."""
        keys = set()
        for path in root.glob("skipped-*.txt"):
            with open_list(path) as lines:
                names = [(parsed_line(line) or "").partition("\t")[0] for line in lines]
            keys |= {key for name in names if name and (key := self.key_of(Path(name))) is not None}
        return keys

    def copies(self, folder: Path, skipped: set[str], such: str) -> list[File]:
        """The images with the files of their copies in a folder.

        Args:
            folder: of the copies.
            skipped: keys of images of which there are none.
            such: which images must have a copy, for the message: "that has a label map".

        Raises:
            LayoutError: copies are missing.
        """
        found: dict[str, Path] = {}
        for file in files_below(folder):
            if is_image(file) and (key := self.key_of(file)) is not None:
                original = self.files[key].image
                if key not in found or _agreement(file, original) > _agreement(found[key], original):
                    found[key] = file
        if missing := [file.id for key, file in self.files.items() if key not in found and key not in skipped]:
            raise LayoutError(
                f"{folder} lacks {len(missing)} of {len(self.files)} images ({named(missing)}); expected a copy of each image "
                f"{such}. If robustvit corrupt was stopped, the same command continues it"
            )
        return [replace(file, image=folder / found[key]) for key, file in self.files.items() if key in found]


def made_from(root: Path) -> list[Path]:
    """The folder that `robustvit corrupt` was given, and those around it; none if something else wrote `root`."""
    try:
        source = Path(json.loads((root / "manifest.json").read_text())["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [folder for folder in (source, *source.parents[:_ABOVE]) if folder.is_dir()]


def _agreement(copy: Path, original: Path) -> int:
    """How many folders two paths have in common, from their files up: images/train/0.png is no copy of images/val/0.png."""
    count = 0
    for a, b in zip(reversed(copy.parent.parts), reversed(original.parent.parts), strict=False):
        if a != b:
            break
        count += 1
    return count
