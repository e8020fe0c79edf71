"""The data sets that people have on disk, found by their layout.

Class folders, tar files, `wds/...` and `hfds/...` go through timm's readers, CIFAR through torchvision; the arrays of CIFAR-C
and the trees of ImageNet-C are read here. `scenes` is the embedded data set.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robustvit.corruptions.registry import corruption_names
from robustvit.data.pictures import ArrayPictures, DatasetPictures, PictureSet, ReaderPictures

__all__ = ["LayoutError", "cifar_c_pictures", "imagenet_c_pictures", "open_pictures", "suite_folder"]

_SPLITS = ("val", "validation", "test")


class LayoutError(ValueError):
    """What is on disk is not the data set that was asked for."""


def open_pictures(source: str | Path, *, scene_size: tuple[int, int] = (224, 224)) -> PictureSet:
    """The pictures at `source`.

    Args:
        source: a folder of class folders (or one with val/ in it), a folder with CIFAR's files, a .tar file, `wds/...` or
            `hfds/...` as timm takes them, or "scenes" ("scenes:500" for 500 pictures) for the embedded data set.
        scene_size: (H, W) of the pictures of the embedded data set.
    """
    text = str(source)
    if text == "scenes" or text.startswith("scenes:"):
        from robustvit.data.scenes import Scenes

        length = text.partition(":")[2] or "1000"
        if not length.isdigit():
            raise ValueError(f"{text}: give the number of pictures after the colon, as in scenes:500")
        return DatasetPictures(Scenes("test", int(length), scene_size), "scenes")
    if text.startswith(("wds/", "hfds/", "hfids/", "tfds/")):
        from timm.data.readers import create_reader

        return ReaderPictures(create_reader(text, split="validation"), text)
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}; give a folder of class folders, a .tar file, or 'scenes'")
    if path.is_file() and path.suffix != ".tar":
        raise LayoutError(f"{path} is a file; give a folder of class folders or a .tar file")
    for folder, dataset in (("cifar-10-batches-py", "CIFAR10"), ("cifar-100-python", "CIFAR100")):
        if (path / folder).is_dir() or path.name == folder:
            return _cifar(path if (path / folder).is_dir() else path.parent, dataset)
    return _class_folders(path)


def _class_folders(path: Path) -> ReaderPictures:
    from timm.data.readers import create_reader

    split = next((path / s for s in _SPLITS if (path / s).is_dir()), None) if (path / "train").is_dir() else None
    root = split or path
    if root.is_dir():
        _check_class_folders(root)
    try:
        reader = create_reader("", root=str(root))
    except (RuntimeError, AssertionError) as error:
        raise LayoutError(f"{root} has no pictures: {error}") from error
    return ReaderPictures(reader, str(path))


def _check_class_folders(root: Path) -> None:
    entries = [entry for entry in os.scandir(root) if not entry.name.startswith(".")]
    if not entries:
        raise LayoutError(
            f"{root} is empty; expected a folder for each class with its pictures inside: {root}/CLASS/PICTURE.jpg"
        )
    if not any(entry.is_dir() for entry in entries):
        raise LayoutError(
            f"{root} has no class folders, only files such as {entries[0].name}; expected {root}/CLASS/PICTURE.jpg, because "
            "the name of its folder says what a picture shows"
        )


def _cifar(root: Path, dataset: str) -> ArrayPictures:
    import torchvision

    test = getattr(torchvision.datasets, dataset)(str(root), train=False)
    return ArrayPictures(test.data, test.targets, dataset.lower(), test.classes)


def suite_folder(data: str | Path, suite: str) -> Path:
    """Where the files of a suite are: `data` itself, or the folder in it that has the name of the suite."""
    path = Path(data)
    below = next(
        (path / n for n in (suite, suite.replace("-", ""), suite.upper(), suite.replace("-", "_")) if (path / n).is_dir()),
        None,
    )
    return below or path


def imagenet_c_pictures(root: Path, names: Sequence[str]) -> dict[tuple[str, int], PictureSet] | None:
    """(corruption, severity) -> pictures, from `root/CORRUPTION/SEVERITY/CLASS/PICTURE`; None if `root` is no such tree.

    Raises:
        LayoutError: some of the named corruptions or severities are missing.
    """
    groups = [root, *(root / g for g in ("noise", "blur", "weather", "digital", "extra"))]  # as in the published archives

    def folder(name: str, severity: int) -> Path | None:
        return next((g / name / str(severity) for g in groups if (g / name / str(severity)).is_dir()), None)

    if not any(folder(name, severity) for name in corruption_names("all19") for severity in range(1, 6)):
        return None
    found = {(name, severity): folder(name, severity) for name in names for severity in range(1, 6)}
    if missing := [f"{name}/{severity}" for (name, severity), path in found.items() if path is None]:
        raise LayoutError(
            f"{root} lacks {', '.join(missing[:8])}{' and more' if len(missing) > 8 else ''}; expected "
            f"{root}/CORRUPTION/SEVERITY/CLASS/PICTURE.JPEG for {', '.join(names)} and severities 1 to 5"
        )
    return {cell: _class_folders(path) for cell, path in found.items() if path is not None}


def cifar_c_pictures(root: Path, names: Sequence[str]) -> dict[tuple[str, int], PictureSet]:
    """(corruption, severity) -> pictures, from `root/CORRUPTION.npy` and `root/labels.npy`.

    Raises:
        LayoutError: files are missing, or not of the published shape.
    """
    if missing := [f"{n}.npy" for n in (*names, "labels") if not (root / f"{n}.npy").is_file()]:
        raise LayoutError(
            f"{root} lacks {', '.join(missing)}; expected CORRUPTION.npy (uint8, 50000 x 32 x 32 x 3, severity 1 "
            "first) for each corruption, and labels.npy"
        )
    labels = np.load(root / "labels.npy", allow_pickle=False)
    cells: dict[tuple[str, int], PictureSet] = {}
    for name in names:
        images = np.load(root / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        if len(images) % 5 or len(images) != len(labels):
            raise LayoutError(
                f"{root / name}.npy has {len(images)} pictures for {len(labels)} labels; expected five times the same"
            )
        per_severity = len(images) // 5
        for severity in range(1, 6):
            rows = slice((severity - 1) * per_severity, severity * per_severity)
            cells[name, severity] = ArrayPictures(images[rows], labels[rows], f"{root / name}.npy")
    return cells
