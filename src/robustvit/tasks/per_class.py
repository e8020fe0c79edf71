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
    """

    name: str
    images: int
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    most_mistaken_for: str | None = None

    @property
    def measures(self) -> tuple[str, ...]:
        """Keys of the measures."""
        return tuple(dict.fromkeys(key for scores in self.values.values() for key in scores))

    def number(self, condition: str, key: str | None = None) -> float | None:
        """The value of a measure, by default the first one, under a condition; None where there is none."""
        scores = self.values.get(condition, {})
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
        """The first measure under attacks and on covered patches; None without."""
        others = [name for name in self.values if name not in (CLEAN.name, CORRUPTED)]
        return {name: next(iter(self.values[name].values())) for name in others if self.values[name]} or None

    def to_json(self) -> dict[str, Any]:
        """Plain values: the first measure by condition, and all of them where it is not just the accuracy of the class."""
        about = {
            name: getattr(self, name) for name in ("name", "images", "clean", "corrupted", "attacked", "most_mistaken_for")
        }
        return about if self.measures in ((), (ACCURACY.key,)) else {**about, "values": self.values}

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> ClassResult:
        """What `to_json` gave."""
        named = {CLEAN.name: stored.get("clean"), CORRUPTED: stored.get("corrupted"), **(stored.get("attacked") or {})}
        accuracies = {name: {ACCURACY.key: value} for name, value in named.items() if value is not None}
        return ClassResult(stored["name"], stored["images"], stored.get("values", accuracies), stored.get("most_mistaken_for"))


def class_result(
    name: str,
    images: int,
    conditions: Sequence[Condition],
    scores: Mapping[str, Sequence[float]],
    most_mistaken_for: str | None = None,
) -> ClassResult:
    """One class from its scores under each condition.

    Args:
        name: of the class.
        images: images that have it.
        conditions: C of them.
        scores: key of a measure -> C numbers; NaN where there is none.
        most_mistaken_for: see `ClassResult`.
    """
    values: dict[str, dict[str, float]] = {}
    for key, numbers in scores.items():
        for condition, number in _by_condition(conditions, numbers).items():
            values.setdefault(condition, {})[key] = number
    return ClassResult(name, images, values, most_mistaken_for)


def _by_condition(conditions: Sequence[Condition], numbers: Sequence[float]) -> dict[str, float]:
    known = [(condition, number) for condition, number in zip(conditions, numbers, strict=True) if number == number]
    corrupted: dict[str, list[float]] = {}
    for condition, number in known:
        if condition.severity:
            corrupted.setdefault(condition.name, []).append(number)
    clean = {condition.name: number for condition, number in known if condition == CLEAN}
    mean = {CORRUPTED: float(mean_over_types(list(corrupted.values())))} if corrupted else {}
    return {**clean, **mean, **{c.name: number for c, number in known if not c.severity and c != CLEAN}}
