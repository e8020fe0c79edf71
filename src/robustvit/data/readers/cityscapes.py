"""Reads Cityscapes: `leftImg8bit/SPLIT/CITY/NAME_leftImg8bit.png` and `gtFine/SPLIT/CITY/NAME_gtFine_labelTrainIds.png`.

The labels of the test images are not public (the files in gtFine/test hold nothing), so that these are images without label
maps. Trees of Cityscapes-C have the clean images in `leftImg8bit/clean/val`, or in `clean`.
"""

from __future__ import annotations

from pathlib import Path

from robustvit.data.map_samples import MapFiles
from robustvit.data.readers.cityscapes_classes import CITYSCAPES
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.street_pairs import StreetNames

__all__ = ["CITYSCAPES_NAMES", "IMAGES", "LABELS", "cityscapes_maps"]

IMAGES, LABELS = "leftImg8bit", "gtFine"
CITYSCAPES_NAMES = StreetNames(image="_leftImg8bit", label="_gtFine")
_CLEAN = "clean"
_SPLITS = ("train", "train_extra", "val", "test")


def cityscapes_maps(path: Path, split: str, *, ignore_orientation: bool = False) -> MapFiles | None:
    """The images of a split, or of a folder inside leftImg8bit; None where this is not Cityscapes.

    Args:
        path: the folder that has leftImg8bit and gtFine; or leftImg8bit/SPLIT, or leftImg8bit/SPLIT/CITY.
        split: "train"; else val, and test where there is no val.
        ignore_orientation: see `read_image`.

    Raises:
        LayoutError: the split is missing, or images and label maps do not fit.
    """
    if path.name == IMAGES and (path.parent / LABELS).is_dir():
        path = path.parent
    if (found := _inside(path) or _split_of(path, split)) is None:
        return None
    images, labels, prefix = found
    pairs = CITYSCAPES_NAMES.pairs(images, labels, prefix)
    expected = CITYSCAPES_NAMES.expected(Path(LABELS), Path(IMAGES))
    return MapFiles(pairs, str(path), CITYSCAPES, expected=expected, ignore_orientation=ignore_orientation)


_Place = tuple[Path, Path | None, str]
"""Folder of images, of label maps, and how the ids begin."""


def _inside(path: Path) -> _Place | None:
    """A split inside leftImg8bit, or a city of one."""
    parts = path.absolute().parts
    if IMAGES not in parts[:-1]:
        return None
    i = len(parts) - 1 - parts[::-1].index(IMAGES)
    root, rest = Path(*parts[:i]), [part for part in parts[i + 1 :] if part != _CLEAN]
    if not rest or rest[0] not in _SPLITS:
        return None
    labels = root.joinpath(LABELS, *rest) if _has_labels(root, rest[0]) else None
    return path, labels, "".join(f"{part}/" for part in rest[1:])


def _split_of(path: Path, split: str) -> _Place | None:
    images, clean = path / IMAGES, path / _CLEAN
    if not images.is_dir() and not (clean.is_dir() and (path / LABELS).is_dir()):
        return None
    places = [(images / "train", "train")]
    if split != "train":
        places = [(images / "val", "val"), (images / _CLEAN / "val", "val"), (clean, "val"), (images / "test", "test")]
    for folder, part in places:
        if folder.is_dir():
            return folder, path / LABELS / part if _has_labels(path, part) else None, ""
    raise LayoutError(f"{path} lacks {places[0][0]}; expected {places[0][0]}/CITY/NAME{CITYSCAPES_NAMES.image}.png")


def _has_labels(root: Path, split: str) -> bool:
    return split != "test" and (root / LABELS).is_dir()
