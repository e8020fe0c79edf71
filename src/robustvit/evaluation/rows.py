"""Results as tables: a row for every network and cell, and one for every number of a class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from robustvit.evaluation.model_results import ModelResults
from robustvit.metrics.measures import NUMBER, measure_of

__all__ = ["CLASS_COLUMNS", "class_rows_of", "columns_of", "rows_of"]

CELL = ("suite", "condition", "severity", "images")
CLASS_COLUMNS = ("model", "suite", "class", "images", "condition", "measure", "value")
"""Of classes.csv."""


def columns_of(models: Sequence[ModelResults], primary: str, listed: Sequence[str]) -> tuple[str, ...]:
    """The headings: the cell, the primary measure with its interval, then the other measures.

    Args:
        models: whose cells they are.
        primary: key of the primary measure.
        listed: keys of measures that have a column even where no cell has them.
    """
    found = dict.fromkeys(key for model in models for cell in model.cells for key in cell.values)
    others = dict.fromkeys([*listed, *found])
    return ("model", *CELL, primary, "low", "high", *(key for key in others if key != primary))


def rows_of(models: Sequence[ModelResults], primary: str, listed: Sequence[str]) -> list[dict[str, Any]]:
    """Plain dicts with the keys `columns_of`; None where there is no number."""
    columns = columns_of(models, primary, listed)
    return [row for model in models for row in _rows(model, primary, columns)]


def _rows(model: ModelResults, primary: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    for cell in model.cells:
        main = cell.values.get(primary)
        row = {"model": model.name, **{name: getattr(cell, name) for name in CELL}}
        row |= {key: _plain(key, value.value) for key, value in cell.values.items()}
        row |= {"low": main.low if main else None, "high": main.high if main else None}
        yield {name: row.get(name) for name in columns}


def _plain(key: str, value: float) -> float | int:
    return int(value) if measure_of(key).unit is NUMBER else value


def class_rows_of(models: Sequence[ModelResults]) -> Iterator[dict[str, Any]]:
    """Plain dicts with the keys `CLASS_COLUMNS`: every number of every class; none where nothing was measured class by class.

    "images" are those that have the class. Conditions are "clean", "corrupted" (the mean over corruptions and severities),
    those without severity and, of tasks that ask for it, every corruption (the mean over its severities). "suite" has all
    suites of the pass, since a mean may be over several.
    """
    for model in models:
        for measured in model.measurements:
            for one in measured.class_accuracies:
                start = (model.name, ", ".join(measured.suites), one.name, one.images)
                for condition, scores in {**one.values, **one.corruptions}.items():
                    for key, value in scores.items():
                        yield dict(zip(CLASS_COLUMNS, (*start, condition, key, value), strict=True))
