"""The datasets that people have on disk, found by their layout.

Class folders are read in `class_folders`, tar files, `wds/...` and `hfds/...` in `archives`, CIFAR by torchvision; the arrays
of CIFAR-C are found here, the trees of ImageNet-C in `corrupted_images`. `scenes` is the embedded dataset.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.data.readers.cifar_classes import CIFAR_CLASSES
from robustvit.data.readers.class_folders import LayoutError, folder_images, plain_name
from robustvit.data.readers.corrupted_images import corrupted_images
from robustvit.data.samples import ArraySamples, ReaderSamples, SampleSet

if TYPE_CHECKING:
    from robustvit.data.scenes.dataset import Scenes

__all__ = ["LayoutError", "Split", "cifar_c_images", "embedded_scenes", "imagenet_c_images", "open_samples", "suite_folder"]

Split = Literal["train", "val", "test"]


MOST_SCENES = 10**8

SCENES = {"scenes": (0.0, 0.9), "scenes-easy": (0.9, 0.9)}
"""Forms of the embedded dataset -> the shares of objects whose colour, and whose texture, tell their class."""


def open_samples(
    source: str | Path,
    *,
    scene_size: tuple[int, int] = (224, 224),
    split: Split = "test",
    ignore_orientation: bool = False,
) -> SampleSet:
    """The images at `source`.

    Args:
        source: a folder of class folders (or one with train/ and val/ in it), a folder with CIFAR's files, a .tar file,
            `wds/...` or `hfds/...`, "cifar10:FOLDER" or "cifar100:FOLDER" (torchvision downloads it there unless it is
            there), or "scenes" ("scenes:500" for 500 images) for the embedded dataset, "scenes-easy" for its easy form.
        scene_size: (H, W) of the images of the embedded dataset.
        split: which part of it. "val" and "test" are the same but for `scenes`, where they share no image.
        ignore_orientation: take pixels as they are stored, without regard to the EXIF tag of cameras.
    """
    text = str(source)
    if text.partition(":")[0] in SCENES:
        from robustvit.data.scenes.samples import SceneSamples

        return SceneSamples(*embedded_scenes(text, scene_size, split))
    if text.startswith(("wds/", "hfds/")):
        from robustvit.data.readers.archives import hfds_images, wds_images

        if split == "train":
            return _archive_to_train_on(text, ignore_orientation)
        return (wds_images if text.startswith("wds/") else hfds_images)(text, ignore_orientation=ignore_orientation)
    if text.startswith(("cifar10:", "cifar100:")):
        dataset, _, folder = text.partition(":")
        return _cifar(Path(folder), dataset.upper(), split, download=True)
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}; give a folder of class folders, a .tar file, or 'scenes'")
    if path.is_file() and path.suffix != ".tar":
        raise LayoutError(f"{path} is a file; give a folder of class folders or a .tar file")
    for folder, dataset in (("cifar-10-batches-py", "CIFAR10"), ("cifar-100-python", "CIFAR100")):
        if (path / folder).is_dir() or path.name == folder:
            return _cifar(path if (path / folder).is_dir() else path.parent, dataset, split)
    if path.is_file():
        from robustvit.data.readers.archives import tar_images

        return _told(tar_images(path, ignore_orientation=ignore_orientation))
    return _told(folder_images(path, train=split == "train", ignore_orientation=ignore_orientation))


def _archive_to_train_on(source: str, ignore_orientation: bool) -> ReaderSamples:
    """The split train of `hfds/NAME`; shards of webdataset can only be read from front to back."""
    if source.startswith("wds/"):
        raise LayoutError(
            f"{source} can only be read from front to back, and training takes images in any order; unpack the shards to "
            "class folders, or give a .tar file of them"
        )
    try:
        from timm.data.readers.reader_hfds import ReaderHfds
    except ImportError as error:
        raise RuntimeError(f"{source} needs the package datasets: pip install datasets") from error
    try:
        reader = ReaderHfds(source.partition("/")[2], split="train")
    except (ValueError, KeyError) as error:
        raise LayoutError(f"{source} has no split train with columns image and label: {error}") from error
    labels = list(reader.dataset[reader.label_key])
    return ReaderSamples(reader, source, labels=labels, ignore_orientation=ignore_orientation)


def embedded_scenes(text: str, size: tuple[int, int], split: Split) -> tuple[Scenes, str]:
    """The embedded dataset as "scenes", "scenes-easy" or "scenes:500" names it, with the name of its form."""
    from robustvit.data.scenes.dataset import Hints, Scenes

    name, _, length = text.partition(":")
    if length and not (length.isdecimal() and len(length) < 20):
        raise ValueError(f"{text}: give the number of images after the colon, as in scenes:500")
    if int(length or "1000") > MOST_SCENES:
        raise ValueError(f"{text}: give at most {MOST_SCENES:,} images")
    return Scenes(split, int(length or "1000"), size, hints=Hints(*SCENES[name])), name


def _told(pictures: ReaderSamples) -> ReaderSamples:
    if pictures.order_note:
        warnings.warn(f"{pictures.name}: {pictures.order_note}", stacklevel=3)
    return pictures


def _cifar(root: Path, dataset: str, split: Split, *, download: bool = False) -> ArraySamples:
    import torchvision

    try:
        part = getattr(torchvision.datasets, dataset)(str(root), train=split == "train", download=download)
    except (RuntimeError, OSError) as error:  # damaged, or nothing to be had
        raise LayoutError(f"{dataset} cannot be read from {root}: {error}") from error
    return ArraySamples(part.data, part.targets, dataset.lower(), part.classes)


def suite_folder(data: str | Path, suite: str) -> Path:
    """Where the files of a suite are: the folder in `data` that has its name ("ImageNet-C", "imagenet_c"), else `data`."""
    path = Path(data)
    if not path.is_dir():
        return path
    below = [entry for entry in sorted(path.iterdir()) if plain_name(entry.name) == plain_name(suite) and entry.is_dir()]
    return next((entry for entry in below if entry.name == suite), below[0] if below else path)


def imagenet_c_images(
    root: Path, names: Sequence[str], severities: Sequence[int] = SEVERITIES
) -> dict[tuple[str, int], SampleSet] | None:
    """`corrupted_images`, with a warning where the order of the classes may surprise."""
    pictures = corrupted_images(root, names, severities)
    if pictures is None:
        return None
    _told(next(iter(pictures.values())))
    return dict(pictures)


def cifar_c_images(
    root: Path, names: Sequence[str], severities: Sequence[int] = SEVERITIES, *, kind: str | None = None
) -> dict[tuple[str, int], SampleSet]:
    """(corruption, severity) -> images, from `root/CORRUPTION.npy` and `root/labels.npy`.

    Args:
        root: the folder.
        names: the corruptions.
        severities: of 1 to 5.
        kind: whose classes they have, "cifar10" or "cifar100"; None leaves them without names.

    Raises:
        LayoutError: files are missing, or not of the published shape, or have labels of another dataset.
    """
    if missing := [f"{n}.npy" for n in (*names, "labels") if not (root / f"{n}.npy").is_file()]:
        raise LayoutError(
            f"{root} lacks {', '.join(missing)}; expected CORRUPTION.npy (uint8, 50000 x 32 x 32 x 3, severity 1 "
            "first) for each corruption, and labels.npy"
        )
    classes = CIFAR_CLASSES[kind] if kind else ()
    labels = _load(root / "labels.npy")
    _check_labels(root, labels, classes, kind)
    cells: dict[tuple[str, int], SampleSet] = {}
    for name in names:
        images = _load(root / f"{name}.npy")
        if images.shape[1:] != (32, 32, 3) or images.dtype != np.uint8:
            raise LayoutError(f"{root / name}.npy has {images.dtype} {list(images.shape)}; expected uint8 [N, 32, 32, 3]")
        if len(images) % 5 or len(images) != len(labels):
            raise LayoutError(
                f"{root / name}.npy has {len(images)} images for {len(labels)} labels; expected five times the same"
            )
        per_severity = len(images) // 5
        for severity in severities:
            rows = slice((severity - 1) * per_severity, severity * per_severity)
            cells[name, severity] = ArraySamples(images[rows], labels[rows], str(root), classes)
    return cells


def _load(path: Path) -> np.ndarray:
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header fails anywhere in NumPy's reader
        told = str(error).partition("\n")[0][:100]
        reason = "it holds objects, not numbers" if "allow_pickle" in told else told  # NumPy advises to run them
        raise LayoutError(f"{path} cannot be read: {reason}; download it again") from error
    if not isinstance(stored, np.ndarray):
        raise LayoutError(f"{path} is an archive, not an array; download it again")
    return stored


def _check_labels(root: Path, labels: np.ndarray, classes: Sequence[str], kind: str | None) -> None:
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise LayoutError(f"{root}/labels.npy has {labels.dtype} {list(labels.shape)}; expected integers [N]")
    if classes and len(labels) and not 0 <= labels.min() <= labels.max() < len(classes):
        raise LayoutError(
            f"{root}/labels.npy has labels from {labels.min()} to {labels.max()}; {kind} has 0 to {len(classes) - 1}: "
            "choose the suite of the other dataset, or its folder"
        )
