"""Which numbers come out of the cells of a pass, and their intervals.

Numbers are functions of a measure, mostly of the primary one, in all cells, so that the same samples can be drawn in every
cell, and for two networks: intervals come from a bootstrap through `Scoring.score`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.corruptions.parameters import SEVERITIES
from robustvit.corruptions.registry import corruption_names
from robustvit.evaluation.tallied import Tallied
from robustvit.evaluation.value import Value
from robustvit.metrics.bootstrap import SAME, Drawn, Statistic, drawn_scores
from robustvit.metrics.cells import CellAccuracy, clean_accuracy_of
from robustvit.metrics.intervals import Interval
from robustvit.metrics.mean_accuracy import MeanAccuracy, mean_accuracy_of
from robustvit.metrics.measures import RELATIVE_DEGRADATION
from robustvit.metrics.retention import relative_degradation_of, retention_of
from robustvit.metrics.wilson import wilson_interval
from robustvit.tasks.base import SummaryMeasures, Task
from robustvit.tasks.scoring import Scoring

__all__ = [
    "OfMeasure",
    "Scores",
    "corruption_statistics",
    "further_statistics",
    "has_all",
    "has_bootstraps",
    "measured_differences",
    "measured_values",
]

Groups = Mapping[str, Sequence[str]]
"""Group of corruptions -> its members, as `Pass.groups` gives them."""


@dataclass(frozen=True)
class OfMeasure:
    """A statistic of another number of `Scoring.score` than the primary measure, by its key."""

    key: str
    number: Statistic

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return self.number(scores)


class Scores:
    """All numbers of `Scoring.score` in the cells of a pass: of all samples, and of draws that are the same in every cell.

    Args:
        scoring: how numbers come out of the tallies.
        tallied: the pass.
        seed: of the draws.
    """

    def __init__(self, scoring: Scoring, tallied: Tallied, seed: int) -> None:
        self.scoring, self.tallied, self.seed = scoring, tallied, seed

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Of the numbers that all cells have, the primary one first."""
        first, *others = (self.scoring.scores(row) for row in self.tallied.rows)
        primary = self.scoring.primary.key
        return (primary, *(key for key in first if key != primary and all(key in other for other in others)))

    @cached_property
    def drawn(self) -> Drawn:
        """[keys * cells]: the cells of the first key, then those of the next."""
        scoring, tallied = self.scoring, self.tallied
        about: Any = dict(resamples=scoring.resamples, seed=self.seed, strata=_strata(tallied))
        return drawn_scores(lambda counts: _all_scores(scoring, tallied, self.keys, counts), len(tallied.ids), **about)

    def of(self, ids: Sequence[str]) -> Scores:
        """Only these samples, in this order."""
        return self if ids == self.tallied.ids else Scores(self.scoring, self.tallied.of(ids), self.seed)

    def has(self, number: Statistic) -> bool:
        """Whether a number is of a measure that all cells have."""
        return _key(number, self.scoring) in self.keys

    def statistic(self, number: Statistic) -> Statistic:
        """A statistic of one measure in the cells, as one of all of them."""
        key, C = _key(number, self.scoring), len(self.tallied.cells)
        start = self.keys.index(key) * C
        return lambda scores: number(scores[..., start : start + C])

    def interval(self, number: Statistic) -> Interval:
        """Of a number: the task's own, else that of a bootstrap; where all draws agree, Wilson's for the mean of a share."""
        key, plain = _key(number, self.scoring), number.number if isinstance(number, OfMeasure) else number
        if isinstance(plain, CellAccuracy):
            exact = self.scoring.interval(key, self.tallied.rows[plain.position])
            if exact is not None:
                return exact
        with np.errstate(divide="ignore", invalid="ignore"):  # a draw without a right answer has no retention
            found = self.drawn.interval(self.statistic(number))
        if isinstance(plain, MeanAccuracy) and _is_unknown(found) and self.scoring.is_share:
            n = len(self.tallied.ids)
            return wilson_interval(float(np.clip(found.estimate, 0, 1)) * n, n)
        return found

    def of_cell(self, cell: Condition) -> dict[str, Interval]:
        """All numbers of a cell."""
        place = CellAccuracy(self.tallied.cells.index(cell))
        return {key: self.interval(OfMeasure(key, place)) for key in self.keys}


def corruption_statistics(task: Task, tallied: Tallied) -> dict[str, Statistic]:
    """What can be said about clean samples and corruptions: means, and retention; of the primary measure and of `seconds`."""
    scores = task.scores(tallied.row(CLEAN) if CLEAN in tallied.cells else tallied.rows[0])
    found = _of_measure(task.summary, tallied.cells, scores[task.primary.key])
    for key in (key for key in task.seconds if key in scores):
        numbers = _of_measure(task.seconds[key], tallied.cells, scores[key])
        found |= {name: OfMeasure(key, number) for name, number in numbers.items()}
    return found


def _of_measure(names: SummaryMeasures, cells: Sequence[Condition], clean: float) -> dict[str, Statistic]:
    """The numbers of one measure; `clean` is its value on clean samples, where these were measured."""
    corruptions, found = _corruptions(cells), dict[str, Statistic]()
    if CLEAN in cells:
        found[names.clean.key] = clean_accuracy_of(cells)
    if corruptions:
        found[names.mean.key] = mean_accuracy_of(cells, corruptions)
    for measure, corruption_set in ((names.mean_15, "common15"), (names.mean_19, "all19")):
        if has_all(cells, corruption_set):
            found[measure.key] = mean_accuracy_of(cells, corruption_set)
    if corruptions and CLEAN in cells and clean > 0:  # of nothing, no share can be kept
        kept = retention_of(cells, "common15" if has_all(cells, "common15") else corruptions)
        found[names.retention.key] = kept
        if names.has_degradation:
            found[RELATIVE_DEGRADATION.key] = relative_degradation_of(kept)
    return found


