"""Images with label maps: what segmentation is trained and measured on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from robustvit.data.label_classes import LabelClasses
from robustvit.data.label_maps import Colour, LabelLookup, read_label_map
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.samples import Sample
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.image_files import UnreadablePictureError, image_size, read_image

__all__ = ["MapFile", "MapFiles", "MapSamples", "named"]

_ASKING = 8
"""Threads that look at files before the work starts."""
LOOKED_INTO = 8
"""Label maps whose values are looked at before the work starts, evenly spread; all others when their turn comes."""


class MapSamples(ABC):
    """A set of samples whose targets are label maps: uint8 [H, W] of the size of the image, 255 = ignored.

    Attributes:
        name: for the result file.
        classes: names in the order of the train ids; empty where nobody knows them.
        palette: a colour (red, green, blue) for each class.
        label_ids: train id -> value that an evaluation server wants; None where there is none.
        has_targets: whether the samples have label maps; where not, `target()` raises LayoutError.
        carried: attributes that a part of the set has too, see `SomeSamples`.
    """

    name: str
    classes: tuple[str, ...]
    palette: tuple[Colour, ...]
    label_ids: tuple[int, ...] | None
    has_targets: bool
    carried: ClassVar[tuple[str, ...]] = ("palette", "label_ids", "has_targets")

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def at(self, i: int) -> Sample:
        """The sample at a position; its id is a path with "/", relative to the images of the dataset."""

    @abstractmethod
    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """Lets a digest depend on these samples; see `data.sample_digest`."""

    def __iter__(self) -> Iterator[Sample]:
        yield from map(self.at, range(len(self)))

    def require_targets(self) -> None:
        """Raises LayoutError where the samples have no label maps."""
        if not self.has_targets:
            raise LayoutError(f"{self.name} has images without label maps, which cannot be measured or learned from")


@dataclass(frozen=True, slots=True)
class MapFile:
    """An image on disk with its label map.

    Attributes:
        id: of the sample.
        image, label: the files.
        lookup: what the values of the label map stand for.
    """

    id: str
    image: Path
    label: Path | None = None
    lookup: LabelLookup | None = None


class MapFiles(MapSamples):
    """Images on disk, each with a label map, or all without.

    Args:
        files: at least one.
        name: for the result file.
        about: their classes.
        expected: where label maps were looked for, for the message of a set without them.
        ignore_orientation: see `read_image`.
    """

    def __init__(
        self,
        files: Sequence[MapFile],
        name: str,
        about: LabelClasses,
        *,
        expected: str = "",
        ignore_orientation: bool = False,
    ) -> None:
        self.files, self.name, self.expected, self.ignore_orientation = list(files), name, expected, ignore_orientation
        self.about = about
        self.classes, self.palette, self.label_ids = about.names, about.palette, about.label_ids
        self.has_targets = all(file.label is not None for file in files)

    def __len__(self) -> int:
        return len(self.files)

    def at(self, i: int) -> Sample:
        file = self.files[i]
        return Sample(file.id, lambda: read_image(file.image, ignore_orientation=self.ignore_orientation), self._target(file))

    def _target(self, file: MapFile) -> Callable[[], NDArray[np.uint8]]:
        if file.label is None:
            return self._refuse
        return partial(read_label_map, file.label, file.lookup)

    def _refuse(self) -> NDArray[np.uint8]:
        self.require_targets()
        raise AssertionError

    def require_targets(self) -> None:
        if not self.has_targets:
            told = f"; expected {self.expected}" if self.expected else ""
            raise LayoutError(f"{self.name} has {len(self)} images without label maps, such as {self.files[0].id}{told}")

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """Images and label maps by name, size and time, and what the values stand for."""
        files = self.files if positions is None else [self.files[i] for i in positions]
        digest.add([file.id for file in files], self.palette, self.label_ids)
        digest.add(list({id(file.lookup): file.lookup for file in files}.values()))
        digest.add_files(Path(), [str(file.image) for file in files])
        digest.add_files(Path(), [str(file.label) for file in files if file.label is not None])

    def check(self, looked_at: int | None = None) -> None:
        """Looks at the size of every image and label map, and into some label maps, before the work starts.

        Damaged files are left to the work itself, which counts and names them.

        Args:
            looked_at: how many pairs, evenly spread; None for all.

        Raises:
            LayoutError: label maps of another size than their images, or with values that stand for no class.
        """
        if not self.has_targets:
            return
        with ThreadPoolExecutor(_ASKING) as pool:
            found = [told for told in pool.map(self._size_problem, _spread(self.files, looked_at)) if told]
            if found:
                raise LayoutError(
                    f"{self.name}: {len(found)} label maps have another size than their images ({named(found)}); a label map "
                    "has a value for each pixel of its image, so resize neither, or both"
                )
            for _ in pool.map(_look_into, _spread(self.files, LOOKED_INTO)):
                pass

    def _size_problem(self, file: MapFile) -> str | None:
        """What is wrong with the size of a label map; None for nothing, or for what cannot be read."""
        assert file.label is not None
        with suppress(UnreadablePictureError):
            image = image_size(file.image, ignore_orientation=self.ignore_orientation)
            label = image_size(file.label, ignore_orientation=True)
            if image != label:
                is_turned = not self.ignore_orientation and image_size(file.image, ignore_orientation=True) == label
                why = ": the label map is that of the image before its EXIF tag turns it, see --ignore-orientation"
                sizes = f"{label[1]}x{label[0]} for {image[1]}x{image[0]} pixels"
                return f"{file.id} has {sizes}{why if is_turned else ''}"
        return None


def _look_into(file: MapFile) -> None:
    assert file.label is not None
    with suppress(UnreadablePictureError):
        read_label_map(file.label, file.lookup)


def _spread(files: Sequence[MapFile], count: int | None) -> list[MapFile]:
    if count is None or len(files) <= count:
        return list(files)
    return [files[i] for i in np.linspace(0, len(files) - 1, count).astype(int)]


def named(names: Sequence[str], most: int = 4) -> str:
    """The first few of some names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
