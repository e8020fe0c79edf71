"""Results as a table: a row for every network and cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robustvit.evaluation.results import CellResult, ModelResults

__all__ = ["COLUMNS", "rows_of"]

COPIED = ("suite", "condition", "severity", "images", "calibration_error", "flip_probability", "top5_distance", "no_answer")
CHANGES = ("largest_change", "change_norm", "changed_pixels")
COLUMNS = ("model", *COPIED[:4], "accuracy", "low", "high", *COPIED[4:], *CHANGES)


def rows_of(models: Sequence[ModelResults]) -> list[dict[str, Any]]:
    """Plain dicts with the keys `COLUMNS`; None where there is no number."""
    return [row for model in models for row in _rows(model)]


def _rows(model: ModelResults) -> Iterator[dict[str, Any]]:
    for cell in model.cells:
        found = {"model": model.name, **_accuracy(cell)}
        found |= {name: getattr(cell, name) for name in (*COPIED, *CHANGES)}
        yield {name: found[name] for name in COLUMNS}


def _accuracy(cell: CellResult) -> dict[str, float | None]:
    value = cell.accuracy
    if value is None:
        return dict.fromkeys(("accuracy", "low", "high"))
    return {"accuracy": value.value, "low": value.low, "high": value.high}
