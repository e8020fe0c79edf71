"""From the answers of a network to cells and headline numbers, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robustvit.evaluation.classification import Outcome
from robustvit.evaluation.conditions import CLEAN, Condition
from robustvit.evaluation.results import CellResult, Value
from robustvit.metrics.bootstrap import Interval, Statistic, bootstrap_cells, bootstrap_mean
from robustvit.metrics.calibration import calibration_error
from robustvit.metrics.cell_statistics import (
    clean_accuracy_of,
    mean_accuracy_of,
    mean_corruption_error_of,
    relative_error_of,
    retention_of,
)
from robustvit.metrics.mean_accuracy import CORRUPTION_SETS

__all__ = ["cells_of", "summarise"]


def cells_of(suite: str, conditions: Sequence[Condition], outcome: Outcome) -> list[CellResult]:
    """A cell for every condition."""
    cells = []
    for condition, correct, confidences in zip(conditions, outcome.correct, outcome.confidences, strict=True):
        accuracy = _value(bootstrap_mean(correct)) if len(correct) else None
        gap = calibration_error(confidences.clip(0, 1), correct) if len(correct) else None
        name = "clean" if condition == CLEAN and suite in _IN_MEMORY else suite
        cells.append(CellResult(name, condition.name, condition.severity, len(correct), accuracy, gap))
    return cells


_IN_MEMORY = ("clean", "common15", "extra4", "all19", "noise", "blur", "weather", "digital", "imagenet-c", "patches")


def summarise(conditions: Sequence[Condition], outcome: Outcome) -> dict[str, Value]:
    """The headline numbers that these conditions allow."""
    correct = outcome.correct.astype(np.float64)
    if not correct.size:
        return {}
    damaged = [i for i, c in enumerate(conditions) if c.severity]
    kept = [i for i, c in enumerate(conditions) if c.severity or c == CLEAN]
    cells = [(conditions[i].name, conditions[i].severity) for i in kept]
    has_clean = CLEAN in conditions
    names = {conditions[i].name for i in damaged}

    statistics: dict[str, Statistic] = {}
    if has_clean:
        statistics["clean_accuracy"] = clean_accuracy_of(cells)
    if damaged:
        statistics["mean_accuracy"] = mean_accuracy_of(cells, None)
    for key, group in (("mean_accuracy_15", "common15"), ("mean_accuracy_19", "all19")):
        if names >= set(CORRUPTION_SETS[group]):
            statistics[key] = mean_accuracy_of(cells, group)
    if damaged and has_clean and correct[list(conditions).index(CLEAN)].any():
        statistics["retention"] = retention_of(cells, "common15" if names >= set(CORRUPTION_SETS["common15"]) else None)
    if names >= set(CORRUPTION_SETS["common15"]):
        statistics["mean_corruption_error"] = mean_corruption_error_of(cells)
        if has_clean:
            statistics["relative_mean_corruption_error"] = relative_error_of(cells)
    with np.errstate(divide="ignore", invalid="ignore"):  # retention of a sample without a right answer has no interval
        summary = {key: _value(bootstrap_cells(correct[kept], statistic)) for key, statistic in statistics.items()}
    if has_clean:
        clean = list(conditions).index(CLEAN)
        gap = calibration_error(outcome.confidences[clean].clip(0, 1), outcome.correct[clean])
        summary["expected_calibration_error"] = Value(gap)
    if Condition("patches") in conditions:
        summary["patches_accuracy"] = _value(bootstrap_mean(correct[list(conditions).index(Condition("patches"))]))
    return summary


def _value(interval: Interval) -> Value:
    low, high = (None if bound != bound else bound for bound in (interval.low, interval.high))
    return Value(interval.estimate, low, high)
