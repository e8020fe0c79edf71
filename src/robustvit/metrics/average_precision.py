"""COCO's average precision and recall, from the matches of single images, which can be counted several times each.

Detections of a class are sorted by score, equal ones by image. Precision at a recall is the largest at that recall or beyond,
read at 101 recalls; AP is its mean. Classes without labelled objects are left out, and have NaN. An image that counts c times
stands for c copies of it (where scores tie within an image, its copies keep together detection by detection).

    tallies = [match(found, labelled, classes, "boxes") for found, labelled in images]
    statistics, class_ap = all_statistics(Matches.stack(tallies))
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from robustvit.metrics.box_matching import AREA_RANGES, MOST_DETECTIONS, THRESHOLDS, Found, Labelled, match
from robustvit.metrics.measures import Measure, register

__all__ = [
    "BOX_AP",
    "CLASS_AP",
    "CLEAN_KEYS",
    "MAIN",
    "MASK_AP",
    "RECALLS",
    "STATISTICS",
    "Found",
    "Labelled",
    "Matches",
    "all_statistics",
    "average_precision",
    "average_recall",
    "match",
    "mean_over_classes",
    "precision_recall",
]

RECALLS = np.linspace(0.0, 1.0, 101)
_CHUNK_BYTES = 4 * 2**20
"""Of the largest array while many weightings are computed; there are about four of them at a time."""
_TINY = np.spacing(1)
"""pycocotools adds it to the number of detections."""


class _Statistic(NamedTuple):
    label: str
    meaning: str
    is_recall: bool = False
    area: str = "all"
    most: int = MOST_DETECTIONS
    threshold: int | None = None


_AREAS = {"small": "up to 32x32 pixels", "medium": "of 32x32 to 96x96 pixels", "large": "of 96x96 pixels and more"}
_MEAN = "the mean over classes and over overlaps from 0.50 to 0.95"
_RECALL = f"COCO's average recall of {{}}, at most {{}} per class and image: the share of the objects that are found, {_MEAN}."
STATISTICS: dict[str, _Statistic] = {
    "ap": _Statistic("AP", f"COCO's average precision of {{}}: {_MEAN}."),
    "ap50": _Statistic("AP50", "Average precision of {} at an overlap of 0.50, the mean over classes.", threshold=0),
    "ap75": _Statistic("AP75", "Average precision of {} at an overlap of 0.75, the mean over classes.", threshold=5),
    **{f"ap_{a}": _Statistic(f"AP {a}", f"AP of {{}}, for objects {text}.", False, a) for a, text in _AREAS.items()},
    **{f"ar{n}": _Statistic(f"AR{n}", _RECALL.format("{}", n), True, "all", n) for n in (1, 10, 100)},
    **{f"ar_{a}": _Statistic(f"AR {a}", f"AR100 of {{}}, for objects {text}.", True, a) for a, text in _AREAS.items()},
}
"""The 12 of COCO, by the end of their keys: box_ap, mask_ap50 ..."""
MAIN = ("ap", "ap50", "ap75")
"""Of these, the precisions of objects of all sizes."""


def _measures_of(kind: str, label: str, objects: str, main: Sequence[str]) -> dict[str, Measure]:
    """By the keys of `STATISTICS`, of which all but the main ones are details."""
    return {
        key: register(
            Measure(f"{kind}_{key}", f"{label}{about.label}", about.meaning.format(objects), is_detail=key not in main)
        )
        for key, about in STATISTICS.items()
    }


def _register_clean(measure: Measure, order: int) -> str:
    """Of a number of the clean images in summaries, its key."""
    key, meaning = f"clean_{measure.key}", f"{measure.meaning} Without any corruption."
    about: Any = dict(family="clean", order=order, is_detail=measure.is_detail)
    return register(Measure(key, f"Clean {measure.words}", meaning, **about)).key


_BOXES, _MASKS = _measures_of("box", "", "boxes", MAIN), _measures_of("mask", "Mask ", "masks", ("ap",))
BOX_AP, MASK_AP = _BOXES["ap"], _MASKS["ap"]
CLASS_AP = register(
    Measure("class_ap", "AP", "COCO's average precision of the class: the mean over overlaps from 0.50 to 0.95.")
)
CLEAN_KEYS = {
    measure.key: _register_clean(measure, order)
    for order, measure in enumerate((*_BOXES.values(), *_MASKS.values()))
    if measure not in (BOX_AP, MASK_AP)  # which have names in all parts of a summary
}
"""Key of each number but box_ap and mask_ap -> its key in summaries, where it is of the clean images."""


@dataclass(frozen=True, eq=False)
class Matches:
    """The tallies of N images, with D detections together.

    Attributes:
        ends: [N], the detections up to and with each image.
        score: [D].
        kind: [D], the class.
        rank: [D].
        matched: [D, 4].
        ignored: [D, 4].
        labelled: [N, K, 4].
    """

    ends: np.ndarray
    score: np.ndarray
    kind: np.ndarray
    rank: np.ndarray
    matched: np.ndarray
    ignored: np.ndarray
    labelled: np.ndarray

    @staticmethod
    def of(arrays: Mapping[str, np.ndarray], prefix: str = "") -> Matches:
        """Of what `match` gave for each image, concatenated with lengths in score#lengths, or stacked where all have as many.

        Args:
            arrays: by the names of `match`.
            prefix: stands before each name.
        """
        score, lengths = arrays[f"{prefix}score"], arrays.get(f"{prefix}score#lengths")
        images = len(arrays[f"{prefix}labelled"])
        lengths = np.full(images, score.size // max(images, 1)) if lengths is None else lengths
        kind, rank = (arrays[f"{prefix}{name}"].reshape(-1) for name in ("class", "rank"))
        matched, ignored = (arrays[f"{prefix}{name}"].reshape(-1, len(AREA_RANGES)) for name in ("matched", "ignored"))
        return Matches(np.cumsum(lengths), score.reshape(-1), kind, rank, matched, ignored, arrays[f"{prefix}labelled"])

    @staticmethod
    def stack(tallies: Sequence[Mapping[str, np.ndarray]]) -> Matches:
        """Of what `match` gave for each image, one or more."""
        arrays = {name: np.concatenate([tally[name] for tally in tallies]) for name in tallies[0] if name != "labelled"}
        lengths = np.array([len(tally["score"]) for tally in tallies])
        labelled = np.stack([tally["labelled"] for tally in tallies])
        return Matches.of({**arrays, "score#lengths": lengths, "labelled": labelled})

    @property
    def classes(self) -> int:
        return self.labelled.shape[1]

    def of_class(self, kind: int) -> np.ndarray:
        """Positions of the detections of one class, the best score first; of all classes, they would take memory per image."""
        own = np.flatnonzero(self.kind == kind)
        return own[np.argsort(-self.score[own], kind="stable")]  # equal ones stay in the order of the images

    def at(self, positions: np.ndarray, area: str = "all", most: int = MOST_DETECTIONS) -> _Detections:
        """Those at some positions, without what is not among the best of its class and image."""
        best, column = positions[self.rank[positions] < most], _column(area)
        image = np.searchsorted(self.ends, best, "right")
        return _Detections(image, self.matched[best, column], self.ignored[best, column])

    def objects(self, counts: np.ndarray, kind: int, area: str) -> np.ndarray:
        """How many objects of a class there are, for counts [R, N] of the images: [R]."""
        return counts @ self.labelled[:, kind, _column(area)].astype(np.float64)


class _Detections(NamedTuple):
    """D detections of one class, the best score first: their images, and what they match in a range of areas, [D] each."""

    image: np.ndarray
    matched: np.ndarray
    ignored: np.ndarray


class _Curve(NamedTuple):
    """At the T right detections of a class and threshold: precision there or beyond, and recall, [R, T] for R weightings."""

    precision: np.ndarray
    recall: np.ndarray

    def mean_precision(self) -> np.ndarray:
        """[R]: over the 101 recalls, each of which belongs to the first detection that reaches it."""
        reached = np.searchsorted(RECALLS, self.recall.reshape(-1), "right").reshape(self.recall.shape)
        reached[:, 1:] -= reached[:, :-1].copy()
        return np.einsum("rt,rt->r", self.precision, reached) / len(RECALLS)

    def largest_recall(self) -> np.ndarray | float:
        """[R]."""
        return self.recall[:, -1] if self.recall.size else 0.0


def average_precision(matches: Matches, counts: np.ndarray | None = None, *, area: str = "all") -> np.ndarray:
    """AP per weighting, class and threshold: [R, K, 10]; NaN for classes without objects.

    Args:
        matches: of N images.
        counts: [R, N], how often each image counts; by default each once.
        area: of the objects, of `AREA_RANGES`.
    """
    return _tables(matches, counts, [(area, MOST_DETECTIONS)])[area, MOST_DETECTIONS][0]


def average_recall(
    matches: Matches, counts: np.ndarray | None = None, *, area: str = "all", most: int = MOST_DETECTIONS
) -> np.ndarray:
    """The share of the objects that are found, per weighting, class and threshold: [R, K, 10]; NaN as in `average_precision`.

    Args:
        matches, counts, area: see `average_precision`.
        most: detections of a class in an image that count, the best ones.
    """
    return _tables(matches, counts, [(area, most)])[area, most][1]


def mean_over_classes(values: np.ndarray) -> np.ndarray:
    """[..., K, thresholds] -> [...]: over the classes with objects; AP50 is that of values[..., :1], AP75 of [..., 5:6]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of nothing, the mean is NaN
        return np.nanmean(values, axis=(-2, -1))


