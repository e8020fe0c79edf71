"""From the detections of single images to COCO's numbers: tallies, AP by box and by mask, classes, curves and tables.

An image contributes which of its detections find something, in the order of their scores (`metrics.box_matching.match`), and
their boxes. Boxes and masks share scores, classes and ranks, which are kept once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from robustvit.corruptions.conditions import Condition
from robustvit.metrics.average_precision import (
    BOX_AP,
    CLASS_AP,
    CLEAN_KEYS,
    MAIN,
    RECALLS,
    Matches,
    all_statistics,
    average_precision,
    mean_over_classes,
    precision_recall,
)
from robustvit.metrics.box_matching import Found, Labelled, match, ranked
from robustvit.metrics.measures import NUMBER, Measure, register
from robustvit.tasks.curves import Curves, curves_of
from robustvit.tasks.found_table import FoundTable, found_table
from robustvit.tasks.per_class import ClassResult, class_result
from robustvit.tasks.scoring import Scoring
from robustvit.tasks.tallies import Tallies, Tally

__all__ = ["CLASS_MASK_AP", "DETECTIONS", "ObjectScoring"]

BOXES, MASKS = "box_", "mask_"
"""Before the keys of numbers, and the names of tallies."""
CORNERS = "corners"
"""Name of the tally with the boxes of the detections, float32 [n, 4]."""
CLASS_MASK_AP = register(Measure("class_mask_ap", "Mask AP", "As AP of the class, of masks instead of boxes."))
DETECTIONS = register(
    Measure("detections", "Detections", "Boxes that count, the best 100 of a class in an image.", unit=NUMBER)
)
_FIGURES: dict[str, Literal["0.5", "mean"]] = {"overlap 0.50": "0.5", "mean over overlaps 0.50 to 0.95": "mean"}


class ObjectScoring(Scoring):
    """The scoring of detections.

    Attributes:
        classes: their names.
        category_ids: class -> id in annotation files; None where nobody knows them.
        image_ids: id of a sample -> id of its image in the annotation file; None where nobody knows them.
    """

    primary = BOX_AP
    further: ClassVar[Mapping[str, str]] = CLEAN_KEYS
    resamples = 200
    ranks_samples = True
    classes: tuple[str, ...]
    category_ids: tuple[int, ...] | None
    image_ids: Mapping[str, int | str] | None

    def tally(self, prediction: Found, target: Labelled) -> Tally:
        """Which detections find which objects, by box and, where both have them, by mask; and their boxes."""
        K, order = len(self.classes), ranked(prediction)[0]
        tally = {f"{BOXES}{name}": value for name, value in match(prediction, target, K, "boxes").items()}
        if target.masks is not None:
            by_mask = None if prediction.masks is None else match(prediction, target, K, "masks")
            for name in ("matched", "ignored"):
                tally[f"{MASKS}{name}"] = tally[f"{BOXES}{name}"][:0] if by_mask is None else by_mask[name]
        return {**tally, CORNERS: prediction.boxes[order].astype(np.float32)}

    def score(self, tallies: Tallies, counts: np.ndarray) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        chosen = dict(zip(MAIN, (slice(None), slice(0, 1), slice(5, 6)), strict=True))
        for kind, matches in _matches(tallies).items():
            values = average_precision(matches, counts)  # R K 10
            found |= {f"{kind}{key}": mean_over_classes(values[..., part]) for key, part in chosen.items()}
        return found

    def sample_scores(self, tallies: Tallies) -> np.ndarray:
        return np.concatenate([np.zeros(0), *(_alone(part) for part in tallies.blocks())])

    def extras(self, tallies: Tallies) -> dict[str, float]:
        """COCO's other statistics, by size of the objects and recalls; and how many detections there are."""
        return {**_other_statistics(tallies), DETECTIONS.key: float(tallies[f"{BOXES}score"].size)}

    def clean_extras(self, tallies: Tallies) -> dict[str, float]:
        return {CLEAN_KEYS[key]: value for key, value in _other_statistics(tallies).items()}

    def has_same_targets(self, first: Tallies, second: Tallies) -> bool:
        return bool((first[f"{BOXES}labelled"] == second[f"{BOXES}labelled"]).all())

    def per_class(self, conditions: Sequence[Condition], rows: Sequence[Tallies]) -> tuple[ClassResult, ...]:
        """AP of every class, by box and by mask."""
        keys = {BOXES: CLASS_AP.key, MASKS: CLASS_MASK_AP.key}
        found = [{keys[kind]: _class_ap(matches) for kind, matches in _matches(row).items()} for row in rows]
        images = (rows[0][f"{BOXES}labelled"][:, :, 0] > 0).sum(0)  # K

        def result(k: int) -> ClassResult:
            scores = {key: [one[key][k] for one in found] for key in found[0] if all(key in one for one in found)}
            return class_result(self.classes[k], int(images[k]), conditions, scores, by_corruption=True)

        return tuple(map(result, range(len(self.classes))))

    def curves(self, conditions: Sequence[Condition], rows: Sequence[Tallies]) -> tuple[Curves, ...]:
        """Precision over recall of boxes and of masks, the mean over classes."""
        matches = [_matches(row) for row in rows]
        made = []
        for kind, name in ((BOXES, "Boxes"), (MASKS, "Masks")):
            for told, overlap in _FIGURES.items() if all(kind in one for one in matches) else ():
                heights = [precision_recall(one[kind], overlap=overlap) for one in matches]
                made.append(curves_of(f"{name}, {told}", ("Recall", "Precision"), RECALLS, conditions, heights))
        return tuple(one for one in made if one is not None)

    def predictions(
        self, network: str, suites: Sequence[str], conditions: Sequence[Condition], ids: Sequence[str], rows: Sequence[Tallies]
    ) -> FoundTable:
        images = [(name, (self.image_ids or {}).get(name, name)) for name in ids]
        names = {name: f"{BOXES}{name}" for name in ("score", "class", "matched", "ignored")} | {"box": CORNERS}
        cells = [{name: row.parts(stored) for name, stored in names.items()} for row in rows]
        return found_table(network, suites, conditions, images, cells, self.classes, self.category_ids)


def _matches(tallies: Tallies) -> dict[str, Matches]:
    """Of boxes, and of masks where there are any."""
    arrays, boxes = tallies.arrays, Matches.of(tallies.arrays, BOXES)
    if f"{MASKS}matched" not in arrays:
        return {BOXES: boxes}
    matched, ignored = (arrays[f"{MASKS}{name}"].reshape(-1, boxes.matched.shape[1]) for name in ("matched", "ignored"))
    if len(matched) == len(boxes.score):
        return {BOXES: boxes, MASKS: replace(boxes, matched=matched, ignored=ignored)}
    if len(matched):
        raise ValueError("the model gave masks for the objects of some images, and none for those of others; give all or none")
    return {BOXES: boxes}


def _other_statistics(tallies: Tallies) -> dict[str, float]:
    """Those of COCO that `score` does not give; without those that have no objects."""
    found = {
        f"{kind}{key}": value
        for kind, matches in _matches(tallies).items()
        for key, value in all_statistics(matches)[0].items()
        if key not in MAIN
    }
    return {key: value for key, value in found.items() if value == value}


def _class_ap(matches: Matches) -> np.ndarray:
    """[K]; NaN for classes without objects."""
    return average_precision(matches)[0].mean(-1)


def _alone(tallies: Tallies) -> np.ndarray:
    """AP of every image alone, by box: [N]; NaN without objects."""
    return mean_over_classes(average_precision(Matches.of(tallies.arrays, BOXES), np.eye(len(tallies))))
