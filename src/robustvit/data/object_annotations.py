"""Labelled objects of many images as arrays: what annotation files of every format become, with their faults counted.

Boxes, classes, areas and crowds of all images lie in a few arrays, so that a hundred thousand images stay small; the outlines
of masks stay packed until the target of their image is asked for. A fault of an object never stops the reading: the object is
left out or clipped, and `Problems` counts and names it.
"""

from __future__ import annotations

import marshal
import math
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustvit.data.readers.class_folders import LayoutError
from robustvit.metrics.box_matching import Labelled
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.image_files import UnreadablePictureError, image_size
from robustvit.runtime.run_lengths import RunLengths

__all__ = ["ObjectTable", "Problems", "Size", "TableBuilder", "known_sizes"]

_ASKING = 8
"""Threads that ask images for their size."""
_CHUNK = 4096
"""Objects whose outlines a digest takes at once."""
_NAMED = 4
"""Of the faults of one kind, in a message."""
_UNNOTICED, _UNNOTICED_SHARE = 1.0, 0.005
"""How far a box may reach over the edge, in pixels or shares, and stay as it is: annotation tools round, and pycocotools takes
boxes as they are."""
_ERRORS = (ValueError, TypeError, OverflowError, LookupError)
"""What values of any type may lead to where numbers are expected."""

Size = tuple[int, int]
"""(height, width)."""


