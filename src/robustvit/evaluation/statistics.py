"""Which numbers come out of the cells of a pass, and their intervals.

Numbers are functions of the primary measure in all cells, so that the same samples can be drawn in every cell, and for two
networks: intervals come from a bootstrap through `Scoring.score`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.corruptions.parameters import SEVERITIES
from robustvit.corruptions.registry import corruption_names
from robustvit.evaluation.tallied import Tallied
from robustvit.evaluation.value import Value
from robustvit.metrics.bootstrap import SAME, Statistic, bootstrap_intervals
from robustvit.metrics.cells import CellAccuracy, clean_accuracy_of
from robustvit.metrics.intervals import Interval
from robustvit.metrics.mean_accuracy import MeanAccuracy, mean_accuracy_of
from robustvit.metrics.measures import RELATIVE_DEGRADATION, RETENTION
from robustvit.metrics.retention import relative_degradation_of, retention_of
from robustvit.metrics.wilson import wilson_interval
from robustvit.tasks.base import Task
from robustvit.tasks.scoring import Scoring

__all__ = ["cell_intervals", "corruption_statistics", "has_all", "has_bootstraps", "measured_differences", "measured_values"]

Groups = Mapping[str, Sequence[str]]
"""Group of corruptions -> its members, as `Pass.groups` gives them."""


def corruption_statistics(task: Task, tallied: Tallied) -> dict[str, Statistic]:
    """What can be said about clean samples and corruptions: means, and retention."""
    cells, keys = tallied.cells, task.summary
    names = _corruptions(cells)
    summary: dict[str, Statistic] = {}
    if CLEAN in cells:
        summary[keys.clean.key] = clean_accuracy_of(cells)
    if names:
        summary[keys.mean.key] = mean_accuracy_of(cells, names)
    for measure, corruption_set in ((keys.mean_15, "common15"), (keys.mean_19, "all19")):
        if has_all(cells, corruption_set):
            summary[measure.key] = mean_accuracy_of(cells, corruption_set)
    if names and CLEAN in cells and _score(task, tallied.only(CLEAN))[0] > 0:  # of nothing, no share can be kept
        kept = retention_of(cells, "common15" if has_all(cells, "common15") else names)
        summary[RETENTION.key] = kept
        if keys.has_degradation:
            summary[RELATIVE_DEGRADATION.key] = relative_degradation_of(kept)
    return summary


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


def has_bootstraps(scoring: Scoring, tallied: Tallied, summary: Mapping[str, Statistic]) -> bool:
    """Whether the interval of a number comes from draws."""
    numbers = [*summary.values(), *_by_corruption(tallied.cells).values()]
    is_drawn = any(scoring.interval(scoring.primary.key, row) is None for row in tallied.rows)
    return is_drawn or any(not isinstance(number, CellAccuracy) for number in numbers)


def measured_values(
    scoring: Scoring, tallied: Tallied, summary: Mapping[str, Statistic], groups: Groups, seed: int
) -> tuple[dict[str, Value], dict[str, Value], dict[str, Value]]:
    """The numbers of the summary, by group and by corruption, with intervals, those of bootstraps from the same draws."""
    n, C = len(tallied.ids), len(tallied.cells)
    kinds = (summary, _by_group(tallied.cells, groups), _by_corruption(tallied.cells), _further(scoring, tallied))
    joined = _joined(kinds)
    numbers = {name: _of_first(number, C) for name, number in joined.items()}
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw without a right answer has no retention
        draws: Any = dict(seed=seed, strata=_strata(tallied))
        found = bootstrap_intervals(lambda counts: _all_scores(scoring, tallied, counts), n, numbers, **draws)
    for name, number in joined.items():
        if isinstance(number, CellAccuracy):
            exact = scoring.interval(scoring.primary.key, tallied.rows[number.position])
            found[name] = exact or found[name]
        elif isinstance(number, MeanAccuracy) and _is_unknown(found[name]) and scoring.is_share:
            found[name] = wilson_interval(float(np.clip(found[name].estimate, 0, 1)) * n, n)
    return {**_part(found, kinds, 0), **_part(found, kinds, 3)}, _part(found, kinds, 1), _part(found, kinds, 2)


def measured_differences(
    scoring: Scoring, mine: Tallied, other: Tallied, summary: Mapping[str, Statistic], groups: Groups, seed: int
) -> tuple[int, dict[str, Value], dict[str, Value]]:
    """(samples that both networks saw, differences of the summary, by group); paired, with intervals."""
    known = set(other.ids)
    ids = [name for name in mine.ids if name in known]
    if not ids or mine.cells != other.cells:
        return 0, {}, {}
    ours, theirs, C = mine.of(ids), other.of(ids), len(mine.cells)

    def scores(counts: np.ndarray) -> np.ndarray:
        return np.concatenate([_all_scores(scoring, ours, counts), _all_scores(scoring, theirs, counts)], axis=-1)

    kinds = (summary, _by_group(mine.cells, groups), _further(scoring, ours))
    joined = _joined(kinds)
    each = C + len(kinds[2])
    paired = {name: _difference(_of_first(number, C), each) for name, number in joined.items()}
    with np.errstate(divide="ignore", invalid="ignore"):
        found = bootstrap_intervals(scores, len(ids), paired, seed=seed, strata=_strata(ours))
    for name, number in joined.items():
        if isinstance(number, CellAccuracy | MeanAccuracy) and _is_unknown(found[name]) and scoring.is_share:
            found[name] = _constant_difference(found[name], len(ids))
    return len(ids), {**_part(found, kinds, 0), **_part(found, kinds, 2)}, _part(found, kinds, 1)


def cell_intervals(scoring: Scoring, tallied: Tallied, seed: int) -> list[dict[str, Interval]]:
    """Of every cell, all numbers of `Scoring.score`: with the task's own intervals, or those of a bootstrap."""
    keys, C = [*scoring.scores(tallied.rows[0])], len(tallied.cells)
    exact = {(key, i): scoring.interval(key, row) for key in keys for i, row in enumerate(tallied.rows)}
    needed = {f"{key}:{i}": CellAccuracy(place) for place, (key, i) in enumerate(exact) if exact[key, i] is None}

    def scores(counts: np.ndarray) -> np.ndarray:
        scored = [scoring.score(row, counts) for row in tallied.rows]
        return np.stack([one[key] for key in keys for one in scored], axis=-1)  # R keys*C

    found = bootstrap_intervals(scores, len(tallied.ids), needed, seed=seed, strata=_strata(tallied))
    return [{key: exact[key, i] or found[f"{key}:{i}"] for key in keys} for i in range(C)]


