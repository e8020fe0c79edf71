"""From the answers of a network to cells and headline numbers, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from robustvit.attacks.attack import Attack
from robustvit.evaluation.attacking import ATTACK_SUITE, CHANGES
from robustvit.evaluation.classification import NO_ANSWER, Outcome
from robustvit.evaluation.conditions import CLEAN, Condition
from robustvit.evaluation.results import CellResult, Value
from robustvit.evaluation.scores import Scores, rows_of, with_interval
from robustvit.metrics.calibration import calibration_error
from robustvit.metrics.corruption_error import SEVERITIES, corruption_errors, extra_corruption_errors
from robustvit.metrics.wilson import wilson_interval

__all__ = ["Summaries", "cells_of", "errors_of", "summarise"]


@dataclass(frozen=True)
class Summaries:
    """The numbers of one run: its summary, and mean accuracies by group and by corruption."""

    summary: dict[str, Value]
    groups: dict[str, Value] = field(default_factory=dict)
    corruptions: dict[str, Value] = field(default_factory=dict)


def cells_of(suites: Sequence[str], conditions: Sequence[Condition], outcome: Outcome) -> list[CellResult]:
    """A cell for every condition; `suites` says which suite each of them belongs to."""
    cells = []
    answers = (outcome.predictions, outcome.correct, outcome.confidences, outcome.changes)
    for suite, condition, predictions, correct, confidences, changes in zip(suites, conditions, *answers, strict=True):
        accuracy = with_interval(wilson_interval(int(correct.sum()), len(correct))) if len(correct) else None
        gap = calibration_error(confidences.clip(0, 1), correct) if len(correct) else None
        lost = int((predictions == NO_ANSWER).sum())
        means = dict(zip(CHANGES, changes.mean(0).tolist(), strict=True)) if suite == ATTACK_SUITE and len(correct) else {}
        place = (suite, condition.name, condition.severity, len(correct))
        cells.append(CellResult(*place, accuracy, gap, no_answer=lost, **means))
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
    conditions: Sequence[Condition], outcome: Outcome, scores: Scores, seed: int, *, attacks: Sequence[Attack] = ()
) -> Summaries:
    """The numbers of a run with intervals; the calibration error and the spread over masks have none.

    Args:
        conditions: that the outcome has.
        outcome: of the network.
        scores: of that outcome.
        seed: of the intervals.
        attacks: whose rows are among the conditions.
    """
    summary, groups, corruptions = scores.values(seed)
    if CLEAN in conditions:
        clean = list(conditions).index(CLEAN)
        gap = calibration_error(outcome.confidences[clean].clip(0, 1), outcome.correct[clean])
        summary["expected_calibration_error"] = Value(gap)
    for attack in (attack for attack in attacks if len(attack.rows) > 1):
        accuracies = rows_of(attack, conditions, outcome.correct).mean(1)
        summary[f"{attack.key}_spread"] = Value(float(accuracies.std(ddof=1)))
    return Summaries(summary, groups, corruptions)
