"""Folders of class folders, ROOT/CLASS/IMAGE, as they lie on disk: beside other datasets, and with other files inside.

timm's own reader takes every image at any depth and labels it by its last folder, so that ImageNet-A beside val/ would join
it, and all of ImageNet-C would pass for clean. The reader here takes CLASS/IMAGE only and refuses what is deeper. Classes
and images are ordered as timm orders them.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from timm.utils.misc import natural_key

from robustvit.corruptions.registry import corruption_names
from robustvit.data.samples import IMAGE_SUFFIXES, ReaderSamples
from robustvit.runtime.image_files import check_is_file

__all__ = ["ClassFolderReader", "LayoutError", "folder_images", "holds_split", "is_suite", "order_note", "plain_name"]

SPLITS = ("val", "validation", "test")
_SUITES = re.compile(r"(tiny)?imagenet(c|c?bar|a|r|p|o|d|e|x|w|v2.*|sketch|3dcc)|cifar10(0)?[cp]|stylizedimagenet|objectnet")
_OTHER_SUFFIXES = """.txt .json .jsonl .csv .tsv .xml .md .rst .yaml .yml .toml .html .pdf .log .db .ini .py .sh .mat .npy .npz
    .pkl .pt .pth .safetensors .sha256 .md5 .tar .gz .zip .tmp .lock"""
_NO_IMAGES = frozenset(_OTHER_SUFFIXES.split())


class LayoutError(ValueError):
    """What is on disk is not the dataset that was asked for."""


def plain_name(name: str) -> str:
    """ "ImageNet-C", "imagenet_c" and "imagenetc" are the same."""
    return re.sub(r"[-_ ]", "", name.lower())


def is_suite(name: str) -> bool:
    """Whether a folder of this name is another dataset, as ImageNet-A or CIFAR-10-C."""
    return _SUITES.fullmatch(plain_name(name)) is not None


def folder_images(path: Path, *, train: bool = False, ignore_orientation: bool = False) -> ReaderSamples:
    """The images of `path/CLASS/IMAGE`, or of val/, validation/ or test/ in it; of train/ if asked for.

    Raises:
        LayoutError: there are none, or images lie elsewhere.
    """
    reader = ClassFolderReader(_train_split_of(path) if train else _split_of(path))
    note = order_note(tuple(reader.class_to_idx))
    return ReaderSamples(reader, str(path), order_note=note, ignore_orientation=ignore_orientation)


def order_note(classes: Sequence[str]) -> str | None:
    """How classes in timm's order are numbered, if sorting them by character would number them otherwise."""
    by_character = sorted(classes)
    if list(classes) == by_character:
        return None
    i = next(i for i, (ours, other) in enumerate(zip(classes, by_character, strict=True)) if ours != other)
    return (
        f"the classes are numbered in natural order, as timm does: class {i} is {classes[i]!r}. Sorted by character, as "
        f"torchvision's ImageFolder does, it would be {by_character[i]!r}. If the network was trained in that order, say so "
        "with a class map (--class-map)"
    )


class ClassFolderReader:
    """(file, label) of each image; the interface of timm's readers.

    Attributes:
        names: CLASS/IMAGE, in timm's order.
        targets: their labels.
        class_to_idx: number of each class that has images.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        found = _scan(root)
        self.class_to_idx = {name: i for i, name in enumerate(sorted(found, key=natural_key))}
        self.names = sorted((f"{c}/{picture}" for c, pictures in found.items() for picture in pictures), key=natural_key)
        self.targets = [self.class_to_idx[name.partition("/")[0]] for name in self.names]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> tuple[BinaryIO, int]:
        path = self.root / self.names[i]
        check_is_file(path)
        return path.open("rb"), self.targets[i]

    def filename(self, i: int) -> str:
        return self.names[i]


def _visible(folder: Path | str) -> list[os.DirEntry[str]]:
    """What is in a folder, sorted. Hidden files are none of the dataset's: a system's, or a writer's that was stopped."""
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _split_of(path: Path) -> Path:
    """val/ (or its like) in `path` if that holds the images, else `path` itself."""
    folders = [entry.name for entry in _visible(path) if entry.is_dir() and not is_suite(entry.name)]
    for split in SPLITS:
        # without folders inside, it may be a class of this name
        if split in folders and ("train" in folders or folders == [split] or any(e.is_dir() for e in _visible(path / split))):
            return path / split
    return path


