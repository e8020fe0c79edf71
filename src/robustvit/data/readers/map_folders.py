"""Reads plain folders of images and label maps, with or without splits.

    images/SPLIT/NAME.jpg  + labels/SPLIT/NAME.png      also masks/ or annotations/ for labels/
    img_dir/SPLIT/NAME.jpg + ann_dir/SPLIT/NAME.png
    SPLIT/images/NAME.jpg  + SPLIT/labels/NAME.png
    SPLIT/NAME.jpg         + SPLITannot/NAME.png
    SPLIT/NAME.jpg         + SPLIT/NAME_mask.png        see `single_folder_maps`

A label map may have an ending, and an image another (`paired_files`). A `classes.json` in the folder of the dataset names the
classes (`label_classes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from robustvit.data.files_below import files_below
from robustvit.data.map_samples import MapFile, MapFiles
from robustvit.data.readers.class_folders import SPLITS, LayoutError
from robustvit.data.readers.paired_files import (
    LABEL_SUFFIXES,
    bare_names,
    by_key,
    check_pairs,
    has_ending,
    is_image,
    missing_split,
    ordered,
    strip_ending,
    told_files,
)
from robustvit.data.readers.single_folder_maps import EXPECTED, classes_of_dataset, single_folder_maps

__all__ = ["folder_maps", "folder_split", "has_folders"]

SIDE_BY_SIDE = (("images", "labels"), ("images", "masks"), ("images", "annotations"), ("img_dir", "ann_dir"))
TRAIN = ("train", "training")


@dataclass(frozen=True)
class _Place:
    """Where the images of a split lie, and their label maps; `labels` is None for one folder of both."""

    images: Path
    labels: Path | None

    @property
    def has_labels(self) -> bool:
        return self.labels is None or self.labels.is_dir()


def folder_maps(path: Path, split: str, *, ignore_orientation: bool = False) -> MapFiles:
    """The images of a split, or all where there are no splits.

    Args:
        path: folder of the dataset.
        split: "train"; else val, validation or test, the first that is there and has label maps.
        ignore_orientation: see `read_image`.

    Raises:
        LayoutError: there are no images, the split is missing, or images and label maps do not fit.
    """
    places = dict(_places(path))
    if not places:
        return single_folder_maps(path, path, ignore_orientation=ignore_orientation)
    return _maps_at(_chosen(path, places, split), path, places, ignore_orientation)


def folder_split(path: Path, split: str, *, ignore_orientation: bool = False) -> MapFiles:
    """The images of the split of just this name, with its label maps, or without where they are withheld.

    Raises:
        LayoutError: there is no such split, or images and label maps do not fit.
    """
    places = dict(_places(path))
    if split not in places:
        raise missing_split(path, split, [name for name in places if name])
    place = places[split]
    if not place.has_labels:
        return single_folder_maps(place.images, path, ignore_orientation=ignore_orientation)
    return _maps_at(place, path, places, ignore_orientation)


def _maps_at(place: _Place, path: Path, places: Mapping[str, _Place], ignore_orientation: bool) -> MapFiles:
    """The images of one of the splits with their label maps."""
    if place.labels is None or not any(other.has_labels for other in places.values()):
        return single_folder_maps(place.images, path, ignore_orientation=ignore_orientation)
    images, labels, ending = _paired(path, place.images, place.labels)
    maps = [place.labels / label for label in labels.values()]
    for other in places.values():  # a class that no image of this split shows is a class all the same
        if other is not place and other.labels is not None and other.labels.is_dir():
            found = by_key(other.labels, labels=True)
            maps += [other.labels / label for key, label in found.items() if key.endswith(ending)]
    about = classes_of_dataset(path, place.images, maps)
    pairs = [
        MapFile(images[key].as_posix(), place.images / images[key], place.labels / labels[key], about.lookup)
        for key in ordered(images)
    ]
    return MapFiles(pairs, str(path), about, ignore_orientation=ignore_orientation)


def has_folders(path: Path) -> bool:
    """Whether a folder has images and label maps in folders side by side."""
    try:
        return any(place.labels is not None and place.has_labels for _, place in _places(path))
    except LayoutError:
        return False


def _places(path: Path) -> Iterator[tuple[str, _Place]]:
    """(split, place) of all splits; the split "" for a dataset without any.

    Raises:
        LayoutError: there are label maps alone.
    """
    for images, labels in SIDE_BY_SIDE:
        if (path / images).is_dir() and (path / labels).is_dir():
            yield from _splits_of(path / images, path / labels)
            return
    for images, labels in SIDE_BY_SIDE[:1] + SIDE_BY_SIDE[-1:]:  # images alone
        if (path / images).is_dir():
            yield from _splits_of(path / images, path / labels)
            return
    # annotations/ alone may be COCO's, which are no label maps
    if alone := [labels for _, labels in SIDE_BY_SIDE if labels != "annotations" and (path / labels).is_dir()]:
        raise LayoutError(f"{path} has label maps in {alone[0]}, and no images beside them; expected {EXPECTED}")
    for split in (*TRAIN, *SPLITS):
        if (place := _place_in(path, split)) is not None:
            yield split, place


def _splits_of(images: Path, labels: Path) -> Iterator[tuple[str, _Place]]:
    splits = [name for name in (*TRAIN, *SPLITS) if (images / name).is_dir()]
    for name in splits:
        yield name, _Place(images / name, labels / name)
    if not splits:
        yield "", _Place(images, labels)


def _place_in(path: Path, split: str) -> _Place | None:
    """Where a split lies that has a folder of its own."""
    folder = path / split
    for images, labels in SIDE_BY_SIDE:
        if (folder / images).is_dir() and (folder / labels).is_dir():
            return _Place(folder / images, folder / labels)
    if (path / f"{split}annot").is_dir():
        return _Place(folder, path / f"{split}annot")
    return _Place(folder, None) if folder.is_dir() and any(map(is_image, files_below(folder))) else None


def _chosen(path: Path, places: Mapping[str, _Place], split: str) -> _Place:
    wanted = (*(TRAIN if split == "train" else SPLITS), "")
    there = [places[name] for name in wanted if name in places]
    if not there:
        raise LayoutError(
            f"{path} has the splits {', '.join(places)}, and no {wanted[0]} ({', '.join(wanted[1:-1])}); expected {EXPECTED}"
        )
    return next((place for place in there if place.has_labels), there[0])  # those of a test set may be withheld


def _paired(path: Path, images: Path, labels: Path) -> tuple[dict[str, Path], dict[str, Path], str]:
    """Images and label maps by the same keys, and the ending of the label maps."""
    files = by_key(images)
    if not files:
        raise LayoutError(f"{images} has no images{told_files(images)}; expected {EXPECTED}")
    found = by_key(labels, labels=True) if labels.is_dir() else {}
    if not found:
        there = f"has no label maps{told_files(labels)}" if labels.is_dir() else "is missing"
        raise LayoutError(
            f"{labels} {there}, and {images} has {len(files)} images; expected NAME.png for each NAME. Label maps are read "
            f"from {', '.join(LABEL_SUFFIXES)}, which keep every value, as JPEG and GIF do not"
        )
    files = bare_names(files, lambda named: sum(key in named or has_ending(key, named) for key in found))
    matched, ending = strip_ending(found, files, labels)
    check_pairs(
        path,
        {key: images.relative_to(path) / file for key, file in files.items()},
        {key: labels.relative_to(path) / file for key, file in matched.items()},
        f"{labels}/NAME{ending}{next(iter(found.values())).suffix} for each {images}/NAME.jpg",
    )
    return files, matched, ending
