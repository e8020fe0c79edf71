"""Which detections of one image find which labelled objects, by COCO's rules.

Detections of a class choose in the order of their scores. Each takes, among the objects of its class that are free and overlap
enough, the one with the largest overlap; objects that count come before ignored ones (crowds, and those outside the range of
areas). What takes an ignored object is ignored, and so is what takes nothing and lies outside the range of areas itself.
Crowds can be taken many times.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from robustvit.runtime.run_lengths import RunLengths, overlaps

__all__ = [
    "AREA_RANGES",
    "MOST_DETECTIONS",
    "THRESHOLDS",
    "Found",
    "Labelled",
    "box_overlaps",
    "match",
    "missed_by_each_other",
    "ranked",
    "to_xywh",
]

THRESHOLDS = np.linspace(0.5, 0.95, 10)
"""Overlaps from which a detection may take an object."""
AREA_RANGES = {"all": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}
"""Smallest and largest area in square pixels; both belong to the range, as in pycocotools."""
MOST_DETECTIONS = 100
"""Of a class in an image."""
_DECIMALS = 11
"""To which the sides of boxes are rounded: x2 - x1 has lost the last bits of the width that a file gives, and without them an
area misses the end of a range, or an overlap a threshold, that pycocotools finds it to meet."""
_ALL_FREE = (1 << len(THRESHOLDS)) - 1


class Found(NamedTuple):
    """The n detections of an image.

    Attributes:
        boxes: float64 [n, 4]: x1, y1, x2, y2 in pixels.
        scores: [n].
        classes: [n] of 0 .. classes - 1.
        masks: n masks, or None.
    """

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    masks: RunLengths | None = None


class Labelled(NamedTuple):
    """The m labelled objects of an image.

    Attributes:
        boxes: float64 [m, 4]: x1, y1, x2, y2 in pixels.
        classes: [m] of 0 .. classes - 1.
        areas: [m] in square pixels, as annotated.
        is_crowd: bool [m].
        masks: m masks, or None.
    """

    boxes: np.ndarray
    classes: np.ndarray
    areas: np.ndarray
    is_crowd: np.ndarray
    masks: RunLengths | None = None


def match(
    found: Found, labelled: Labelled, classes: int, kind: Literal["boxes", "masks"], *, box_area: bool = False
) -> dict[str, np.ndarray]:
    """The tally of an image with n detections that count (the best 100 of each class), the best score first.

    Args:
        found: the detections.
        labelled: the objects.
        classes: how many there are.
        kind: what is compared.
        box_area: of masks, take the areas of the detected boxes, as pycocotools does when detections carry boxes.

    Returns:
        score float32 or float64 [n], as given; class uint16 [n]; rank uint8 [n] among those of the class; matched and ignored
        uint16 [n, 4] per range of areas, where bit t is about threshold t; labelled uint16 [classes, 4]: how many objects
        count.

    Raises:
        ValueError: masks are compared that are not there, or a class is out of range.
    """
    _require_classes("a detection", found.classes, classes)
    _require_classes("an object", labelled.classes, classes)
    order, rank = ranked(found)
    masks = found.masks.of(order) if found.masks is not None and kind == "masks" else None
    found = Found(found.boxes[order], found.scores[order], found.classes[order], masks)
    lower, upper = np.array(list(AREA_RANGES.values())).T
    is_ignored = labelled.is_crowd[:, None] | (labelled.areas[:, None] < lower) | (labelled.areas[:, None] > upper)  # m 4
    matched, ignored = _take(_overlaps(found, labelled, kind), labelled.is_crowd, is_ignored)
    areas = masks.areas() if masks is not None and not box_area else _box_areas(found.boxes)
    is_outside = (areas[:, None] < lower) | (areas[:, None] > upper)
    ignored |= np.where(is_outside, _ALL_FREE & ~matched, 0)
    counts = np.zeros((classes, len(AREA_RANGES)), np.uint16)
    np.add.at(counts, labelled.classes, ~is_ignored)
    return {
        "score": found.scores.astype(np.float32 if found.scores.dtype == np.float32 else np.float64),
        "class": found.classes.astype(np.uint16),
        "rank": rank.astype(np.uint8),
        "matched": matched.astype(np.uint16),
        "ignored": ignored.astype(np.uint16),
        "labelled": counts,
    }


def missed_by_each_other(first: Found, second: Found, least_score: float) -> float:
    """The share of the objects in two lists of detections of one image that have no partner in the other list.

    Partners are of the same class and overlap by `THRESHOLDS[0]` or more; the first list chooses in the order of its scores.

    Args:
        first, second: the detections.
        least_score: of an object that counts.
    """
    one, other = (_above(found, least_score) for found in (first, second))
    objects = Labelled(other.boxes, other.classes, _box_areas(other.boxes), np.zeros(len(other.boxes), bool))
    count = len(one.boxes) + len(other.boxes)
    if not count:
        return 0.0
    matched, _ = _take(_overlaps(one, objects, "boxes"), objects.is_crowd, np.zeros((len(other.boxes), 1), bool))
    return 1 - 2 * int((matched[:, 0] & 1).sum()) / count


def _above(found: Found, least_score: float) -> Found:
    """The detections with at least this score, the best first."""
    order = np.argsort(-found.scores, kind="stable")
    kept = order[found.scores[order] >= least_score]
    return Found(found.boxes[kept], found.scores[kept], found.classes[kept])


def box_overlaps(found: np.ndarray, labelled: np.ndarray, is_crowd: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes, [n, 4] and [m, 4] -> [n, m]; over the found area alone for crowds, bool [m]."""
    shared = np.minimum(found[:, None, 2:], labelled[:, 2:]) - np.maximum(found[:, None, :2], labelled[:, :2])
    both = np.where((shared > 0).all(-1), shared[..., 0] * shared[..., 1], 0.0)
    area = _box_areas(found)[:, None]
    whole = np.where(is_crowd, area, area + _box_areas(labelled) - both)
    return both / np.where(both > 0, whole, 1.0)