def all_statistics(matches: Matches) -> tuple[dict[str, float], np.ndarray]:
    """The 12 statistics by the keys of `STATISTICS`, and the AP of each class [K]; NaN where there are no objects."""
    tables = _tables(matches, None, dict.fromkeys((about.area, about.most) for about in STATISTICS.values()))
    values = {}
    for key, about in STATISTICS.items():
        table = tables[about.area, about.most][int(about.is_recall)][0]  # K 10
        values[key] = float(mean_over_classes(table if about.threshold is None else table[:, about.threshold, None]))
    return values, tables["all", MOST_DETECTIONS][0][0].mean(1)


def precision_recall(
    matches: Matches, kind: int | None = None, overlap: Literal["0.5", "0.75", "mean"] = "mean"
) -> np.ndarray:
    """Precision at the 101 recalls in `RECALLS`: [101]; NaN without objects.

    Args:
        matches: of N images.
        kind: the class; by default, the mean over the classes with objects.
        overlap: the threshold, or the mean over all ten.
    """
    chosen = {"0.5": slice(0, 1), "0.75": slice(5, 6), "mean": slice(None)}[overlap]
    counts, rows = np.ones((1, len(matches.labelled))), []
    for k in range(matches.classes) if kind is None else (kind,):
        objects = matches.objects(counts, k, "all")
        if objects[0]:
            curves = list(_curves(matches.at(matches.of_class(k)), counts, objects))[chosen]
            rows.append(np.mean([_at_recalls(curve) for curve in curves], axis=0))
    return np.mean(rows, axis=0) if rows else np.full(len(RECALLS), np.nan)