def _scores(scoring: Scoring, tallied: Tallied, counts: np.ndarray) -> np.ndarray:
    """[R, cells]: the primary measure in every cell, for R choices of samples."""
    return np.stack([scoring.score(row, counts)[scoring.primary.key] for row in tallied.rows], axis=-1)


def _all_scores(scoring: Scoring, tallied: Tallied, counts: np.ndarray) -> np.ndarray:
    """[R, cells + further]: `_scores`, and the further numbers of the clean cell."""
    scores = _scores(scoring, tallied, counts)
    if not _further(scoring, tallied):
        return scores
    clean = scoring.score(tallied.row(CLEAN), counts)
    return np.concatenate([scores, np.stack([clean[key] for key in scoring.further], axis=-1)], axis=-1)


def _further(scoring: Scoring, tallied: Tallied) -> dict[str, Statistic]:
    """Key in summaries -> its place after the cells in `_all_scores`."""
    if CLEAN not in tallied.cells:
        return {}
    return {name: _Further(len(tallied.cells) + place) for place, name in enumerate(scoring.further.values())}


@dataclass(frozen=True)
class _Further:
    """A number that is not made of the cells."""

    position: int

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return scores[..., self.position]


def _of_first(number: Statistic, C: int) -> Statistic:
    """A number of the C cells, of scores with further numbers behind them."""
    return number if isinstance(number, _Further) else lambda scores: number(scores[..., :C])


def _strata(tallied: Tallied) -> np.ndarray | None:
    """[N]: samples that belong to the same cells; None where all of them do. Draws keep the number of each."""
    kinds = np.unique(tallied.present, axis=1, return_inverse=True)[1].ravel()
    return kinds if kinds.size and kinds.max() > 0 else None


def _score(scoring: Scoring, tallied: Tallied) -> np.ndarray:
    """[cells]: the primary measure in every cell, of all samples."""
    return _scores(scoring, tallied, np.ones((1, len(tallied.ids))))[0]


def _difference(number: Statistic, C: int) -> Statistic:
    """Of the scores of two networks, C cells each."""
    return lambda scores: number(scores[..., :C]) - number(scores[..., C:])


def _joined(kinds: Sequence[Mapping[str, Statistic]]) -> dict[str, Statistic]:
    return {f"{place}:{name}": number for place, kind in enumerate(kinds) for name, number in kind.items()}


def _part(found: Mapping[str, Interval], kinds: Sequence[Mapping[str, Statistic]], place: int) -> dict[str, Value]:
    return {name: Value.of(found[f"{place}:{name}"]) for name in kinds[place]}


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