def to_xywh(boxes: np.ndarray) -> np.ndarray:
    """Corners [n, 4] -> x, y, width, height [n, 4], for files of which pycocotools is to give the same numbers as `match`."""
    return np.concatenate([boxes[:, :2], np.round(boxes[:, 2:] - boxes[:, :2], _DECIMALS)], axis=1)


def _box_areas(boxes: np.ndarray) -> np.ndarray:
    """[n, 4] -> [n]."""
    return np.prod(to_xywh(boxes)[:, 2:], axis=1)


def _require_classes(what: str, given: np.ndarray, classes: int) -> None:
    if len(given) and not 0 <= given.min() <= given.max() < classes:
        wrong = given.max() if given.max() >= classes else given.min()
        raise ValueError(f"{what} has the class {wrong}; expected 0 to {classes - 1}")


def ranked(found: Found) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the detections that count, the best first as in `match`, and their ranks within their classes."""
    order = np.argsort(-found.scores, kind="stable")
    by_class = np.argsort(found.classes[order], kind="stable")
    kinds = found.classes[order][by_class]
    rank = np.empty(len(order), np.int64)
    rank[by_class] = np.arange(len(order)) - np.searchsorted(kinds, kinds)
    return order[rank < MOST_DETECTIONS], rank[rank < MOST_DETECTIONS]


def _overlaps(found: Found, labelled: Labelled, kind: Literal["boxes", "masks"]) -> np.ndarray:
    """[n, m]; 0 for pairs of different classes."""
    is_same = found.classes[:, None] == labelled.classes
    if kind == "boxes":
        return np.where(is_same, box_overlaps(found.boxes, labelled.boxes, labelled.is_crowd), 0.0)
    if found.masks is None or labelled.masks is None:
        raise ValueError("masks are to be compared, but the detections or the labels have none; compare boxes instead")
    return overlaps(found.masks, labelled.masks, labelled.is_crowd, is_same)


def _take(overlap: np.ndarray, is_crowd: np.ndarray, is_ignored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Who takes an object, and who an ignored one: [n, 4]. Thresholds are handled at once, as bits."""
    matched, ignored = np.zeros((2, len(overlap), is_ignored.shape[1]), np.int64)
    which, objects = np.nonzero(overlap >= THRESHOLDS[0])
    values = overlap[which, objects]
    order = np.lexsort((-objects, -values, which))  # of equal overlaps, the last object wins
    enough = (1 << np.searchsorted(THRESHOLDS, values, "right")) - 1
    pairs = list(zip(which[order].tolist(), objects[order].tolist(), enough[order].tolist(), strict=True))
    for column in range(is_ignored.shape[1]) if pairs else ():
        skips, free = is_ignored[:, column].tolist(), [_ALL_FREE] * len(is_crowd)
        for wants_ignored, i, group in _turns(pairs, skips):
            for j, bits in group:
                taken = bits & free[j] & ~int(matched[i, column])
                matched[i, column] |= taken
                ignored[i, column] |= taken if wants_ignored else 0
                free[j] &= _ALL_FREE if is_crowd[j] else ~taken
    return matched, ignored


def _turns(pairs: list[tuple[int, int, int]], skips: list[bool]) -> list[tuple[bool, int, list[tuple[int, int]]]]:
    """(whether of ignored objects, detection, its (object, bits)), detection by detection, what counts first."""
    turns: dict[tuple[int, bool], list[tuple[int, int]]] = {}
    for i, j, bits in pairs:
        turns.setdefault((i, skips[j]), []).append((j, bits))
    return [(wants_ignored, i, turns[i, wants_ignored]) for i, wants_ignored in sorted(turns)]
