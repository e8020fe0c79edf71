"""Images with label maps: what segmentation is trained and measured on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robustvit.data.label_classes import CLASS_FILE, LabelClasses
from robustvit.data.label_maps import BYTES, Colour, LabelLookup, LabelValueError, read_label_map
from robustvit.data.label_values import values_of_files
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.samples import Sample
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.image_files import UnreadablePictureError, image_size, read_image

__all__ = ["MapFile", "MapFiles", "MapSamples", "named"]

_ASKING = 8
"""Threads that look at files before the work starts."""
_NAMED = 4
"""Files, and values of each, in a message."""


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

    def check_values(self, positions: Sequence[int] | None = None) -> None:  # noqa: B027 generated maps have no wrong values
        """Looks into the label maps of these samples, of all by default, before the work starts; see `data.samples`.

        Raises:
            LabelValueError: some have values that stand for no class.
        """


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

    Attributes:
        looked_into: positions whose label maps `check_values` has looked into.
        damaged: of these, position -> why the label map cannot be read. Such a sample cannot be opened, so that whoever works
            through the set counts and names it as one with a damaged image.

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
        self.looked_into: set[int] = set()
        self.damaged: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.files)

    def at(self, i: int) -> Sample:
        file = self.files[i]
        return Sample(file.id, partial(self._open, i), self._target(file))

    def _open(self, i: int) -> Image.Image:
        if i in self.damaged:
            raise UnreadablePictureError(self.damaged[i])
        return read_image(self.files[i].image, ignore_orientation=self.ignore_orientation)

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

    def check_sizes(self, looked_at: int | None = None) -> None:
        """Looks at the size of every image and label map before the work starts.

        Damaged files are left to the work itself, which counts and names them.

        Args:
            looked_at: how many pairs, evenly spread; None for all.

        Raises:
            LayoutError: label maps of another size than their images.
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

    def check_values(self, positions: Sequence[int] | None = None) -> None:
        """See `MapSamples.check_values`. Damaged label maps are no error; `damaged` has them then."""
        if not self.has_targets:
            return
        chosen = sorted(set(range(len(self)) if positions is None else positions) - self.looked_into)
        files = [self.files[i] for i in chosen]
        found = values_of_files([file.label for file in files if file.label is not None], self.name)
        unknown = [(file, wrong) for file, has in zip(files, found, strict=True) if (wrong := _lookup(file).unknown(has))]
        if unknown:
            raise LabelValueError(_told_values(self.name, unknown, len(files)))
        labels = zip(chosen, files, found, strict=True)
        self.damaged |= {i: f"label map {file.label}: {has.damage}" for i, file, has in labels if has.damage}
        self.looked_into.update(chosen)


def _lookup(file: MapFile) -> LabelLookup:
    return file.lookup or BYTES


def _told_values(name: str, unknown: Sequence[tuple[MapFile, Sequence[Any]]], count: int) -> str:
    """What is said about label maps with unknown values, or colours, of `count` that were looked into."""
    told = [f"{file.label} has {named(list(map(str, wrong)))}" for file, wrong in unknown]
    lookup, first = _lookup(unknown[0][0]), unknown[0][1][0]
    what = "colours" if isinstance(first, tuple) else "values"
    advice = f"say in {CLASS_FILE} which class they are or that they are ignored"
    if what == "colours" and not lookup.colours:
        advice = f"give each class its color in {CLASS_FILE}"
    return (
        f"{name}: {len(unknown)} of {count} label maps have {what} that stand for no class: {'; '.join(told[:_NAMED])}"
        f"{'; ...' if len(told) > _NAMED else ''}. Expected {lookup.expected}. Correct the files, or {advice}"
    )


def _spread(files: Sequence[MapFile], count: int | None) -> list[MapFile]:
    if count is None or len(files) <= count:
        return list(files)
    return [files[i] for i in np.linspace(0, len(files) - 1, count).astype(int)]


def named(names: Sequence[str], most: int = _NAMED) -> str:
    """The first few of some names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
