"""From the answers of a network to cells and headline numbers, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robustvit.evaluation.classification import NO_ANSWER, Outcome
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
from robustvit.metrics.corruption_error import SEVERITIES, corruption_errors, extra_corruption_errors
from robustvit.metrics.mean_accuracy import CORRUPTION_SETS

__all__ = ["cells_of", "errors_of", "summarise"]


def cells_of(suites: Sequence[str], conditions: Sequence[Condition], outcome: Outcome, seed: int) -> list[CellResult]:
    """A cell for every condition; `suites` says which suite each of them belongs to."""
    cells = []
    for suite, condition, predictions, confidences in zip(
        suites, conditions, outcome.predictions, outcome.confidences, strict=True
    ):
        correct = predictions == outcome.labels
        accuracy = _value(bootstrap_mean(correct, seed=seed)) if len(correct) else None
        gap = calibration_error(confidences.clip(0, 1), correct) if len(correct) else None
        lost = int((predictions == NO_ANSWER).sum())
        cells.append(CellResult(suite, condition.name, condition.severity, len(correct), accuracy, gap, no_answer=lost))
    return cells


def errors_of(conditions: Sequence[Condition], outcome: Outcome) -> dict[str, float]:
    """CE of each corruption that has all five severities, the extra ones included."""
    correct = dict(zip(conditions, outcome.correct, strict=True))
    if not outcome.ids:
        return {}
    names = dict.fromkeys(c.name for c in conditions if all(Condition(c.name, s) in correct for s in SEVERITIES))
    errors = {name: [1 - correct[Condition(name, s)].mean() for s in SEVERITIES] for name in names}
    return {**corruption_errors(errors), **extra_corruption_errors(errors)}


def summarise(
    conditions: Sequence[Condition], outcome: Outcome, seed: int, *, against_alexnet: bool = True
) -> dict[str, Value]:
    """The headline numbers that these conditions allow.

    Args:
        conditions: that the outcome has.
        outcome: of the network.
        seed: of the intervals.
        against_alexnet: whether mCE is wanted; CIFAR-C is not divided by anything.
    """
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
    if against_alexnet and names >= set(CORRUPTION_SETS["common15"]):
        statistics["mean_corruption_error"] = mean_corruption_error_of(cells)
        if has_clean:
            statistics["relative_mean_corruption_error"] = relative_error_of(cells)
    with np.errstate(divide="ignore", invalid="ignore"):  # retention of a sample without a right answer has no interval
        summary = {key: _value(bootstrap_cells(correct[kept], score, seed=seed)) for key, score in statistics.items()}
    if has_clean:
        clean = list(conditions).index(CLEAN)
        gap = calibration_error(outcome.confidences[clean].clip(0, 1), outcome.correct[clean])
        summary["expected_calibration_error"] = Value(gap)
    if Condition("patches") in conditions:
        covered = correct[list(conditions).index(Condition("patches"))]
        summary["patches_accuracy"] = _value(bootstrap_mean(covered, seed=seed))
    return summary


def _value(interval: Interval) -> Value:
    low, high = (None if bound != bound else bound for bound in (interval.low, interval.high))
    return Value(interval.estimate, low, high)
