"""Reads corrupted copies of a dataset with label maps: Cityscapes-C in both habits, and what `robustvit corrupt` wrote.

    ROOT/leftImg8bit/CORRUPTION/SEVERITY/val/CITY/NAME_leftImg8bit.png     clean images in ROOT/leftImg8bit/clean/val
    ROOT/CORRUPTION/SEVERITY/CITY/NAME_leftImg8bit.png                     clean images in ROOT/clean

Label maps are not copied. Those of Cityscapes are in ROOT/gtFine/val; those of a tree that `robustvit corrupt` wrote are found
in the dataset that it was made from, or in the folder around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.data.copies.copying import Cell
from robustvit.data.files_below import files_below
from robustvit.data.label_classes import LabelClasses
from robustvit.data.map_samples import MapFile, MapFiles
from robustvit.data.readers.cityscapes import CITYSCAPES_NAMES, IMAGES, LABELS
from robustvit.data.readers.cityscapes_classes import CITYSCAPES
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.copied_images import Originals, made_from
from robustvit.data.readers.corrupted_images import chosen_folders, corrupted_folders
from robustvit.data.readers.map_folders import folder_maps, has_folders
from robustvit.data.readers.paired_files import is_image, ordered

__all__ = ["corrupted_maps"]

_LOOKED_AT = 8
"""Pairs whose sizes are compared for each corruption and severity but the first."""


@dataclass(frozen=True)
class _Source:
    """The dataset that copies were made from: its validation images with their label maps, and its classes."""

    images: Originals[MapFile]
    about: LabelClasses


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
    skipped = source.images.skipped(base)
    cells: dict[Cell, MapFiles] = {}
    for cell, folder in there.items():
        files = source.images.copies(folder, skipped, "that has a label map")
        cells[cell] = MapFiles(files, str(root), source.about, ignore_orientation=True)
        cells[cell].check_sizes(_LOOKED_AT if len(cells) > 1 else None)
    return cells


def _source(root: Path, base: Path, folder: Path) -> _Source:
    """The first dataset around the tree, or that it was made from, to which the copies in a folder belong."""
    copies = [file for file in files_below(folder) if is_image(file)]
    for source in _sources(root, base):
        if any(source.images.key_of(file) is not None for file in copies):
            return source
    such = f"images such as {min(copies)}" if copies else "no images"
    raise LayoutError(
        f"{folder} has {such}, and there are no label maps for them; expected those of Cityscapes in {root}/{LABELS}/val, or, "
        "for what robustvit corrupt wrote, the dataset that it was made from, with its label maps, where it was then"
    )


def _sources(root: Path, base: Path) -> Iterator[_Source]:
    origins = made_from(base)
    for place in dict.fromkeys([root, root.parent, *origins]):
        if (place / LABELS / "val").is_dir():
            labels = CITYSCAPES_NAMES.labels(place / LABELS / "val")
            ending = CITYSCAPES_NAMES.image
            files = {
                key: MapFile(f"{key}{ending}.png", place / IMAGES / "val" / f"{key}{ending}.png", *labels[key])
                for key in ordered(labels)
            }
            yield _Source(Originals(files, ending), CITYSCAPES)
        elif (found := _plain_dataset(place, origins)) is not None:
            yield _Source(Originals({Path(file.id).with_suffix("").as_posix(): file for file in found.files}), found.about)


def _plain_dataset(place: Path, origins: Sequence[Path]) -> MapFiles | None:
    """The labelled images of a plain dataset; None where there is none."""
    if place not in origins[:1] and not has_folders(place):
        return None
    try:
        found = folder_maps(place, "val")
    except LayoutError:
        if place in origins[1:]:  # what is wrong with the dataset that was copied is worth knowing
            raise
        return None
    return found if found.has_targets else None
