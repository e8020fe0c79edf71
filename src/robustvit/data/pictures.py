"""Pictures to evaluate on: where they come from, what they are called, and how a file becomes 8-bit RGB.

A set of pictures is iterable and lazy: decoding happens when a picture is opened, so that skipping is free. What cannot be
read raises `UnreadablePictureError`, which whoever iterates counts and names.
"""

from __future__ import annotations

import io
import struct
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

__all__ = [
    "ArrayPictures",
    "DatasetPictures",
    "Picture",
    "PictureSet",
    "ReaderPictures",
    "SomePictures",
    "UnreadablePictureError",
    "read_picture",
    "to_rgb",
]

_BROKEN = (OSError, UnidentifiedImageError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError)


class UnreadablePictureError(ValueError):
    """A file that is no picture, or is damaged."""


@dataclass(frozen=True)
class Picture:
    """One picture of a set.

    Attributes:
        id: its name within the set; with the seed, it decides its corruptions.
        label: index of its class.
        open: decodes it to an RGB image; raises UnreadablePictureError.
    """

    id: str
    label: int
    open: Callable[[], Image.Image]


class PictureSet(Protocol):
    """What can be evaluated on.

    Attributes:
        name: for the result file.
        classes: their names in the order of the labels; empty where nobody knows them.
    """

    name: str
    classes: tuple[str, ...]

    def __iter__(self) -> Iterator[Picture]: ...

    def __len__(self) -> int: ...


def to_rgb(image: Image.Image) -> Image.Image:
    """8-bit RGB: grey is repeated, 16 bits are scaled down, CMYK and palettes converted; the first frame of an animation."""
    if getattr(image, "n_frames", 1) > 1:
        image.seek(0)
    if image.mode == "F":
        raise UnreadablePictureError("its values are floating-point numbers, whose range is not known")
    if image.mode.startswith("I"):  # 16 bits, in 32 where Pillow has no mode of its own
        values = np.asarray(image).astype(np.int64)
        high = 65535 if values.max(initial=0) > 255 else 255
        return Image.fromarray((values.clip(0, high) * 255 // high).astype(np.uint8)).convert("RGB")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # palettes with transparency in bytes
        return image.convert("RGB")


def read_picture(source: Any) -> Image.Image:
    """A path, a file or an image, as 8-bit RGB.

    Raises:
        UnreadablePictureError: it is no picture, or a damaged one.
    """
    try:
        if isinstance(source, Image.Image):
            return to_rgb(source)
        with Image.open(source) as image:
            return to_rgb(image)
    except UnreadablePictureError:
        raise
    except _BROKEN as error:
        raise UnreadablePictureError(str(error) or type(error).__name__) from error


class ReaderPictures:
    """The pictures of a timm reader: a folder of class folders, a tar file, `wds/...`, `hfds/...`."""

    def __init__(self, reader: Any, name: str, classes: Sequence[str] = ()) -> None:
        self.reader, self.name = reader, name
        numbers = getattr(reader, "class_to_idx", None) or getattr(reader, "class_name_to_idx", None) or {}
        self.classes = tuple(classes) or tuple(sorted(numbers, key=numbers.__getitem__))
        self.lock = threading.Lock()  # the pictures of a tar file share one file

    def __len__(self) -> int:
        return len(self.reader)

    def __iter__(self) -> Iterator[Picture]:
        if not hasattr(self.reader, "__getitem__"):  # a stream
            for i, (source, label) in enumerate(self.reader):
                yield Picture(str(i), int(label), lambda source=source: read_picture(source))  # type: ignore[misc]
            return
        yield from map(self.at, range(len(self)))

    def at(self, i: int) -> Picture:
        targets, samples = getattr(self.reader, "targets", None), getattr(self.reader, "samples", None)
        label = targets[i] if targets is not None else samples[i][1] if samples else self.reader[i][1]
        return Picture(Path(self.reader.filename(i)).as_posix(), int(label), lambda: self._open(i))

    def _open(self, i: int) -> Image.Image:
        try:
            with self.lock:
                source = self.reader[i][0]
                if hasattr(source, "read"):
                    with source:
                        source = io.BytesIO(source.read())
        except _BROKEN as error:
            raise UnreadablePictureError(str(error)) from error
        return read_picture(source)


class ArrayPictures:
    """Pictures in memory or in a memory map: uint8 [N, H, W, 3] with their labels [N]."""

    def __init__(self, images: np.ndarray, labels: Sequence[int], name: str, classes: Sequence[str] = ()) -> None:
        if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != np.uint8:
            raise ValueError(f"{name}: pictures must be uint8 [N, H, W, 3], got {images.dtype} {list(images.shape)}")
        if len(images) != len(labels):
            raise ValueError(f"{name}: {len(images)} pictures, but {len(labels)} labels")
        self.images, self.labels, self.name, self.classes = images, labels, name, tuple(classes)

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[Picture]:
        yield from map(self.at, range(len(self)))

    def at(self, i: int) -> Picture:
        return Picture(str(i), int(self.labels[i]), lambda: Image.fromarray(self.images[i]))


class SomePictures:
    """Those pictures of a set whose positions are given."""

    def __init__(self, pictures: PictureSet, positions: Sequence[int]) -> None:
        self.pictures, self.positions = pictures, sorted(positions)
        self.name, self.classes = pictures.name, pictures.classes

    def __len__(self) -> int:
        return len(self.positions)

    def __iter__(self) -> Iterator[Picture]:
        at = getattr(self.pictures, "at", None)
        if at is not None:
            yield from map(at, self.positions)
            return
        wanted = set(self.positions)
        yield from (picture for i, picture in enumerate(self.pictures) if i in wanted)


class DatasetPictures:
    """Any map-style dataset of (picture, label): PIL images, uint8 tensors [3, H, W] or uint8 arrays H x W x 3."""

    def __init__(self, dataset: Any, name: str | None = None, classes: Sequence[str] = ()) -> None:
        self.dataset, self.name = dataset, name or type(dataset).__name__
        self.classes = tuple(classes or getattr(dataset, "classes", ()) or ())

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[Picture]:
        yield from map(self.at, range(len(self)))

    def at(self, i: int) -> Picture:
        image, label = self.dataset[i]
        return Picture(str(i), int(label), lambda: self._to_image(image))

    def _to_image(self, image: Any) -> Image.Image:
        if isinstance(image, torch.Tensor):
            if image.dtype != torch.uint8 or image.ndim != 3:
                kind = f"{image.dtype} {list(image.shape)}"
                raise ValueError(
                    f"{self.name}: tensors must be uint8 [3, H, W], got {kind}; leave normalising to the evaluation"
                )
            image = image.permute(1, 2, 0).cpu().numpy()
        if isinstance(image, np.ndarray):
            image = Image.fromarray(np.ascontiguousarray(image.squeeze()))
        return read_picture(image)
