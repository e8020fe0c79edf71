"""Masks as run lengths in COCO's format: column by column, zeros and ones in turn, zeros first.

Compressed strings and filled polygons are those of pycocotools, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["RunLengths", "overlaps"]

_FINENESS = 5.0
"""Boundaries of polygons are walked on a grid that is so many times finer than the pixels."""
_FARTHEST = 1e5
"""Pixels from the origin to the corners of polygons, at most: the memory to fill one grows with its extent."""
Runs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RunLengths:
    """n masks of one size.

    Attributes:
        size: (height, width).
        runs: of each mask, the lengths of its runs, which add up to its pixels; the first one counts zeros and may be 0.
    """

    size: tuple[int, int]
    runs: tuple[Runs, ...]

    def __len__(self) -> int:
        return len(self.runs)

    def of(self, positions: ArrayLike) -> RunLengths:
        """Those at some positions, in the order given; or where a bool array [n] is true."""
        return RunLengths(self.size, tuple(self.runs[i] for i in np.arange(len(self))[_indices(positions)]))

    @staticmethod
    def from_dense(masks: NDArray[Any]) -> RunLengths:
        """Of masks [n, h, w]; every value but 0 is inside."""
        inside = np.asarray(masks, bool)
        used = np.asarray(inside.any(1))  # n w
        return RunLengths(masks.shape[1:], tuple(map(_runs_of, inside, used)))

    def dense(self) -> NDArray[np.bool_]:
        """The masks: [n, h, w]."""
        h, w = self.size
        masks = np.zeros((len(self), w, h), bool)
        for mask, runs in zip(masks, self.runs, strict=True):
            mask.reshape(-1)[:] = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
        return masks.transpose(0, 2, 1)

    def areas(self) -> NDArray[np.int64]:
        """How many pixels each mask has: [n]."""
        return np.array([runs[1::2].sum() for runs in self.runs], np.int64)

    def boxes(self) -> NDArray[np.float64]:
        """The tight boxes [n, 4]: x1, y1, x2, y2, where the right and the bottom edge are outside; zeros for empty masks."""
        (h, w), (owners, starts, ends) = self.size, self._pieces()
        boxes = np.zeros((len(self), 4))
        if len(owners):
            first = np.flatnonzero(np.diff(owners, prepend=-1))
            starts, ends = starts - owners * h * w, ends - owners * h * w - 1
            is_long = starts // h != ends // h  # over the end of a column, so that it touches the bottom and the top
            top, bottom = np.where(is_long, 0, starts % h), np.where(is_long, h, ends % h + 1)
            last = np.append(first[1:], len(owners)) - 1
            rows = np.minimum.reduceat(top, first), np.maximum.reduceat(bottom, first)
            boxes[owners[first]] = np.stack([starts[first] // h, rows[0], ends[last] // h + 1, rows[1]], axis=1)
        return boxes

    def _pieces(self) -> tuple[Runs, Runs, Runs]:
        """Runs of ones: their masks, and where they start and end if the pixels of all masks stand one after the other."""
        lengths = np.array([len(runs) for runs in self.runs], np.int64)
        runs = np.concatenate([np.zeros(0, np.int64), *self.runs])
        place = np.arange(len(runs)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        ends, is_piece = np.cumsum(runs), (place % 2 == 1) & (runs > 0)
        return np.repeat(np.arange(len(lengths)), lengths)[is_piece], (ends - runs)[is_piece], ends[is_piece]

    @staticmethod
    def from_coco(segmentations: Sequence[Any], size: tuple[int, int]) -> RunLengths:
        """Of annotations in COCO's format.

        Args:
            segmentations: each a list of polygons [x, y, x, y, ...], whose union counts, or {"size": [h, w], "counts": ...}
                with a list of run lengths or a compressed string.
            size: (height, width) of the image.

        Raises:
            ValueError: a segmentation is nothing of these, or has another size.
        """
        h, w = size
        return RunLengths((h, w), tuple(_read(segmentation, (h, w)) for segmentation in segmentations))

    def to_coco(self) -> list[dict[str, Any]]:
        """{"size": [h, w], "counts": compressed string} of each mask."""
        return [{"size": list(self.size), "counts": _compressed(runs)} for runs in self.runs]


def overlaps(
    found: RunLengths, labelled: RunLengths, is_crowd: NDArray[np.bool_], wanted: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Intersection over union [n, m] of each found mask with each labelled one; over the found area alone for crowds.

    Args:
        found: n masks.
        labelled: m masks of the same size.
        is_crowd: [m].
        wanted: [n, m], the pairs to look at; the others have 0. By default all.

    Raises:
        ValueError: the sizes differ.
    """
    if found.size != labelled.size:
        raise ValueError(f"found masks of {_text(found.size)} pixels for labelled ones of {_text(labelled.size)}")
    pairs = _boxes_meet(found.boxes(), labelled.boxes())
    pairs = pairs if wanted is None else pairs & wanted
    shared = np.zeros(pairs.shape, np.int64)
    shared[pairs] = _shared_pixels(found, labelled, *np.nonzero(pairs))
    areas = found.areas()[:, None]
    whole = np.where(is_crowd, areas, areas + labelled.areas() - shared)
    return shared / np.maximum(whole, 1)