class Problems:
    """The faults of annotations: how many there are of each kind, and the first few by name."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._names: dict[str, list[str]] = {}

    def add(self, kind: str, name: str) -> None:
        """Counts a fault.

        Args:
            kind: what is wrong, and what is done about it.
            name: of the annotation, the image or the file.
        """
        self._counts[kind] = self._counts.get(kind, 0) + 1
        names = self._names.setdefault(kind, [])
        if len(names) < _NAMED:
            names.append(name)

    def add_all(self, others: Problems) -> None:
        """Takes over the faults of other kinds."""
        self._counts |= others._counts
        self._names |= others._names

    def told(self) -> tuple[str, ...]:
        """A line for each kind."""
        return tuple(self._line(kind, count) for kind, count in self._counts.items())

    def _line(self, kind: str, count: int) -> str:
        names = self._names[kind]
        return f"{kind}: {count} ({', '.join(names)}{', ...' if count > len(names) else ''})"


LEAST_SIDE, LEAST_IMAGE = 1, 32
"""In pixels, of objects and of images that a detector learns from."""


@dataclass(frozen=True, eq=False)
class ObjectTable:
    """The M objects of N images, image by image.

    Attributes:
        starts: int64 [N + 1]: the objects of image i are those from starts[i] to starts[i + 1].
        boxes: float64 [M, 4]: x1, y1, x2, y2.
        classes: int64 [M].
        areas: float64 [M] in square pixels, NaN where the annotation has none.
        is_crowd: bool [M].
        outlines: the segmentations of all objects, packed, in any order; empty where the objects have no masks.
        spans: int64 [M, 2]: where the segmentation of an object begins and ends in `outlines`.
        sizes: int64 [N, 2]: height and width of the images as annotated, 0 where they are not.
        is_relative: whether boxes and outlines are given in shares of width and height, not in pixels.
    """

    starts: NDArray[np.int64]
    boxes: NDArray[np.float64]
    classes: NDArray[np.int64]
    areas: NDArray[np.float64]
    is_crowd: NDArray[np.bool_]
    outlines: bytearray
    spans: NDArray[np.int64]
    sizes: NDArray[np.int64]
    is_relative: bool = False

    @property
    def has_masks(self) -> bool:
        return bool(self.outlines)

    def size(self, image: int) -> Size | None:
        """(height, width) of an image as annotated; None where it is not."""
        h, w = map(int, self.sizes[image])
        return (h, w) if h and w else None

    def objects(self, image: int, size: Size) -> Labelled:
        """The objects of an image of (height, width) pixels."""
        part = slice(int(self.starts[image]), int(self.starts[image + 1]))
        h, w = size
        boxes = self.boxes[part] * (w, h, w, h) if self.is_relative else self.boxes[part].copy()
        masks = self._masks(part, size)
        areas = self.areas[part].copy()
        if (unknown := np.isnan(areas)).any():
            found = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) if masks is None else masks.areas()
            areas[unknown] = found[unknown]
        return Labelled(boxes, self.classes[part].copy(), areas, self.is_crowd[part].copy(), masks)

    def usable(self) -> NDArray[np.bool_]:
        """bool [N]: images with something to learn from, see `ObjectFiles.learnable`."""
        sides = self.boxes[:, 2:] - self.boxes[:, :2]
        known = self.sizes > 0
        if self.is_relative:
            owners = np.repeat(np.arange(len(self.sizes)), np.diff(self.starts))
            sides = sides * np.where(known, self.sizes, np.inf)[owners, ::-1]
        is_object = ~self.is_crowd & (sides >= LEAST_SIDE).all(1) & ~(self.areas <= 0)
        objects = np.add.reduceat(np.append(is_object, False).astype(np.int64), self.starts[:-1]) * (np.diff(self.starts) > 0)
        is_large = (self.sizes >= LEAST_IMAGE) | ~known
        return (objects > 0) & is_large.all(1)

    def _masks(self, part: slice, size: Size) -> RunLengths | None:
        if not self.has_masks:
            return None
        found = [marshal.loads(self.outlines[start:end]) for start, end in self.spans[part]]  # packed by this process
        if self.is_relative:
            scale = np.array([size[1], size[0]], np.float64)
            found = [[(np.reshape(corners, (-1, 2)) * scale).ravel() for corners in outline] for outline in found]
        return RunLengths.from_coco(found, size)

    def add_to(self, digest: Digest, images: Sequence[int]) -> None:
        """Lets a digest depend on the objects of these images."""
        rows = np.asarray(images, np.int64)
        counts = self.starts[rows + 1] - self.starts[rows]
        before = np.cumsum(counts) - counts
        objects = np.repeat(self.starts[rows] - before, counts) + np.arange(counts.sum())
        digest.add(self.is_relative, self.has_masks)
        for values in (counts, self.sizes[rows], *(a[objects] for a in (self.boxes, self.classes, self.areas, self.is_crowd))):
            digest.add_array(values)
        if self.has_masks:
            for first in range(0, len(objects), _CHUNK):
                spans = self.spans[objects[first : first + _CHUNK]].tolist()
                digest.add_array(np.frombuffer(b"".join(self.outlines[start:end] for start, end in spans), np.uint8))


class TableBuilder:
    """Takes objects one by one, checks them, and makes a table of those that can be used.

    Args:
        where: the annotations, for messages.
        sizes: (height, width) of each image, None where it is not known.
        problems: counts what is wrong.
        is_relative: see `ObjectTable`.
    """

    def __init__(self, where: Path, sizes: Sequence[Size | None], problems: Problems, *, is_relative: bool = False) -> None:
        self.where, self.sizes, self.problems, self.is_relative = where, sizes, problems, is_relative
        self._images, self._classes, self._crowds = array("q"), array("q"), array("b")
        self._boxes, self._areas = array("d"), array("d")
        self._outlines, self._ends = bytearray(), array("q", [0])
        self._unmasked = Problems()
        self._left_out = 0

    def leave_out(self, why: str, name: str) -> None:
        """Counts an object that cannot be taken.

        Args:
            why: what is wrong with such objects: "boxes without area".
            name: of the annotation.
        """
        self.problems.add(f"{why}, left out", name)
        self._left_out += 1

    def add(
        self,
        image: int,
        class_index: int,
        box: Sequence[Any],
        name: str,
        *,
        area: Any = None,
        is_crowd: bool = False,
        segmentation: Any = None,
    ) -> None:
        """Takes an object, unless something is wrong with it that cannot be mended.

        Args:
            image: position of its image.
            class_index: 0 .. classes - 1.
            box: x1, y1, x2, y2.
            name: of the annotation, for messages.
            area: in square pixels; None for that of the mask, or of the box.
            is_crowd: whether it is a region that is ignored.
            segmentation: as in COCO's files (`RunLengths.from_coco`); None or an empty one for an object without mask.
        """
        clipped = self._clipped(box, self.sizes[image], name)
        if clipped is None:
            return
        if segmentation:
            try:
                self._outlines += marshal.dumps(_checked(segmentation, (1, 1) if self.is_relative else self.sizes[image]))
            except _ERRORS:
                self.leave_out("objects with a malformed segmentation", name)
                return
        else:
            self._unmasked.add("objects without segmentation, because of which no masks are used", name)
        self._images.append(image)
        self._classes.append(class_index)
        self._crowds.append(is_crowd)
        self._boxes.extend(clipped)
        self._areas.append(_area(area))
        self._ends.append(len(self._outlines))

    def _clipped(self, box: Sequence[Any], size: Size | None, name: str) -> tuple[float, float, float, float] | None:
        """A box within its image; None where there is none left."""
        try:
            x1, y1, x2, y2 = map(float, box)
        except _ERRORS:
            x1 = y1 = x2 = y2 = math.nan
        if not math.isfinite(x1 + y1 + x2 + y2):
            self.leave_out("boxes that are not four finite numbers", name)
            return None
        if x2 <= x1 or y2 <= y1:
            self.leave_out("boxes without area", name)
            return None
        h, w = (1, 1) if self.is_relative else size or (math.inf, math.inf)
        inside = max(x1, 0.0), max(y1, 0.0), min(x2, float(w)), min(y2, float(h))
        if inside[2] <= inside[0] or inside[3] <= inside[1]:
            self.leave_out("boxes outside their image", name)
            return None
        outside = max(inside[0] - x1, inside[1] - y1, x2 - inside[2], y2 - inside[3])
        if outside <= (_UNNOTICED_SHARE if self.is_relative else _UNNOTICED):
            return x1, y1, x2, y2
        self.problems.add("boxes partly outside their image, clipped", name)
        return inside

    def table(self) -> ObjectTable:
        """What was taken; masks only if every object has one.

        Raises:
            LayoutError: there were objects, and none could be taken.
        """
        if self._left_out and not self._images:
            raise LayoutError(f"{self.where}: no object can be used: {'; '.join(self.problems.told())}")
        if self._outlines and self._unmasked.told():
            self.problems.add_all(self._unmasked)
            self._outlines.clear()
        images, ends = np.array(self._images, np.int64), np.array(self._ends, np.int64)
        order = images.argsort(kind="stable")
        return ObjectTable(
            starts=np.append(0, np.cumsum(np.bincount(images, minlength=len(self.sizes)))).astype(np.int64),
            boxes=np.array(self._boxes, np.float64).reshape(-1, 4)[order],
            classes=np.array(self._classes, np.int64)[order],
            areas=np.array(self._areas, np.float64)[order],
            is_crowd=np.array(self._crowds, bool)[order],
            outlines=self._outlines,
            spans=np.stack([ends[:-1], ends[1:]], axis=1)[order],
            sizes=np.array([size or (0, 0) for size in self.sizes], np.int64).reshape(-1, 2),
            is_relative=self.is_relative,
        )


def known_sizes(sizes: Sequence[Size | None], images: Sequence[Path], *, ignore_orientation: bool) -> list[Size | None]:
    """Sizes as annotated, or of the image files where they are not; None for damaged ones."""

    def asked(size: Size | None, image: Path) -> Size | None:
        try:
            return size or image_size(image, ignore_orientation=ignore_orientation)
        except (UnreadablePictureError, OSError):
            return None

    if all(sizes):
        return list(sizes)
    with ThreadPoolExecutor(_ASKING) as pool:
        return list(pool.map(asked, sizes, images))


def _area(area: Any) -> float:
    """NaN for one that is none."""
    try:
        value = float(area)
    except _ERRORS:
        return math.nan
    return value if 0 <= value < math.inf else math.nan


def _checked(segmentation: Any, size: Size | None) -> Any:
    """A segmentation that `RunLengths.from_coco` takes.

    Raises:
        ValueError, TypeError, OverflowError, LookupError: it is none.
    """
    if isinstance(segmentation, dict):
        if size is not None:
            RunLengths.from_coco([segmentation], size)
        return segmentation
    polygons = segmentation if isinstance(segmentation[0], list | tuple) else [segmentation]
    numbers = [[float(value) for value in polygon] for polygon in polygons]
    kept = [polygon for polygon in numbers if len(polygon) >= 6 and len(polygon) % 2 == 0]
    # a boundary is walked pixel by pixel, so that one that leaves for infinity would never end
    side = max(size) if size is not None else 1e5
    if not kept or not all(
        math.isfinite(sum(polygon)) and -side <= min(polygon) and max(polygon) <= 2 * side for polygon in kept
    ):
        raise ValueError
    return kept