def further_statistics(scores: Scores) -> dict[str, Statistic]:
    """The numbers of the clean samples besides the primary measure; see `Scoring.further`."""
    if CLEAN not in scores.tallied.cells:
        return {}
    clean = clean_accuracy_of(scores.tallied.cells)
    return {name: OfMeasure(key, clean) for key, name in scores.scoring.further.items() if key in scores.keys}


def _corruptions(cells: Sequence[Condition]) -> list[str]:
    return list(dict.fromkeys(condition.name for condition in cells if condition.severity))


def _by_corruption(cells: Sequence[Condition]) -> dict[str, Statistic]:
    """Corruption -> mean over its severities."""
    return {name: mean_accuracy_of(cells, [name]) for name in _corruptions(cells)}


def _by_group(cells: Sequence[Condition], groups: Groups) -> dict[str, Statistic]:
    """ "noise", "blur", ... -> mean over its corruptions."""
    return {group: mean_accuracy_of(cells, members) for group, members in groups.items()}


def has_all(cells: Sequence[Condition], corruption_set: str) -> bool:
    """Whether all of a set was measured, at all severities."""
    return {(name, severity) for name in corruption_names(corruption_set) for severity in SEVERITIES} <= set(cells)


def has_bootstraps(scores: Scores, summary: Mapping[str, Statistic]) -> bool:
    """Whether the interval of a number comes from draws."""
    scoring, tallied = scores.scoring, scores.tallied
    numbers = [*summary.values(), *_by_corruption(tallied.cells).values()]
    is_drawn = any(scoring.interval(scoring.primary.key, row) is None for row in tallied.rows)
    return is_drawn or any(not isinstance(number, CellAccuracy) for number in numbers)


def measured_values(
    scores: Scores, summary: Mapping[str, Statistic], groups: Groups
) -> tuple[dict[str, Value], dict[str, Value], dict[str, Value]]:
    """The numbers of the summary, by group and by corruption, with intervals; what is not a number is left out."""
    cells = scores.tallied.cells
    kinds = (summary, _by_group(cells, groups), _by_corruption(cells))
    first, second, third = ({name: scores.interval(number) for name, number in kind.items()} for kind in kinds)
    return _values(first), _values(second), _values(third)


def measured_differences(
    mine: Scores, other: Scores, summary: Mapping[str, Statistic], groups: Groups
) -> tuple[int, dict[str, Value], dict[str, Value]]:
    """(samples that both networks saw, differences of the summary, by group); paired, with intervals."""
    known, cells = set(other.tallied.ids), mine.tallied.cells
    ids = [name for name in mine.tallied.ids if name in known]
    if not ids or cells != other.tallied.cells:
        return 0, {}, {}
    ours, theirs = mine.of(ids), other.of(ids)
    first, second = (
        {name: _difference(ours, theirs, n) for name, n in kind.items()} for kind in (summary, _by_group(cells, groups))
    )
    return len(ids), _values(first), _values(second)


def _difference(ours: Scores, theirs: Scores, number: Statistic) -> Interval:
    """Paired, as both have the same samples and draws."""
    mine, other, width = ours.drawn, theirs.drawn, len(ours.drawn.whole)
    wholes, draws = np.concatenate([mine.whole, other.whole]), np.concatenate([mine.drawn, other.drawn], axis=1)
    both = Drawn(wholes, draws, ours.seed)
    one, two = ours.statistic(number), theirs.statistic(number)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = both.interval(lambda scores: one(scores[..., :width]) - two(scores[..., width:]))
    if isinstance(number, CellAccuracy | MeanAccuracy) and _is_unknown(found) and ours.scoring.is_share:
        return _constant_difference(found, len(ours.tallied.ids))
    return found


def _all_scores(scoring: Scoring, tallied: Tallied, keys: Sequence[str], counts: np.ndarray) -> np.ndarray:
    """[R, keys * cells], for R choices of samples."""
    found = []
    for row, own in zip(tallied.rows, tallied.present, strict=True):
        found.append(scoring.score(row, counts if own.all() else counts[:, own]))
    return np.stack([one[key] for key in keys for one in found], axis=-1)


def _key(number: Statistic, scoring: Scoring) -> str:
    return number.key if isinstance(number, OfMeasure) else scoring.primary.key


def _strata(tallied: Tallied) -> np.ndarray | None:
    """[N]: samples that belong to the same cells; None where all of them do. Draws keep the number of each."""
    kinds = np.unique(tallied.present, axis=1, return_inverse=True)[1].ravel()
    return kinds if kinds.size and kinds.max() > 0 else None


def _values(found: Mapping[str, Interval]) -> dict[str, Value]:
    """Without what is not a number."""
    return {name: Value.of(interval) for name, interval in found.items() if interval.estimate == interval.estimate}


def _is_unknown(interval: Interval) -> bool:
    return interval.low != interval.low


def _constant_difference(found: Interval, samples: int) -> Interval:
    """Of two shares that differ by the same on every sample, of which a bootstrap learns nothing.

    Differences lie in -1..1, so half of 1 + difference is a score in 0..1, for which Wilson's interval holds. Where there is
    no difference at all, the samples do not tell the networks apart, and there is no interval.
    """
    if abs(found.estimate) < SAME:
        return found
    wilson = wilson_interval(samples * min(1.0, max(0.0, (1 + found.estimate) / 2)), samples, level=found.level)
    return Interval(found.estimate, 2 * wilson.low - 1, 2 * wilson.high - 1, found.level)
