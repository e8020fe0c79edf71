"""Images to evaluate on: where they come from and what they are called; `image_files` reads them.

A set of images is iterable and lazy: decoding happens when an image is opened, so that skipping is free. What cannot be
read raises `UnreadablePictureError`, which whoever iterates counts and names.
"""

from __future__ import annotations

import numbers
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image

from robustvit.data.sample_digest import add_dataset, add_samples
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.image_files import MOST_BYTES, UnreadablePictureError, read_image

__all__ = [
    "IMAGE_SUFFIXES",
    "ArraySamples",
    "DatasetSamples",
    "ReaderSamples",
    "Sample",
    "SampleSet",
    "SomeSamples",
    "UnreadablePictureError",
    "check_values",
    "read_image",
]

_SUFFIXES = ".png .jpg .jpeg .jpe .jfif .bmp .webp .avif .jp2 .gif .tif .tiff .ppm .pgm .pbm .pnm"
IMAGE_SUFFIXES = frozenset(_SUFFIXES.split())
"""Of files that are taken for images, whatever the case."""
_BROKEN = (OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError)


@dataclass(frozen=True)
class Sample:
    """One item of a dataset; nothing is decoded before it is asked for.

    Attributes:
        id: its name within the dataset; with the seed, it decides everything random about it.
        open: decodes its image to RGB; raises UnreadablePictureError.
        target: what a network should answer: of a classifier, the index of the class.
    """

    id: str
    open: Callable[[], Image.Image]
    target: Callable[[], Any]


class SampleSet(Protocol):
    """What can be evaluated on; with a method `add_to`, it says what its images depend on (`data.sample_digest`).

    Attributes:
        name: for the result file.
        classes: their names in the order of the labels; empty if unknown.
    """

    name: str
    classes: tuple[str, ...]

    def __iter__(self) -> Iterator[Sample]: ...

    def __len__(self) -> int: ...


class ReaderSamples:
    """The images of a map-style reader with timm's interface: class folders, a tar file, `hfds/...`.

    Args:
        reader: gives (file, label) for a position.
        name: for the result file.
        labels: of all images, where the reader has neither `targets` nor `samples`.
        order_note: how the classes are numbered, where other programs number them otherwise.
        ignore_orientation: see `read_image`.
    """

    def __init__(
        self,
        reader: Any,
        name: str,
        *,
        labels: Sequence[int] | None = None,
        order_note: str | None = None,
        ignore_orientation: bool = False,
    ) -> None:
        self.reader, self.name, self.order_note = reader, name, order_note
        self.ignore_orientation = ignore_orientation
        numbers = getattr(reader, "class_to_idx", None) or getattr(reader, "class_name_to_idx", None) or {}
        self.classes: tuple[str, ...] = tuple(sorted(numbers, key=numbers.__getitem__))
        self.has_names = labels is None
        if labels is None:
            targets = getattr(reader, "targets", None)
            labels = targets if targets is not None else [sample[1] for sample in reader.samples]
        self.labels = labels
        self.lock = threading.Lock()  # the images of a tar file share one file

    def __len__(self) -> int:
        return len(self.reader)

    def __iter__(self) -> Iterator[Sample]:
        yield from map(self.at, range(len(self)))

    def at(self, i: int) -> Sample:
        name = Path(self.reader.filename(i)).as_posix() if self.has_names else str(i)
        return Sample(name, lambda: self._open(i), lambda: int(self.labels[i]))

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """Files by name, size and time; those of a tar file as one; of Hugging Face's datasets, their own digest."""
        digest.add_array(np.asarray(self.labels))
        if hasattr(self.reader, "names"):
            names = self.reader.names
            digest.add_files(self.reader.root, names if positions is None else [names[i] for i in positions])
            return
        digest.add(getattr(getattr(self.reader, "dataset", None), "_fingerprint", None))
        file = Path(self.name)
        if file.is_file():
            digest.add_files(file.parent, [file.name])

    def _open(self, i: int) -> Image.Image:
        try:
            with self.lock:
                source = self.reader[i][0]
                if hasattr(source, "read"):
                    with source:
                        source = source.read(MOST_BYTES + 1)
        except _BROKEN as error:
            raise UnreadablePictureError(str(error)) from error
        return read_image(source, ignore_orientation=self.ignore_orientation)


class ArraySamples:
    """Images in memory or in a memory map: uint8 [N, H, W, 3] with their labels [N]."""

    def __init__(self, images: np.ndarray, labels: Sequence[int] | np.ndarray, name: str, classes: Sequence[str] = ()) -> None:
        if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != np.uint8:
            raise ValueError(f"{name}: images must be uint8 [N, H, W, 3], got {images.dtype} {list(images.shape)}")
        if len(images) != len(labels):
            raise ValueError(f"{name}: {len(images)} images, but {len(labels)} labels")
        self.images, self.labels, self.name, self.classes = images, labels, name, tuple(classes)

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[Sample]:
        yield from map(self.at, range(len(self)))

    def at(self, i: int) -> Sample:
        return Sample(str(i), lambda: Image.fromarray(self.images[i]), lambda: int(self.labels[i]))

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """Contents in memory; of mapped files, name, size and time."""
        digest.add_array(self.images)
        digest.add_array(np.asanyarray(self.labels))


