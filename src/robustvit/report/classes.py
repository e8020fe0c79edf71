"""Class by class: which classes a network knows, which it loses, and what it takes them for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from robustvit.corruptions.conditions import CLEAN, PATCHES
from robustvit.evaluation.results import Measurement, ModelResults
from robustvit.metrics.measures import ACCURACY, measure_of
from robustvit.report.attacks import attack_label
from robustvit.report.class_heat import has_heat
from robustvit.report.numbers import count, quantity, words
from robustvit.tasks.per_class import CORRUPTED, ClassResult

__all__ = ["ClassTable", "class_tables"]

MOST_ROWS = 20
"""Of more classes, half as many of the worst and of the best are shown."""

MISTAKEN = "Most often mistaken for"
NOT_ATTACKS = (CLEAN.name, CORRUPTED, PATCHES.name)


@dataclass(frozen=True)
class ClassTable:
    """The classes of one measurement, hardest first.

    Attributes:
        suites: of the measurement.
        remark: how many classes there are, and how many of them are shown.
        measures: what the numbers are.
        headings: of the columns.
        rows: the class, and a text for each other column; None stands for classes that are left out.
        has_mean: whether there is a mean over corruptions.
        numbers: how many columns after the first have numbers.
    """

    suites: str
    remark: str
    measures: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...] | None, ...]
    has_mean: bool
    numbers: int


def class_tables(model: ModelResults) -> tuple[ClassTable, ...]:
    """One for each measurement that has classes, and no heat map of them."""
    return tuple(_table(measured) for measured in model.measurements if measured.class_accuracies and not has_heat(measured))


def _table(measured: Measurement) -> ClassTable:
    classes = sorted(measured.class_accuracies, key=_ease)
    conditions = tuple(dict.fromkeys(condition for one in classes for condition in one.values))
    keys = tuple(dict.fromkeys(key for one in classes for key in one.measures))
    columns = [(condition, key) for key in keys for condition in conditions]
    has_mistaken = keys == (ACCURACY.key,) or any(one.most_mistaken_for for one in classes)

    def row(one: ClassResult) -> tuple[str, ...]:
        numbers = [quantity(key, one.number(condition, key)) for condition, key in columns]
        return (one.name, count(one.images), *numbers, *([one.most_mistaken_for or "nothing"] if has_mistaken else []))

    several = len(classes) > MOST_ROWS
    ends = MOST_ROWS // 2
    left_out = f"; the {ends} at either end. All are in results.json." if several else "."
    return ClassTable(
        suites=", ".join(measured.suites),
        remark=f"{count(len(classes))} classes, hardest first{left_out}",
        measures=", ".join(measure_of(key).label for key in keys),
        headings=("Class", "Images", *(_heading(*column, keys) for column in columns), *([MISTAKEN] if has_mistaken else [])),
        rows=(*map(row, classes[:ends]), None, *map(row, classes[-ends:])) if several else tuple(map(row, classes)),
        has_mean=CORRUPTED in conditions,
        numbers=1 + len(columns),
    )


def _heading(condition: str, key: str, keys: Sequence[str]) -> str:
    """The condition; of several measures, with the measure."""
    label = words(condition).capitalize() if condition in NOT_ATTACKS else attack_label(condition)
    return label if len(keys) == 1 else f"{measure_of(key).label}: {label}"


def _ease(one: ClassResult) -> tuple[float, ...]:
    """By the mean of what was measured; of equals, those that are worse as they are. Classes without an image or a number
    come last."""
    numbers = [number for number in map(one.number, one.values) if number is not None and one.images]
    return (sum(numbers) / len(numbers) if numbers else math.inf, one.clean if one.clean is not None else 0.0)