def _at_recalls(curve: _Curve) -> np.ndarray:
    """[101]; 0 where the recall is never reached."""
    return np.append(curve.precision[0], 0.0)[np.searchsorted(curve.recall[0], RECALLS)]


def _column(area: str) -> int:
    return list(AREA_RANGES).index(area)


def _tables(
    matches: Matches, counts: np.ndarray | None, groups: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], np.ndarray]:
    """Of each (range of areas, most detections): AP and the largest recall [2, R, K, 10]."""
    counts = np.ones((1, len(matches.labelled))) if counts is None else np.asarray(counts, np.float64)
    tables = {group: np.full((2, len(counts), matches.classes, len(THRESHOLDS)), np.nan) for group in groups}
    for kind in range(matches.classes):
        positions = matches.of_class(kind)
        for (area, most), table in tables.items():
            objects = matches.objects(counts, kind, area)
            if not objects.any():
                continue
            found = matches.at(positions, area, most)
            rows = max(1, _CHUNK_BYTES // (8 * max(1, len(found.image))))
            for part in (slice(start, start + rows) for start in range(0, len(counts), rows)):
                for t, curve in enumerate(_curves(found, counts[part], objects[part])):
                    table[0, part, kind, t], table[1, part, kind, t] = curve.mean_precision(), curve.largest_recall()
            table[:, objects == 0, kind] = np.nan
    return tables


def _curves(found: _Detections, counts: np.ndarray, objects: np.ndarray) -> Iterator[_Curve]:
    """One per threshold; counts [R, N], objects [R]."""
    weights = counts[:, found.image]  # R D
    total = np.cumsum(weights, axis=1)
    for t in range(len(THRESHOLDS)):
        is_ignored = (found.ignored >> t & 1).astype(bool)
        right = np.flatnonzero((found.matched >> t & 1).astype(bool) & ~is_ignored)  # precision is largest at right detections
        hits, all_counted = np.cumsum(weights[:, right], axis=1), total[:, right]
        if is_ignored.any():
            skipped = np.cumsum(weights[:, is_ignored], axis=1)
            before = np.cumsum(is_ignored)[right]
            all_counted -= np.where(before > 0, skipped[:, before - 1], 0.0)
        precision = hits / (all_counted + _TINY)
        precision[:, ::-1] = np.maximum.accumulate(precision[:, ::-1], axis=1)
        yield _Curve(precision, hits / np.where(objects > 0, objects, 1.0)[:, None])
