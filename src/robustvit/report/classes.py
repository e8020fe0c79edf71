"""Class by class: which classes a network knows, which it loses, and what it takes them for."""

from __future__ import annotations

from dataclasses import dataclass

from robustvit.evaluation.results import Measurement, ModelResults
from robustvit.report.attacks import attack_label
from robustvit.report.numbers import count, percent, words
from robustvit.tasks.class_accuracies import ClassAccuracy

__all__ = ["ClassTable", "class_tables"]

MOST_ROWS = 20
"""Of more classes, half as many of the worst and of the best are shown."""


@dataclass(frozen=True)
class ClassTable:
    """The classes of one measurement, hardest first.

    Attributes:
        suites: of the measurement.
        remark: how many classes there are, and how many of them are shown.
        headings: of the columns.
        rows: the class, and a text for each other column; None stands for classes that are left out.
    """

    suites: str
    remark: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...] | None, ...]


def class_tables(model: ModelResults) -> tuple[ClassTable, ...]:
    """One for each measurement that has classes."""
    return tuple(_table(measured) for measured in model.measurements if measured.class_accuracies)


def _table(measured: Measurement) -> ClassTable:
    classes = sorted(measured.class_accuracies, key=_ease)
    first = classes[0]
    attacks = tuple(first.attacked or ())
    columns = [("clean", first.clean), ("corrupted", first.corrupted)]
    shown = [name for name, value in columns if value is not None]
    labels = [words(name).capitalize() if name == "patches" else attack_label(name) for name in attacks]
    headings = ("Class", "Images", *(name.capitalize() for name in shown), *labels, "Most often mistaken for")

    def row(one: ClassAccuracy) -> tuple[str, ...]:
        shares = [getattr(one, name) for name in shown] + [(one.attacked or {}).get(name) for name in attacks]
        return (one.name, count(one.images), *map(percent, shares), one.most_mistaken_for or "nothing")

    remark, ends = f"{count(len(classes))} classes, hardest first", MOST_ROWS // 2
    if len(classes) <= MOST_ROWS:
        return ClassTable(", ".join(measured.suites), f"{remark}.", headings, tuple(map(row, classes)))
    rows = (*map(row, classes[:ends]), None, *map(row, classes[-ends:]))
    return ClassTable(
        ", ".join(measured.suites), f"{remark}; the {ends} at either end. All are in results.json.", headings, rows
    )


def _ease(one: ClassAccuracy) -> tuple[float, ...]:
    """By the mean of what was measured; of equals, those that are worse as they are."""
    shares = [share for share in (one.clean, one.corrupted, *(one.attacked or {}).values()) if share is not None]
    return (sum(shares) / len(shares), one.clean if one.clean is not None else 0.0)
