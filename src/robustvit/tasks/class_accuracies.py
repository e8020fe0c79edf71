"""Accuracy class by class: which classes a network knows, and which it loses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.metrics.accuracy import is_right
from robustvit.metrics.mean_accuracy import mean_accuracy
from robustvit.tasks.tallies import Tallies

__all__ = ["ClassAccuracy", "class_accuracies_of"]


@dataclass(frozen=True)
class ClassAccuracy:
    """One class.

    Attributes:
        name: of the class.
        images: images of it.
        clean: share of them that is right as they are; None where they were not measured.
        corrupted: mean over corruptions of the mean over severities; None without corruptions.
        attacked: attack (or its row, as "patches-random (2)") -> share that is right; also "patches".
        most_mistaken_for: the most frequent wrong answer to its images under all conditions; None where all are right.
    """

    name: str
    images: int
    clean: float | None = None
    corrupted: float | None = None
    attacked: dict[str, float] | None = None
    most_mistaken_for: str | None = None


def class_accuracies_of(
    conditions: Sequence[Condition], rows: Sequence[Tallies], class_name: Callable[[int], str]
) -> tuple[ClassAccuracy, ...]:
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
) -> ClassAccuracy:
    right = is_right(answers, target)
    shares = dict(zip(conditions, right.mean(axis=1).tolist(), strict=True))
    corrupted: dict[str, list[float]] = {}
    for condition, share in shares.items():
        if condition.severity:
            corrupted.setdefault(condition.name, []).append(share)
    wrong, counts = np.unique(answers[~right], return_counts=True)
    return ClassAccuracy(
        name=class_name(target),
        images=answers.shape[1],
        clean=shares.get(CLEAN),
        corrupted=mean_accuracy(corrupted, None) if corrupted else None,
        attacked={c.name: s for c, s in shares.items() if not c.severity and c != CLEAN} or None,
        most_mistaken_for=class_name(int(wrong[counts.argmax()])) if len(wrong) else None,
    )
