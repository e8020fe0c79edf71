"""Reads images and label maps that lie in one folder, or in folders below it, and images without label maps.

Two ways of naming are found: NAME.jpg, or NAME_img.jpg, with NAME_mask.png (or other endings, see `paired_files`), and
NAME.jpg with NAME.png. Where no file is called like a label map, all are images.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from robustvit.data.files_below import files_below
from robustvit.data.label_classes import CLASS_FILE, NO_CLASSES, LabelClasses, classes_of_file, classes_of_maps
from robustvit.data.map_samples import MapFile, MapFiles, named
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.paired_files import (
    bare_names,
    by_key,
    check_no_maps,
    check_pairs,
    has_ending,
    is_image,
    is_label,
    ordered,
    strip_ending,
    told_files,
)

__all__ = ["EXPECTED", "classes_of_dataset", "images_alone", "single_folder_maps"]

EXPECTED = (
    "images/SPLIT/NAME.jpg and labels/SPLIT/NAME.png (also img_dir and ann_dir; SPLIT may be left out), or NAME.jpg and "
    "NAME_mask.png in one folder"
)
Files = dict[str, Path]
"""By key."""


def single_folder_maps(folder: Path, path: Path, *, ignore_orientation: bool = False) -> MapFiles:
    """The images of a folder with the label maps beside them, if there are any.

    Args:
        folder: of the files.
        path: of the dataset, which may have a classes.json and gives the name.
        ignore_orientation: see `read_image`.

    Raises:
        LayoutError: there are no images, or they do not fit the label maps.
        UnmatchedMapsError: many files are called like label maps, and none belongs to an image.
    """
    files = [file for file in files_below(folder) if is_image(file)]
    if not files:
        raise LayoutError(f"{folder} has no images{told_files(folder)}; expected {EXPECTED}")
    found = _by_suffix(files) or _by_ending(folder, files)
    if found is None:
        check_no_maps(files, folder)
        return images_alone(by_key(folder), folder, path, ignore_orientation=ignore_orientation)
    images, labels, expected = found
    check_pairs(folder, images, labels, f"{expected} in {folder}, as others have it")
    about = classes_of_dataset(path, folder, [folder / label for label in labels.values()])
    pairs = [MapFile(images[k].as_posix(), folder / images[k], folder / labels[k], about.lookup) for k in ordered(images)]
    return MapFiles(pairs, str(path), about, ignore_orientation=ignore_orientation)


def _by_suffix(files: list[Path]) -> tuple[Files, Files, str] | None:
    """NAME.jpg with NAME.png: half of the files that cannot be label maps, or more, have one that can beside them."""
    images = {file.with_suffix("").as_posix(): file for file in files if not is_label(file)}
    labels = {file.with_suffix("").as_posix(): file for file in files if is_label(file)}
    pairs = len(images.keys() & labels.keys())
    return (images, labels, "NAME.png for each NAME.jpg") if pairs and 2 * pairs >= len(images) else None


def _by_ending(folder: Path, files: list[Path]) -> tuple[Files, Files, str] | None:
    """NAME.jpg with NAME_mask.png; files that end so and have no image are label maps all the same."""
    everything = {file.with_suffix("").as_posix(): file for file in files}
    if len(everything) < len(files):
        by_key(folder)  # names the two of one name
    everything = bare_names(everything, lambda named: sum(is_label(f) and has_ending(key, named) for key, f in named.items()))
    belonging = {key: file for key, file in everything.items() if is_label(file) and has_ending(key, everything)}
    if not belonging:
        return None
    bare = {key: file for key, file in everything.items() if key not in belonging}
    labels, ending = strip_ending(belonging, bare, folder)
    orphans = {key: file for key, file in bare.items() if is_label(file) and key.endswith(ending)}
    images = {key: file for key, file in bare.items() if key not in orphans}
    labels |= {key.removesuffix(ending): file for key, file in orphans.items()}
    return images, labels, f"NAME{ending}{next(iter(belonging.values())).suffix} for each image NAME"


def images_alone(images: Mapping[str, Path], folder: Path, path: Path, *, ignore_orientation: bool = False) -> MapFiles:
    """Images without label maps."""
    files = [MapFile(images[key].as_posix(), folder / images[key]) for key in ordered(images)]
    about = classes_of_file(path / CLASS_FILE) if (path / CLASS_FILE).is_file() else NO_CLASSES
    folders = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    expected = EXPECTED + (f"; there are the folders {named(folders)}" if folders else "")
    return MapFiles(files, str(path), about, expected=expected, ignore_orientation=ignore_orientation)


def classes_of_dataset(path: Path, folder: Path, maps: list[Path]) -> LabelClasses:
    """Those of the classes.json of a dataset, or in the folder of its images or around it; else what all label maps have."""
    for place in (path, folder, folder.parent):
        if (place / CLASS_FILE).is_file():
            return classes_of_file(place / CLASS_FILE)
    return classes_of_maps(maps, path)
