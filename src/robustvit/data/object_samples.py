"""Images with labelled objects: what detection is trained and measured on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from robustvit.data.label_maps import Colour
from robustvit.data.map_samples import named
from robustvit.data.object_annotations import ObjectTable
from robustvit.data.palettes import distinct_colours
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.samples import Sample
from robustvit.metrics.box_matching import Labelled
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.image_files import UnreadablePictureError, image_size, read_image

__all__ = ["NO_OBJECTS", "ObjectClasses", "ObjectFile", "ObjectFiles", "ObjectSamples"]

ImageId = int | str
_ASKING = 8
"""Threads that look at files before the work starts."""
_COLOURS = 256


class ObjectSamples(ABC):
    """A set of samples whose targets are labelled objects: `Labelled`, in pixels of the image.

    Attributes:
        name: for the result file.
        classes: names in the order of the class indices; empty where nobody knows them.
        palette: a colour (red, green, blue) for each class.
        category_ids: class index -> category id in the annotation file; None where there is none.
        image_ids: id of a sample -> id of its image in the annotation file; None where there is none.
        has_targets: whether the objects are labelled; where not, `target()` raises LayoutError.
        has_masks: whether every object has a mask.
        problems: what is wrong with the annotations, a line for each kind, with counts and the first few names.
        carried: attributes that a part of the set has too, see `SomeSamples`.
    """

    name: str
    classes: tuple[str, ...]
    palette: tuple[Colour, ...]
    category_ids: tuple[int, ...] | None
    image_ids: Mapping[str, ImageId] | None
    has_targets: bool
    has_masks: bool
    problems: tuple[str, ...]
    carried: ClassVar[tuple[str, ...]] = (
        "palette",
        "category_ids",
        "image_ids",
        "has_targets",
        "has_masks",
        "problems",
        "require_targets",
    )

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
        """Raises LayoutError where the objects are not labelled."""
        if not self.has_targets:
            raise LayoutError(f"{self.name} has images without labelled objects, which cannot be measured or learned from")

    def check_values(self, positions: Sequence[int] | None = None) -> None:  # noqa: B027 generated objects have no faults
        """Looks at the images of these samples, of all by default, before the work starts; see `data.samples`.

        Raises:
            LayoutError: some have another size than their annotations say.
        """


@dataclass(frozen=True)
class ObjectClasses:
    """The classes of a dataset.

    Attributes:
        names: in the order of the class indices.
        category_ids: class index -> id in the annotation file; None where there is none.
    """

    names: tuple[str, ...]
    category_ids: tuple[int, ...] | None = None


NO_OBJECTS = ObjectClasses(())


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """An image on disk with its place in the table of objects.

    Attributes:
        id: of the sample.
        image: the file.
        row: position of the image in the table.
        image_id: in the annotation file.
    """

    id: str
    image: Path
    row: int = 0
    image_id: ImageId | None = None


class ObjectFiles(ObjectSamples):
    """Images on disk with labelled objects, or all without.

    Args:
        files: at least one.
        name: for the result file.
        about: their classes.
        table: their objects; None for images without labels.
        problems: see `ObjectSamples`.
        expected: where labels were looked for, for the message of a set without them.
        ignore_orientation: see `read_image`.
    """

    def __init__(
        self,
        files: Sequence[ObjectFile],
        name: str,
        about: ObjectClasses,
        table: ObjectTable | None,
        *,
        problems: Sequence[str] = (),
        expected: str = "",
        ignore_orientation: bool = False,
    ) -> None:
        self.files, self.name, self.about, self.table = list(files), name, about, table
        self.expected, self.ignore_orientation = expected, ignore_orientation
        self.classes, self.category_ids = about.names, about.category_ids
        self.palette = _palette(len(about.names))
        self.problems = tuple(problems)
        self.has_targets, self.has_masks = table is not None, table is not None and table.has_masks
        ids = {file.id: file.image_id for file in files if file.image_id is not None}
        self.image_ids = ids or None
        self.looked_into: set[int] = set()

    def with_files(self, files: Sequence[ObjectFile], name: str) -> ObjectFiles:
        """Copies of the images with the same objects. They have the pixels as they were changed, and no EXIF tags."""
        return ObjectFiles(
            files, name, self.about, self.table, problems=self.problems, expected=self.expected, ignore_orientation=True
        )

    def __len__(self) -> int:
        return len(self.files)

    def at(self, i: int) -> Sample:
        file = self.files[i]
        return Sample(file.id, partial(read_image, file.image, ignore_orientation=self.ignore_orientation), self._target(file))

    def _target(self, file: ObjectFile) -> Callable[[], Labelled]:
        return self._refuse if self.table is None else partial(self._objects, self.table, file)

    def _objects(self, table: ObjectTable, file: ObjectFile) -> Labelled:
        size = table.size(file.row) or image_size(file.image, ignore_orientation=self.ignore_orientation)
        return table.objects(file.row, size)

    def _refuse(self) -> Labelled:
        self.require_targets()
        raise AssertionError

    def require_targets(self) -> None:
        if not self.has_targets:
            told = f"; expected {self.expected}" if self.expected else ""
            unlabelled = f"{len(self)} images without labelled objects, such as {self.files[0].id}"
            raise LayoutError(f"{self.name} has {unlabelled}, which only `predict` takes{told}")

    def learnable(self) -> list[int]:
        """Positions of the images that a detector learns from, as published: with a side of 32 pixels or more, as far as the
        annotations tell, and at least one object that is no crowd and has 1 pixel or more in width and height."""
        self.require_targets()
        assert self.table is not None
        usable = self.table.usable()
        return [i for i, file in enumerate(self.files) if usable[file.row]]

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """Images by name, size and time, and their objects."""
        files = self.files if positions is None else [self.files[i] for i in positions]
        digest.add([file.id for file in files], self.category_ids, self.has_targets)
        digest.add_files(Path(), [str(file.image) for file in files])
        if self.table is not None:
            self.table.add_to(digest, [file.row for file in files])

    def check_values(self, positions: Sequence[int] | None = None) -> None:
        """See `ObjectSamples.check_values`. Damaged images are left to the work itself, which counts and names them."""
        chosen = sorted(set(range(len(self)) if positions is None else positions) - self.looked_into)
        self.check_sizes(chosen)
        self.looked_into.update(chosen)

    def check_sizes(self, positions: Sequence[int], originals: ObjectFiles | None = None) -> None:
        """Looks at the size of some images.

        Args:
            positions: of these.
            originals: the images that these are copies of, which tell the sizes that their annotations do not.

        Raises:
            LayoutError: some have another size than their annotations, or the originals, say.
        """
        known = {} if originals is None else {file.row: file.image for file in originals.files}
        with ThreadPoolExecutor(_ASKING) as pool:
            found = [told for told in pool.map(lambda i: self._size_problem(self.files[i], known), positions) if told]
        if found:
            raise LayoutError(
                f"{self.name}: {len(found)} images have another size than their annotations say ({named(found)}); boxes "
                "are in pixels of the image: correct width and height in the annotations, or give the images they are of"
            )

    def _size_problem(self, file: ObjectFile, originals: Mapping[int, Path]) -> str | None:
        """What is wrong with the size of an image; None for nothing, or for what cannot be read or is not known."""
        with suppress(UnreadablePictureError, OSError):
            said = None if self.table is None else self.table.size(file.row)
            if said is None and file.row in originals:
                said = image_size(originals[file.row], ignore_orientation=False)
            if said is None:
                return None
            there = image_size(file.image, ignore_orientation=self.ignore_orientation)
            if there != said:
                is_turned = not self.ignore_orientation and image_size(file.image, ignore_orientation=True) == said
                why = ": that is before its EXIF tag turns it, see --ignore-orientation, in training data.ignore_orientation"
                return f"{file.id} has {said[1]}x{said[0]} for {there[1]}x{there[0]} pixels{why if is_turned else ''}"
        return None


def _palette(count: int) -> tuple[Colour, ...]:
    """Colours of classes; from `_COLOURS` on they repeat, as more could not be told apart."""
    some = distinct_colours(min(count, _COLOURS))
    return tuple(some[i % len(some)] for i in range(count))