def _shared_pixels(found: RunLengths, labelled: RunLengths, which: Runs, others: Runs) -> Runs:
    """How many pixels found mask which[p] has in common with labelled mask others[p], for every pair p."""
    pixels = found.size[0] * found.size[1]
    owners, starts, ends = labelled._pieces()
    count = np.bincount(owners, minlength=len(labelled))
    first, lengths = (np.cumsum(count) - count)[others], count[others]
    pair = np.repeat(np.arange(len(others)), lengths)
    piece = first[pair] + np.arange(len(pair)) - (np.cumsum(lengths) - lengths)[pair]
    moved = (which[pair] - others[pair]) * pixels  # to where the pixels of the found mask stand
    before = _ones_before(found, np.concatenate([starts[piece] + moved, ends[piece] + moved])).reshape(2, -1)
    return np.bincount(pair, before[1] - before[0], len(others)).astype(np.int64)


def _boxes_meet(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[n, 4] and [m, 4] -> [n, m]."""
    starts = np.maximum(first[:, None, :2], second[None, :, :2])
    return np.asarray((np.minimum(first[:, None, 2:], second[None, :, 2:]) > starts).all(-1))


def _ones_before(masks: RunLengths, places: Runs) -> Runs:
    """How many pixels of the masks lie before each place, if the pixels of all masks stand one after the other."""
    _, starts, ends = masks._pieces()
    starts, lengths = np.append(0, starts), np.append(0, ends - starts)
    at = np.searchsorted(starts, places, "right") - 1
    return (np.cumsum(lengths) - lengths)[at] + np.minimum(places - starts[at], lengths[at])


def _runs_of(mask: NDArray[np.bool_], used: NDArray[np.bool_]) -> Runs:
    """Of a mask [h, w], where used [w] says in which columns there is something: most masks are small."""
    (h, w), columns = mask.shape, np.flatnonzero(used)
    if not len(columns):
        return np.array([h * w], np.int64)
    first, end = int(columns[0]), int(columns[-1]) + 1
    inside = np.zeros((end - first) * h + 2, bool)
    inside[1:-1] = mask[:, first:end].T.reshape(-1)
    changes = np.flatnonzero(inside[1:] != inside[:-1]) + first * h
    return _runs_between(changes[changes < h * w], h * w)


def _runs_between(changes: Runs, pixels: int) -> Runs:
    """The runs of a mask that changes at these places, ascending."""
    return np.diff(changes, prepend=0, append=pixels).astype(np.int64)


def _read(segmentation: Any, size: tuple[int, int]) -> Runs:
    if isinstance(segmentation, Mapping) and {"size", "counts"} <= set(segmentation):
        given, counts = tuple(segmentation["size"]), segmentation["counts"]
        if given != tuple(size):
            raise ValueError(f"a segmentation of {_text(given)} pixels for an image of {_text(size)} (height x width)")
        runs = _decompressed(counts) if isinstance(counts, str | bytes) else np.asarray(counts, np.int64)
        total = runs.sum(dtype=np.float64)  # a sum of integers may overflow into the right one, and `dense` trusts it
        if runs.ndim != 1 or (runs < 0).any() or total != size[0] * size[1]:
            raise ValueError(f"the run lengths of a segmentation do not add up to the {_text(size)} pixels of its image")
        return runs
    if isinstance(segmentation, list | tuple) and segmentation and all(map(_is_polygon, segmentation)):
        return _filled(segmentation, size)
    raise ValueError(
        f"a segmentation is {str(segmentation)[:60]!r}; expected a list of polygons [x, y, x, y, x, y, ...] with 3 or more "
        'corners each, or {"size": [height, width], "counts": run lengths or their compressed string}'
    )


def _is_polygon(given: Any) -> bool:
    return isinstance(given, list | tuple | np.ndarray) and len(given) >= 6 and len(given) % 2 == 0


def _filled(polygons: Iterable[Any], size: tuple[int, int]) -> Runs:
    """The union of polygons."""
    pixels, parts = size[0] * size[1], [_crossings(_corners(polygon), size) for polygon in polygons]
    if len(parts) == 1:
        return _runs_between(parts[0], pixels)
    steps = [np.where(np.arange(len(part)) % 2, -1, 1) for part in parts]
    places, inverse = np.unique(np.concatenate(parts), return_inverse=True)
    depth = np.cumsum(np.bincount(inverse, np.concatenate(steps), len(places)))  # how many polygons cover the pixels from here
    return _runs_between(places[np.diff(depth > 0, prepend=False)], pixels)


def _corners(polygon: Any) -> NDArray[np.float64]:
    """[x, y, x, y, ...] -> [k, 2]."""
    values = np.asarray(polygon, np.float64)
    if values.ndim != 1 or not (np.abs(values) <= _FARTHEST).all():
        raise ValueError(f"a polygon is {str(polygon)[:60]!r}; expected numbers of at most {_FARTHEST:.0f} pixels")
    return values.reshape(-1, 2)


def _crossings(corners: NDArray[np.float64], size: tuple[int, int]) -> Runs:
    """Where the mask of a polygon [k, 2] changes, in column order: where its boundary passes the middle of a column."""
    h, w = size
    u, v = _boundary(np.trunc(_FINENESS * corners + 0.5).astype(np.int64))
    moves = np.flatnonzero(u[1:] != u[:-1])
    column = (np.minimum(u[1:], u[:-1])[moves] + 0.5) / _FINENESS - 0.5
    row = np.ceil(np.clip((np.minimum(v[1:], v[:-1])[moves] + 0.5) / _FINENESS - 0.5, 0, h))
    is_middle = (np.floor(column) == column) & (column >= 0) & (column <= w - 1)
    places, times = np.unique((column * h + row)[is_middle].astype(np.int64), return_counts=True)
    return places[(times % 2 == 1) & (places < h * w)]


def _boundary(corners: Runs) -> tuple[Runs, Runs]:
    """x and y of all grid points along the edges between corners [k, 2], both ends of each edge included."""
    start, end = corners, np.roll(corners, -1, axis=0)
    extent = np.abs(end - start)
    along = np.where(extent[:, 0] >= extent[:, 1], 0, 1)  # the axis with the longer extent is walked in whole steps
    edges = np.arange(len(corners))
    length = extent[edges, along]
    is_flipped = start[edges, along] > end[edges, along]
    low, high = np.where(is_flipped[:, None], end, start), np.where(is_flipped[:, None], start, end)
    slope = (high - low)[edges, 1 - along] / np.maximum(length, 1)
    edge = np.repeat(edges, length + 1)
    t = np.arange(len(edge)) - np.repeat(np.cumsum(length + 1) - length - 1, length + 1)
    t = np.where(is_flipped[edge], length[edge] - t, t)
    walked = t + low[edge, along[edge]]
    other = np.trunc(low[edge, 1 - along[edge]] + slope[edge] * t + 0.5).astype(np.int64)
    return np.where(along[edge] == 0, walked, other), np.where(along[edge] == 0, other, walked)


def _compressed(runs: Runs) -> str:
    """Five bits per character, the lowest first, and a sixth bit if more follow; from the fourth run on, differences."""
    values = runs.copy()
    values[3:] -= runs[1:-2]
    digits = np.ones(len(values), np.int64)
    for k in range(1, 13):
        digits += (values < -(1 << (5 * k - 1))) | (values >= 1 << (5 * k - 1))
    owner = np.repeat(np.arange(len(values)), digits)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(digits) - digits, digits)
    characters = (values[owner] >> (5 * place) & 31) + 32 * (place < digits[owner] - 1) + 48
    return characters.astype(np.uint8).tobytes().decode("ascii")


def _decompressed(text: str | bytes) -> Runs:
    codes = np.frombuffer(text.encode("ascii") if isinstance(text, str) else text, np.uint8).astype(np.int64) - 48
    ends = np.flatnonzero(codes & 32 == 0)
    if not len(codes) or codes.min() < 0 or codes.max() > 63 or ends[-1:].tolist() != [len(codes) - 1]:
        raise ValueError(f"{str(text)[:60]!r} is no compressed string of run lengths")
    starts = np.append(0, ends[:-1] + 1)
    place = np.arange(len(codes)) - np.repeat(starts, ends - starts + 1)
    runs = np.add.reduceat((codes & 31) << (5 * place), starts)
    runs -= np.where(codes[ends] & 16, 1 << (5 * (ends - starts + 1)), 0)  # the highest bit is the sign
    runs[1::2] = np.cumsum(runs[1::2])
    runs[2::2] = np.cumsum(runs[2::2])
    return runs


def _indices(positions: ArrayLike) -> NDArray[Any]:
    array = np.asarray(positions)
    return array if array.dtype == bool else array.astype(np.int64)


def _text(size: Sequence[Any]) -> str:
    return "x".join(map(str, size))