def holds_split(path: Path) -> bool:
    """Whether the images of a folder are those of val/ or its like in it, as of a folder that has the whole of ImageNet."""
    return _split_of(path) != path


def _train_split_of(path: Path) -> Path:
    """train/ in `path` if that holds class folders, else `path` itself, unless it has nothing but val/ or its like."""
    folders = [entry.name for entry in _visible(path) if entry.is_dir() and not is_suite(entry.name)]
    if "train" in folders and any(entry.is_dir() for entry in _visible(path / "train")):
        return path / "train"
    if holds_split(path):
        raise LayoutError(
            f"{path} has {_split_of(path).name}/ but no {path}/train/CLASS/IMAGE.jpg to train on; add it, or give the "
            "folder that has the class folders"
        )
    return path


def _scan(root: Path) -> dict[str, list[str]]:
    """Class -> file names of its images."""
    entries = _visible(root)
    folders = [entry for entry in entries if entry.is_dir()]
    classes = [entry for entry in folders if not is_suite(entry.name)]
    expected = f"{root}/CLASS/IMAGE.jpg"
    if not entries:
        raise LayoutError(f"{root} is empty; expected a folder for each class with its images inside: {expected}")
    if not folders:
        raise LayoutError(
            f"{root} has no class folders, only files such as {entries[0].name}; expected {expected}, because "
            "the name of its folder says what an image shows"
        )
    if not classes:
        raise LayoutError(
            f"{root} has no class folders, only {', '.join(e.name for e in folders)}, which have suites of their own; "
            f"expected {expected}, or choose those suites"
        )
    if loose := next((e.name for e in entries if not e.is_dir() and _is_image(e.name)), None):
        raise LayoutError(f"{root}/{loose} is beside the class folders, so its class is unknown; move it: {expected}")
    others: Counter[str] = Counter()
    found = {entry.name: pictures for entry in classes if (pictures := _images_of(root, entry.path, others))}
    if not found:
        raise LayoutError(f"{root} has no images in its {len(classes)} folders, such as {classes[0].name}{_told(others)}")
    if others:
        warnings.warn(f"{root}: not read as images{_told(others)}", stacklevel=2)
    return found


def _told(others: Counter[str]) -> str:
    """Files that may have been meant as images."""
    if not others:
        return ""
    return ": " + ", ".join(f"{count} files {suffix or 'without suffix'}" for suffix, count in others.most_common(5))


def _is_image(name: str) -> bool:
    return Path(name).suffix.lower() in IMAGE_SUFFIXES


def _images_of(root: Path, folder: str, others: Counter[str]) -> list[str]:
    pictures = []
    for entry in _visible(folder):
        if entry.is_dir():
            if deeper := next(_images_below(entry.path), None):
                raise LayoutError(_too_deep(root, Path(deeper)))
        elif _is_image(entry.name):
            pictures.append(entry.name)
        elif (suffix := Path(entry.name).suffix.lower()) not in _NO_IMAGES:
            others[suffix] += 1
    return pictures


def _images_below(folder: str) -> Iterator[str]:
    for entry in _visible(folder):
        if entry.is_dir():
            yield from _images_below(entry.path)
        elif _is_image(entry.name):
            yield entry.path


def _too_deep(root: Path, picture: Path) -> str:
    message = f"{picture} is deeper than {root}/CLASS/IMAGE, so its class is not clear; "
    if set(picture.relative_to(root).parts[:2]) & set(corruption_names("all19")):
        return message + "this looks like ImageNet-C: choose the suite imagenet-c, or give the folder of the clean images"
    return message + f"give the folder that has the class folders (here perhaps {picture.parent.parent}), or move it away"
