"""Reads ACDC: streets in fog, at night, in rain and in snow, with the classes of Cityscapes.

`rgb_anon/CONDITION/SPLIT/SEQUENCE/NAME_rgb_anon.png` and `gt/CONDITION/SPLIT/SEQUENCE/NAME_gt_labelTrainIds.png`, each perhaps
inside the folder of its archive (rgb_anon_trainvaltest, gt_trainval). The label maps of the test images are withheld.
"""

from __future__ import annotations

from pathlib import Path

from robustvit.data.map_samples import MapFile, MapFiles
from robustvit.data.readers.cityscapes_classes import CITYSCAPES
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.paired_files import missing_split
from robustvit.data.readers.street_pairs import StreetNames
from robustvit.runtime.spelling import nearest

__all__ = ["CONDITIONS", "acdc_conditions", "acdc_maps", "acdc_split"]

CONDITIONS = ("fog", "night", "rain", "snow")
SPLITS = ("train", "val", "test", "train_ref", "val_ref", "test_ref")
LABELLED = ("train", "val")
"""Splits with public label maps."""
_IMAGES, _LABELS = "rgb_anon", "gt"
_ARCHIVES = ("rgb_anon_trainvaltest", "gt_trainval")


def acdc_conditions(root: Path, split: str = "val", *, ignore_orientation: bool = False) -> dict[str, MapFiles]:
    """Condition -> its images, checked; without label maps for the test split and for the references (`val_ref`, ...).

    Args:
        root: the folder that has rgb_anon and gt, or the folders of the two archives.
        split: of `SPLITS`.
        ignore_orientation: see `read_image`.

    Raises:
        LayoutError: this is not ACDC, a condition is missing, or images and label maps do not fit.
        ValueError: there is no such split.
    """
    if split not in SPLITS:
        raise ValueError(f"ACDC has no split {split!r}{nearest(split, SPLITS)}; give one of {', '.join(SPLITS)}")
    files = _files(root, split)
    conditions = {name: _samples(found, root, ignore_orientation) for name, found in files.items()}
    for samples in conditions.values():
        samples.check_sizes()
    return conditions


def _files(root: Path, split: str) -> dict[str, list[MapFile]]:
    """Condition -> its files."""
    images = _folder(root, _IMAGES, _ARCHIVES[0])
    if images is None:
        raise LayoutError(f"{root} is not ACDC; expected {_expected(root, split)}")
    if missing := [f"{name}/{split}" for name in CONDITIONS if not (images / name / split).is_dir()]:
        raise LayoutError(f"{images} lacks {', '.join(missing)}; expected {_expected(root, split)}")
    return {name: _pairs(root, images / name / split, name, split) for name in CONDITIONS}


def acdc_maps(path: Path, split: str, *, ignore_orientation: bool = False) -> MapFiles | None:
    """The images of all four conditions, or of a folder inside rgb_anon; None where this is not ACDC.

    Args:
        path: what `acdc_conditions` takes, or rgb_anon/CONDITION/SPLIT, or rgb_anon/CONDITION.
        split: "train"; val otherwise, since the label maps of test are withheld.
        ignore_orientation: see `read_image`.

    Raises:
        LayoutError: see `acdc_conditions`.
    """
    part = "train" if split == "train" else "val"
    inside = path.absolute()
    if inside.parent.name == _IMAGES and inside.name in CONDITIONS and (path / part).is_dir():
        path, inside = path / part, inside / part
    condition = inside.parent
    if condition.parent.name == _IMAGES and condition.name in CONDITIONS and inside.name in SPLITS:
        root = condition.parents[1]
        root = root.parent if root.name == _ARCHIVES[0] else root
        return _samples(_pairs(root, path, condition.name, inside.name), path, ignore_orientation)
    if path.name == _IMAGES and _folder(path.parent, _LABELS, _ARCHIVES[1]):
        path = path.parent
    if _folder(path, _IMAGES, _ARCHIVES[0]) is None:
        return None
    files = _files(path, part)
    return _samples([file for found in files.values() for file in found], path, ignore_orientation)


def acdc_split(path: Path, split: str, *, ignore_orientation: bool = False) -> MapFiles | None:
    """The images of all four conditions, or of a folder rgb_anon/CONDITION, of the split of just this name; None where this
    is not ACDC.

    Raises:
        LayoutError: there is no such split, or see `acdc_conditions`.
    """
    inside = path.absolute()
    if is_condition := inside.parent.name == _IMAGES and inside.name in CONDITIONS:
        folders = [path]
    else:
        path = path.parent if path.name == _IMAGES else path
        images = _folder(path, _IMAGES, _ARCHIVES[0])
        folders = [] if images is None else [images / name for name in CONDITIONS]
    if not any(folder.is_dir() for folder in folders):
        return None
    there = [name for name in SPLITS if any((folder / name).is_dir() for folder in folders)]
    if split not in there:
        raise missing_split(path, split, there)
    if is_condition:
        return acdc_maps(path / split, split, ignore_orientation=ignore_orientation)
    files = [file for found in _files(path, split).values() for file in found]
    return _samples(files, path, ignore_orientation)


def _samples(files: list[MapFile], path: Path, ignore_orientation: bool) -> MapFiles:
    expected = _expected(path, "val")
    return MapFiles(files, str(path), CITYSCAPES, expected=expected, ignore_orientation=ignore_orientation)


def _pairs(root: Path, images: Path, condition: str, split: str) -> list[MapFile]:
    labels = _folder(root, _LABELS, _ARCHIVES[1]) if split in LABELLED else None
    names = StreetNames("_rgb_ref_anon" if split.endswith("_ref") else "_rgb_anon", "_gt")
    return names.pairs(images, None if labels is None else labels / condition / split, f"{condition}/")


def _folder(root: Path, name: str, archive: str) -> Path | None:
    return next((folder for folder in (root / archive / name, root / name) if folder.is_dir()), None)


def _expected(root: Path, split: str) -> str:
    return (
        f"{root}/{_IMAGES}/CONDITION/{split}/SEQUENCE/NAME_rgb_anon.png and {root}/{_LABELS}/CONDITION/{split}/SEQUENCE/"
        f"NAME_gt_labelTrainIds.png (or in {' and '.join(_ARCHIVES)}) for {', '.join(CONDITIONS)}"
    )
