"""Reads corrupted copies of a dataset with label maps: Cityscapes-C in both habits, and what `robustvit corrupt` wrote.

    ROOT/leftImg8bit/CORRUPTION/SEVERITY/val/CITY/NAME_leftImg8bit.png     clean images in ROOT/leftImg8bit/clean/val
    ROOT/CORRUPTION/SEVERITY/CITY/NAME_leftImg8bit.png                     clean images in ROOT/clean

Label maps are not copied. Those of Cityscapes are in ROOT/gtFine/val; those of a tree that `robustvit corrupt` wrote are found
in the dataset that it was made from, or in the folder around it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.data.copies.copying import Cell
from robustvit.data.copies.listed_names import open_list, parsed_line
from robustvit.data.files_below import files_below
from robustvit.data.label_classes import LabelClasses
from robustvit.data.map_samples import MapFile, MapFiles, named
from robustvit.data.readers.cityscapes import CITYSCAPES_NAMES, IMAGES, LABELS
from robustvit.data.readers.cityscapes_classes import CITYSCAPES
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.corrupted_images import chosen_folders, corrupted_folders
from robustvit.data.readers.map_folders import folder_maps, has_folders
from robustvit.data.readers.paired_files import is_image, ordered

__all__ = ["corrupted_maps"]

_ABOVE = 3
"""Folders between the images that were corrupted and their dataset, at most: leftImg8bit/val/CITY."""
_LOOKED_AT = 8
"""Pairs whose sizes are compared for each corruption and severity but the first."""


@dataclass(frozen=True)
class _Source:
    """The dataset that copies were made from.

    Attributes:
        files: its validation images with their label maps, by their path without suffix and ending.
        about: its classes.
        ending: of the names of images.
    """

    files: Mapping[str, MapFile]
    about: LabelClasses
    ending: str = ""

    def key_of(self, file: Path) -> str | None:
        """The key of the image that a file is a copy of, whatever folders it has in front; None if it is of no image."""
        key = file.with_suffix("").as_posix().removesuffix(self.ending)
        while key and key not in self.files:
            key = key.partition("/")[2]
        return key or None


def corrupted_maps(root: Path, names: Sequence[str], severities: Sequence[int] = SEVERITIES) -> dict[Cell, MapFiles] | None:
    """(corruption, severity) -> images with the label maps of the clean ones, in their order and with their ids.

    Args:
        root: of the tree.
        names: the corruptions.
        severities: of 1 to 5.

    Returns:
        None if `root` is no such tree.

    Raises:
        LayoutError: a corruption or severity is missing, images are missing, or there are no label maps for them.
    """
    base = next((folder for folder in (root / IMAGES, root) if corrupted_folders(folder)), None)
    if base is None:
        return None
    there = chosen_folders(base, names, severities, ".../NAME_leftImg8bit.png")
    assert there is not None
    source = _source(root, base, next(iter(there.values())))
    skipped = _skipped(base, source)
    cells: dict[Cell, MapFiles] = {}
    for cell, folder in there.items():
        files = _copies(folder, source, skipped)
        cells[cell] = MapFiles(files, str(root), source.about, ignore_orientation=True)
        cells[cell].check_sizes(_LOOKED_AT if len(cells) > 1 else None)
    return cells


def _source(root: Path, base: Path, folder: Path) -> _Source:
    """The first dataset around the tree, or that it was made from, to which the copies in a folder belong."""
    copies = [file for file in files_below(folder) if is_image(file)]
    for source in _sources(root, base):
        if any(source.key_of(file) is not None for file in copies):
            return source
    such = f"images such as {min(copies)}" if copies else "no images"
    raise LayoutError(
        f"{folder} has {such}, and there are no label maps for them; expected those of Cityscapes in {root}/{LABELS}/val, or, "
        "for what robustvit corrupt wrote, the dataset that it was made from, with its label maps, where it was then"
    )


def _sources(root: Path, base: Path) -> Iterator[_Source]:
    made_from = _made_from(base)
    for place in dict.fromkeys([root, root.parent, *made_from]):
        if (place / LABELS / "val").is_dir():
            labels = CITYSCAPES_NAMES.labels(place / LABELS / "val")
            ending = CITYSCAPES_NAMES.image
            files = {
                key: MapFile(f"{key}{ending}.png", place / IMAGES / "val" / f"{key}{ending}.png", *labels[key])
                for key in ordered(labels)
            }
            yield _Source(files, CITYSCAPES, ending)
        elif (found := _plain_dataset(place, made_from)) is not None:
            yield _Source({Path(file.id).with_suffix("").as_posix(): file for file in found.files}, found.about)


def _plain_dataset(place: Path, made_from: Sequence[Path]) -> MapFiles | None:
    """The labelled images of a plain dataset; None where there is none."""
    if place not in made_from[:1] and not has_folders(place):
        return None
    try:
        found = folder_maps(place, "val")
    except LayoutError:
        if place in made_from[1:]:  # what is wrong with the dataset that was copied is worth knowing
            raise
        return None
    return found if found.has_targets else None


def _made_from(base: Path) -> list[Path]:
    """The folder that `robustvit corrupt` was given, and those around it; none if something else wrote the tree."""
    try:
        source = Path(json.loads((base / "manifest.json").read_text())["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [folder for folder in (source, *source.parents[:_ABOVE]) if folder.is_dir()]


def _skipped(base: Path, source: _Source) -> set[str]:
    """Keys of the images that `robustvit corrupt` could not read, of which there are no copies."""
    keys = set()
    for path in base.glob("skipped-*.txt"):
        with open_list(path) as lines:
            names = [(parsed_line(line) or "").partition("\t")[0] for line in lines]
        keys |= {key for name in names if name and (key := source.key_of(Path(name))) is not None}
    return keys


def _copies(folder: Path, source: _Source, skipped: set[str]) -> list[MapFile]:
    """The copies in a folder, in the order of the images, with their ids and label maps."""
    found: dict[str, Path] = {}
    for file in files_below(folder):
        if is_image(file) and (key := source.key_of(file)) is not None:
            original = source.files[key].image
            if key not in found or _agreement(file, original) > _agreement(found[key], original):
                found[key] = file
    if missing := [file.id for key, file in source.files.items() if key not in found and key not in skipped]:
        raise LayoutError(
            f"{folder} lacks {len(missing)} of {len(source.files)} images ({named(missing)}); expected a copy of each image "
            "that has a label map. If robustvit corrupt was stopped, the same command continues it"
        )
    return [replace(file, image=folder / found[key]) for key, file in source.files.items() if key in found]


def _agreement(copy: Path, original: Path) -> int:
    """How many folders two paths have in common, from their files up: images/train/0.png is no copy of images/val/0.png."""
    count = 0
    for a, b in zip(reversed(copy.parent.parts), reversed(original.parent.parts), strict=False):
        if a != b:
            break
        count += 1
    return count
