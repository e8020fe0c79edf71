"""Accuracy class by class."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from robustvit.corruptions.conditions import Condition
from robustvit.metrics.accuracy import is_right
from robustvit.metrics.measures import ACCURACY
from robustvit.tasks.per_class import ClassResult, class_result
from robustvit.tasks.tallies import Tallies

__all__ = ["class_accuracies_of"]


def class_accuracies_of(
    conditions: Sequence[Condition], rows: Sequence[Tallies], class_name: Callable[[int], str]
) -> tuple[ClassResult, ...]:
    """The classes that have images, in the order of the outputs.

    Args:
        conditions: C of them.
        rows: tallies of a classifier for the same images, one per condition.
        class_name: what a class is called.
    """
    labels, answers = rows[0]["label"], np.stack([row["prediction"] for row in rows])
    return tuple(_of_class(conditions, answers[:, labels == k], int(k), class_name) for k in np.unique(labels))


def _of_class(
    conditions: Sequence[Condition], answers: np.ndarray, target: int, class_name: Callable[[int], str]
) -> ClassResult:
    right = is_right(answers, target)
    wrong, counts = np.unique(answers[~right], return_counts=True)
    mistaken = class_name(int(wrong[counts.argmax()])) if len(wrong) else None
    scores = {ACCURACY.key: right.mean(axis=1).tolist()}
    return class_result(class_name(target), answers.shape[1], conditions, scores, mistaken)
