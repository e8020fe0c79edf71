"""Class by class: which classes a network knows, and which it loses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.metrics.mean_accuracy import mean_over_types
from robustvit.metrics.measures import ACCURACY

__all__ = ["CORRUPTED", "ClassResult", "class_result"]

CORRUPTED = "corrupted"
"""Stands for the mean over corruptions of the mean over severities."""


@dataclass(frozen=True)
class ClassResult:
    """One class.

    Attributes:
        name: of the class.
        images: images that have it.
        values: condition -> key of a measure -> number. Conditions are "clean", "corrupted", and the names of those without
            severity: attacks (or their rows, as "patches-random (2)") and "patches". What was not measured, or has no
            number, is missing. The first measure decides which classes are hard.
        most_mistaken_for: the most frequent wrong answer under all conditions; None where there is none.
        corruptions: corruption -> key of a measure -> mean over its severities; empty for tasks that do not ask for it.
    """

    name: str
    images: int
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    most_mistaken_for: str | None = None
    corruptions: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def measures(self) -> tuple[str, ...]:
        """Keys of the measures."""
        return tuple(dict.fromkeys(key for scores in self.values.values() for key in scores))

    def number(self, condition: str, key: str | None = None) -> float | None:
        """The value of a measure, by default the first one, under a condition; None where there is none."""
        scores = self.values.get(condition) or self.corruptions.get(condition, {})
        return scores.get(key) if key is not None else next(iter(scores.values()), None)

    @property
    def clean(self) -> float | None:
        """The first measure on the images as they are."""
        return self.number(CLEAN.name)

    @property
    def corrupted(self) -> float | None:
        """The first measure, averaged over corruptions."""
        return self.number(CORRUPTED)

    @property
    def attacked(self) -> dict[str, float] | None:
        """The first measure under attacks, on covered patches and other conditions without severity; None without."""
        others = [name for name in self.values if name not in (CLEAN.name, CORRUPTED)]
        return {name: next(iter(self.values[name].values())) for name in others if self.values[name]} or None

    def to_json(self) -> dict[str, Any]:
        """Plain values: the first measure by condition, and all of them where it is not just the accuracy of the class."""
        about = {
            name: getattr(self, name) for name in ("name", "images", "clean", "corrupted", "attacked", "most_mistaken_for")
        }
        if self.measures not in ((), (ACCURACY.key,)):
            about["values"] = self.values
        return {**about, "corruptions": self.corruptions} if self.corruptions else about

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> ClassResult:
        """What `to_json` gave."""
        named = {CLEAN.name: stored.get("clean"), CORRUPTED: stored.get("corrupted"), **(stored.get("attacked") or {})}
        accuracies = {name: {ACCURACY.key: value} for name, value in named.items() if value is not None}
        values, corruptions = stored.get("values", accuracies), stored.get("corruptions", {})
        return ClassResult(stored["name"], stored["images"], values, stored.get("most_mistaken_for"), corruptions)


def class_result(
    name: str,
    images: int,
    conditions: Sequence[Condition],
    scores: Mapping[str, Sequence[float]],
    most_mistaken_for: str | None = None,
    *,
    by_corruption: bool = False,
) -> ClassResult:
    """One class from its scores under each condition.

    Args:
        name: of the class.
        images: images that have it.
        conditions: C of them.
        scores: key of a measure -> C numbers; NaN where there is none.
        most_mistaken_for: see `ClassResult`.
        by_corruption: keep every corruption too.
    """
    values: dict[str, dict[str, float]] = {}
    corruptions: dict[str, dict[str, float]] = {}
    for key, numbers in scores.items():
        known = [(condition, number) for condition, number in zip(conditions, numbers, strict=True) if number == number]
        for condition, number in _by_condition(known).items():
            values.setdefault(condition, {})[key] = number
        for corruption, severities in _by_corruption(known).items() if by_corruption else ():
            corruptions.setdefault(corruption, {})[key] = sum(severities) / len(severities)
    return ClassResult(name, images, values, most_mistaken_for, corruptions)


def _by_corruption(known: Sequence[tuple[Condition, float]]) -> dict[str, list[float]]:
    """Corruption -> its numbers at all severities."""
    corrupted: dict[str, list[float]] = {}
    for condition, number in known:
        if condition.severity:
            corrupted.setdefault(condition.name, []).append(number)
    return corrupted


def _by_condition(known: Sequence[tuple[Condition, float]]) -> dict[str, float]:
    corrupted = _by_corruption(known)
    clean = {condition.name: number for condition, number in known if condition == CLEAN}
    mean = {CORRUPTED: float(mean_over_types(list(corrupted.values())))} if corrupted else {}
    return {**clean, **mean, **{c.name: number for c, number in known if not c.severity and c != CLEAN}}
