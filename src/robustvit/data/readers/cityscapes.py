"""Reads Cityscapes: `leftImg8bit/SPLIT/CITY/NAME_leftImg8bit.png` and `gtFine/SPLIT/CITY/NAME_gtFine_labelTrainIds.png`.

The labels of the test images are not public (the files in gtFine/test hold nothing), so that these are images without label
maps. Trees of Cityscapes-C have the clean images in `leftImg8bit/clean/val`, or in `clean`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robustvit.data.map_samples import MapFiles
from robustvit.data.readers.cityscapes_classes import CITYSCAPES
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.paired_files import missing_split
from robustvit.data.readers.street_pairs import StreetNames

__all__ = ["CITYSCAPES_NAMES", "IMAGES", "LABELS", "cityscapes_maps", "cityscapes_split"]

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
    path = _root(path)
    found = _inside(path) or _split_of(path, ("train",) if split == "train" else ("val", "test"))
    return None if found is None else _samples(path, found, ignore_orientation)


def cityscapes_split(path: Path, split: str, *, ignore_orientation: bool = False) -> MapFiles | None:
    """The images of the split of just this name; None where this is not the folder of Cityscapes.

    Raises:
        LayoutError: there is no such split, or images and label maps do not fit.
    """
    path = _root(path)
    if not _is_cityscapes(path):
        return None
    if split not in (there := _splits(path)):
        raise missing_split(path, split, list(there))
    found = _split_of(path, (split,))
    assert found is not None
    return _samples(path, found, ignore_orientation)


def _root(path: Path) -> Path:
    return path.parent if path.name == IMAGES and (path.parent / LABELS).is_dir() else path


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


def _is_cityscapes(path: Path) -> bool:
    return (path / IMAGES).is_dir() or ((path / _CLEAN).is_dir() and (path / LABELS).is_dir())


def _splits(path: Path) -> dict[str, Path]:
    """Split -> the folder of its images, of those that are there."""
    images = path / IMAGES
    places = [(name, images / name) for name in _SPLITS]
    if not (images / "val").is_dir():  # trees of copies
        places += [("val", path / _CLEAN), ("val", images / _CLEAN / "val")]
    return {name: folder for name, folder in places if folder.is_dir()}


def _split_of(path: Path, wanted: Sequence[str]) -> _Place | None:
    """The first of some splits that is there; None where this is not the folder of Cityscapes."""
    if not _is_cityscapes(path):
        return None
    there = _splits(path)
    for split in wanted:
        if split in there:
            return there[split], path / LABELS / split if _has_labels(path, split) else None, ""
    missing = path / IMAGES / wanted[0]
    raise LayoutError(f"{path} lacks {missing}; expected {missing}/CITY/NAME{CITYSCAPES_NAMES.image}.png")


def _samples(path: Path, place: _Place, ignore_orientation: bool) -> MapFiles:
    pairs = CITYSCAPES_NAMES.pairs(*place)
    expected = CITYSCAPES_NAMES.expected(Path(LABELS), Path(IMAGES))
    return MapFiles(pairs, str(path), CITYSCAPES, expected=expected, ignore_orientation=ignore_orientation)


def _has_labels(root: Path, split: str) -> bool:
    return split != "test" and (root / LABELS).is_dir()
