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

__all__ = ["AREA_RANGES", "MOST_DETECTIONS", "THRESHOLDS", "Found", "Labelled", "box_overlaps", "match"]

THRESHOLDS = np.linspace(0.5, 0.95, 10)
"""Overlaps from which a detection may take an object."""
AREA_RANGES = {"all": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}
"""Smallest and largest area in square pixels; both belong to the range, as in pycocotools."""
MOST_DETECTIONS = 100
"""Of a class in an image."""
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
        score float64 [n], class int32 [n], rank uint8 [n] among those of the class; matched and ignored uint16 [n, 4] per
        range of areas, where bit t speaks of threshold t; labelled int32 [classes, 4]: how many objects count.

    Raises:
        ValueError: masks are compared that are not there.
    """
    order, rank = _ranked(found)
    masks = found.masks.of(order) if found.masks is not None and kind == "masks" else None
    found = Found(found.boxes[order], found.scores[order], found.classes[order], masks)
    lower, upper = np.array(list(AREA_RANGES.values())).T
    is_ignored = labelled.is_crowd[:, None] | (labelled.areas[:, None] < lower) | (labelled.areas[:, None] > upper)  # m 4
    matched, ignored = _take(_overlaps(found, labelled, kind), labelled.is_crowd, is_ignored)
    areas = masks.areas() if masks is not None and not box_area else np.prod(found.boxes[:, 2:] - found.boxes[:, :2], axis=1)
    is_outside = (areas[:, None] < lower) | (areas[:, None] > upper)
    ignored |= np.where(is_outside, _ALL_FREE & ~matched, 0)
    counts = np.zeros((classes, len(AREA_RANGES)), np.int32)
    np.add.at(counts, labelled.classes, ~is_ignored)
    return {
        "score": found.scores.astype(np.float64),
        "class": found.classes.astype(np.int32),
        "rank": rank.astype(np.uint8),
        "matched": matched.astype(np.uint16),
        "ignored": ignored.astype(np.uint16),
        "labelled": counts,
    }


def box_overlaps(found: np.ndarray, labelled: np.ndarray, is_crowd: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes, [n, 4] and [m, 4] -> [n, m]; over the found area alone for crowds, bool [m]."""
    shared = np.minimum(found[:, None, 2:], labelled[:, 2:]) - np.maximum(found[:, None, :2], labelled[:, :2])
    both = np.where((shared > 0).all(-1), shared[..., 0] * shared[..., 1], 0.0)
    area = np.prod(found[:, 2:] - found[:, :2], axis=1)[:, None]
    whole = np.where(is_crowd, area, area + np.prod(labelled[:, 2:] - labelled[:, :2], axis=1) - both)
    return both / np.where(both > 0, whole, 1.0)


def _ranked(found: Found) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the detections that count, the best first, and their ranks within their classes."""
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
