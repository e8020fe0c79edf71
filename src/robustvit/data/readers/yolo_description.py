"""What a dataset of YOLO's format says about itself: data.yaml, or a list of class names.

path: ../datasets/cells           # folder of the dataset; by default that of the file
train: images/train               # a folder, a list of folders, or a text file that lists images
val: images/val
names: [RBC, WBC, Platelets]      # or {0: RBC, 1: WBC, 2: Platelets}
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.split_names import SPLIT_NAMES
from robustvit.runtime.bounded_yaml import YamlTextError, read_yaml

__all__ = ["CLASS_FILES", "ImageFolder", "YoloDescription", "described", "description_in", "names_in"]

CLASS_FILES = ("classes.txt", "obj.names", "labels.txt", "_darknet.labels", "names.txt")
"""Class names, one per line."""
_DESCRIPTIONS = ("data.yaml", "data.yml", "dataset.yaml", "dataset.yml")
_MOST_BYTES = 2**20
EXPECTED = "names: [car, ...], and train: and val: with folders of images"


class ImageFolder(NamedTuple):
    """A folder of images; if `listed` is there, only these of them, as paths below it."""

    folder: Path
    listed: tuple[str, ...] | None = None


@dataclass(frozen=True)
class YoloDescription:
    """What a data.yaml says.

    Attributes:
        path: of the file.
        images: split -> where its images are, for splits of which something is there.
        absent: split -> folders and lists that it names, and that are not there.
        names: of the classes; None where it does not say them.
    """

    path: Path
    images: Mapping[str, tuple[ImageFolder, ...]]
    absent: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...] | None


def description_in(folder: Path) -> YoloDescription | None:
    """What the data.yaml of a folder says; None where there is none, or one of something else.

    Raises:
        LayoutError: see `described`.
    """
    file = next((folder / name for name in _DESCRIPTIONS if (folder / name).is_file()), None)
    if file is None or not {"names", *SPLIT_NAMES} & _stored(file).keys():
        return None
    return described(file)


def described(file: Path) -> YoloDescription:
    """What a data.yaml says.

    Raises:
        LayoutError: it cannot be understood, or names no folder that is there.
    """
    stored = _stored(file)
    places = {
        split: {given: _image_folder(file, stored, given) for given in _given(file, stored, split)} for split in SPLIT_NAMES
    }
    there = {split: tuple(found for found in own.values() if found is not None) for split, own in places.items()}
    absent = {split: tuple(given for given, found in own.items() if found is None) for split, own in places.items()}
    if not any(there.values()):
        named = ", ".join(given for own in absent.values() for given in own)
        told = f"names {named[:200]}, and nothing of it is there" if named else "names no images"
        raise LayoutError(f"{file} {told}; expected {EXPECTED}, below path: or beside the file")
    images = {split: found for split, found in there.items() if found}
    return YoloDescription(file, images, absent, _names(file, stored.get("names")))


def _stored(file: Path) -> dict[Any, Any]:
    if file.stat().st_size > _MOST_BYTES:
        raise LayoutError(f"{file} has more than {_MOST_BYTES:,} bytes; expected a data.yaml with {EXPECTED}")
    try:
        stored = read_yaml(file.read_text(encoding="utf-8-sig"))
    except (YamlTextError, UnicodeDecodeError) as error:
        told = " ".join(str(error).replace('in "<unicode string>", ', "").split())
        raise LayoutError(f"{file} is no YAML ({told[:120]}); expected {EXPECTED}") from error
    if not isinstance(stored, dict):
        raise LayoutError(f"{file} holds a {type(stored).__name__}; expected {EXPECTED}")
    return stored


def _given(file: Path, stored: Mapping[Any, Any], split: str) -> Iterator[str]:
    """What it says about where the images of a split are."""
    entry = next((stored[name] for name in SPLIT_NAMES[split] if stored.get(name)), None)
    for given in entry if isinstance(entry, list) else [entry] if entry is not None else []:
        if not isinstance(given, str):
            raise LayoutError(f"{file}: {split} is {str(given)[:60]!r}; expected a folder of images")
        yield given


def _image_folder(file: Path, stored: Mapping[Any, Any], given: str) -> ImageFolder | None:
    """A folder of images, or those that a text file lists; None where there is neither."""
    place = _found(file, stored.get("path"), given)
    if place is not None and place.is_dir():
        return ImageFolder(place)
    return _listed(place) if place is not None and place.suffix == ".txt" else None


def _listed(file: Path) -> ImageFolder:
    """The images that a text file lists, one per line: absolute, or below the folder of the file."""
    lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    paths = [os.path.normpath(file.parent / line.strip().replace("\\", "/")) for line in lines if line.strip()]
    if not paths:
        raise LayoutError(f"{file} lists no images; expected a path per line")
    folder = Path(os.path.commonpath([Path(path).parent for path in paths]))
    return ImageFolder(folder, tuple(Path(path).relative_to(folder).as_posix() for path in paths))


def _found(file: Path, base: Any, given: str) -> Path | None:
    """A folder or list that a description names: as it says, or with some of the folders in front left out.

    Exporters write folders of the machine they ran on, or one too high up (../train/images).
    """
    here = file.absolute().parent
    roots = [here / base, here] if isinstance(base, str) else [here]
    parts = [part for part in PurePosixPath(given.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    tails = [root.joinpath(*parts[k:]) for root in roots for k in range(len(parts))]
    found = next((path for path in (*(root / given for root in roots), *tails) if path.exists()), None)
    return None if found is None else Path(os.path.normpath(found))


def _names(file: Path, stored: Any) -> tuple[str, ...] | None:
    if stored is None:
        return None
    if isinstance(stored, dict):
        if sorted(stored, key=str) != sorted(range(len(stored)), key=str):
            raise LayoutError(f"{file}: names has the keys {', '.join(map(str, list(stored)[:8]))}; expected 0, 1, 2, ...")
        stored = [stored[k] for k in range(len(stored))]
    if not isinstance(stored, list) or not all(isinstance(name, str | int | float) for name in stored):
        raise LayoutError(f"{file}: names is {str(stored)[:60]!r}; expected a list of names, or 0: name, 1: name, ...")
    return tuple(map(str, stored))


def names_in(folder: Path) -> tuple[str, ...] | None:
    """The class names that a file in a folder lists, one per line; None where there is none."""
    file = next((folder / name for name in CLASS_FILES if (folder / name).is_file()), None)
    if file is None or file.stat().st_size > _MOST_BYTES:
        return None
    lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    return tuple(line.strip() for line in lines if line.strip()) or None
