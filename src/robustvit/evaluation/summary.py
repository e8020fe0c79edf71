"""From the answers of a network to cells and headline numbers, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from robustvit.evaluation.classification import NO_ANSWER, Outcome
from robustvit.evaluation.conditions import CLEAN, Condition
from robustvit.evaluation.results import CellResult, Value
from robustvit.evaluation.scores import Scores, with_interval
from robustvit.metrics.bootstrap import bootstrap_mean
from robustvit.metrics.calibration import calibration_error
from robustvit.metrics.corruption_error import SEVERITIES, corruption_errors, extra_corruption_errors

__all__ = ["Summaries", "cells_of", "errors_of", "summarise"]


@dataclass(frozen=True)
class Summaries:
    """The numbers of one run: its summary, and mean accuracies by group and by corruption."""

    summary: dict[str, Value]
    groups: dict[str, Value] = field(default_factory=dict)
    corruptions: dict[str, Value] = field(default_factory=dict)


def cells_of(suites: Sequence[str], conditions: Sequence[Condition], outcome: Outcome, seed: int) -> list[CellResult]:
    """A cell for every condition; `suites` says which suite each of them belongs to."""
    cells = []
    for suite, condition, predictions, confidences in zip(
        suites, conditions, outcome.predictions, outcome.confidences, strict=True
    ):
        correct = predictions == outcome.labels
        accuracy = with_interval(bootstrap_mean(correct, seed=seed)) if len(correct) else None
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


def summarise(conditions: Sequence[Condition], outcome: Outcome, scores: Scores, seed: int) -> Summaries:
    """The numbers of a run with intervals, and the calibration error, which has none.

    Args:
        conditions: that the outcome has.
        outcome: of the network.
        scores: of that outcome.
        seed: of the intervals.
    """
    summary, groups, corruptions = scores.values(seed)
    if CLEAN in conditions:
        clean = list(conditions).index(CLEAN)
        gap = calibration_error(outcome.confidences[clean].clip(0, 1), outcome.correct[clean])
        summary["expected_calibration_error"] = Value(gap)
    return Summaries(summary, groups, corruptions)