class SomeSamples:
    """Those images of a set whose positions are given; `at` is there if the set has it, and what it lists as `carried`."""

    at: Callable[[int], Sample]

    def __init__(self, pictures: SampleSet, positions: Sequence[int]) -> None:
        self.pictures, self.positions = pictures, sorted(positions)
        self.name, self.classes = pictures.name, pictures.classes
        if (at := getattr(pictures, "at", None)) is not None:
            self.at = lambda i: at(self.positions[i])
        for name in getattr(pictures, "carried", ()):
            setattr(self, name, getattr(pictures, name))

    def __len__(self) -> int:
        return len(self.positions)

    def __iter__(self) -> Iterator[Sample]:
        if hasattr(self, "at"):
            yield from map(self.at, range(len(self)))
            return
        wanted = set(self.positions)
        stream = islice(self.pictures, max(wanted, default=-1) + 1)
        yield from (picture for i, picture in enumerate(stream) if i in wanted)

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """The chosen images of the set."""
        chosen = self.positions if positions is None else [self.positions[i] for i in positions]
        digest.add_array(np.asarray(chosen, np.int64))
        add_samples(digest, self.pictures, chosen)

    def check_values(self, positions: Sequence[int] | None = None) -> None:
        """See `check_values`: only the chosen samples are looked into."""
        check_values(self.pictures, self.positions if positions is None else [self.positions[i] for i in positions])


def check_values(samples: SampleSet, positions: Sequence[int] | None = None) -> None:
    """Lets a set look into the targets that will be used, of all samples by default, before the work starts.

    It costs nothing where a set has no method `check_values`, or has looked already. What cannot be read is no error here.

    Raises:
        ValueError: the set says what is wrong with its targets.
    """
    if (check := getattr(samples, "check_values", None)) is not None:
        check(positions)


class DatasetSamples:
    """Any map-style dataset of (image, label): PIL images, uint8 tensors [3, H, W] or uint8 arrays H x W x 3.

    `dataset[i]` is called when image i is opened, by one thread at a time, because not every dataset can be shared. Labels
    come from its `targets`, `labels` or `samples` (torchvision's habits) where these are one integer per image. PIL images
    that have kept an EXIF tag are set upright, unless `ignore_orientation` is set.
    """

    def __init__(
        self, dataset: Any, name: str | None = None, classes: Sequence[str] = (), *, ignore_orientation: bool = False
    ) -> None:
        self.dataset, self.name = dataset, name or type(dataset).__name__
        self.ignore_orientation = ignore_orientation
        self.classes = tuple(classes or getattr(dataset, "classes", ()) or ())
        self.labels = _known_labels(dataset)
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[Sample]:
        yield from map(self.at, range(len(self)))

    def at(self, i: int) -> Sample:
        item = _Item(self, i)
        return Sample(str(i), item.open, item.target)

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """See `add_dataset`."""
        add_dataset(digest, self.dataset, positions)

    def read(self, i: int) -> tuple[Any, int]:
        """What the dataset has at position i.

        Raises:
            UnreadablePictureError: its file is missing or damaged.
        """
        try:
            with self.lock:
                item = self.dataset[i]
        except (*_BROKEN, RuntimeError) as error:  # RuntimeError: torchvision's decoders
            raise UnreadablePictureError(str(error) or type(error).__name__) from error
        if not isinstance(item, Sequence) or len(item) < 2:
            raise TypeError(f"{self.name}: item {i} is a {type(item).__name__}; expected a pair (image, label)")
        return item[0], int(item[1])

    def to_image(self, image: Any) -> Image.Image:
        if isinstance(image, torch.Tensor):
            if image.dtype != torch.uint8 or image.ndim != 3:
                kind = f"{image.dtype} {list(image.shape)}"
                raise ValueError(
                    f"{self.name}: tensors must be uint8 [3, H, W], got {kind}; leave normalising to the evaluation"
                )
            image = image.permute(1, 2, 0).cpu().numpy()
        if isinstance(image, np.ndarray):
            image = Image.fromarray(np.ascontiguousarray(image.squeeze()))
        return read_image(image, ignore_orientation=self.ignore_orientation)


class _Item:
    """Item i of a dataset, whose target is that of the last decoding; before, the known label, or that of a first decoding."""

    def __init__(self, samples: DatasetSamples, i: int) -> None:
        self.samples, self.position = samples, i
        self.label: int | None = None if samples.labels is None else int(samples.labels[i])

    def open(self) -> Image.Image:
        return self.samples.to_image(self._read())

    def target(self) -> int:
        if self.label is None:
            self._read()
        assert self.label is not None
        return self.label

    def _read(self) -> Any:
        image, self.label = self.samples.read(self.position)
        return image


def _known_labels(dataset: Any) -> Sequence[int] | None:
    """One integer per image, without decoding any; None if the dataset does not have them, or transforms them."""
    both = getattr(dataset, "transforms", None)  # of image and label; torchvision also wraps that of the image alone
    if getattr(dataset, "target_transform", None) is not None or getattr(both, "target_transform", both) is not None:
        return None
    samples = getattr(dataset, "samples", None)
    candidates = [getattr(dataset, name, None) for name in ("targets", "labels")]
    if isinstance(samples, list) and all(isinstance(sample, tuple) and len(sample) == 2 for sample in samples):
        candidates.append([label for _, label in samples])
    for labels in candidates:
        values = labels.tolist() if isinstance(labels, torch.Tensor | np.ndarray) else labels
        if isinstance(values, list | tuple) and len(values) == len(dataset) and _are_integers(values):
            return values
    return None


def _are_integers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, numbers.Integral) for value in values)
