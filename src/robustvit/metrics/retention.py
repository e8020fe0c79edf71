"""Retention: which share of the clean score survives. The same rule for accuracy, mIoU and AP (where it is called rPC)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from robustvit.metrics.arrays import FloatArray
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.cells import Cell, clean_accuracy_of
from robustvit.metrics.mean_accuracy import mean_accuracy_of

__all__ = ["relative_degradation_of", "retained", "retention", "retention_of"]

Score = TypeVar("Score", float, FloatArray)


def retained(corrupted: Score, clean: Score) -> Score:
    """The definition: `R = corrupted / clean`, of numbers or arrays [...]."""
    return corrupted / clean


def retention(corrupted: float, clean: float) -> float:
    """`R = corrupted / clean`, both in the same unit; above 1 when corruption helps."""
    if not clean > 0 or not corrupted >= 0:
        raise ValueError(f"retention of {corrupted:g} from {clean:g} is not defined; give a clean score above 0")
    return retained(corrupted, clean)


def retention_of(cells: Sequence[Cell], types: str | Sequence[str] | None = "common15") -> Statistic:
    """Retention of accuracy as a statistic; arguments as for `mean_accuracy_of`, and the clean cell is needed."""
    mean, clean = mean_accuracy_of(cells, types), clean_accuracy_of(cells)
    return lambda accuracies: retained(mean(accuracies), clean(accuracies))


def relative_degradation_of(kept: Statistic) -> Statistic:
    """`1 - R`: the share of the clean score that is lost, as a statistic, from that of retention."""
    return lambda accuracies: 1 - kept(accuracies)
