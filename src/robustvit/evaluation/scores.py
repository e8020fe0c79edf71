"""What the scores of a run are made of: every picture in every cell, and how scores follow from the means of the cells.

Kept beside the results, so that two networks can be compared picture by picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from robustvit.attacks.attack import Attack
from robustvit.corruptions.parameters import SEVERITIES
from robustvit.corruptions.registry import CORRUPTIONS, corruption_names
from robustvit.evaluation.classification import Outcome
from robustvit.evaluation.conditions import CLEAN, Condition
from robustvit.evaluation.results import Value
from robustvit.metrics.bootstrap import SAME, Statistic, bootstrap_differences, bootstrap_scores
from robustvit.metrics.cells import Cell, CellAccuracy, clean_accuracy_of
from robustvit.metrics.corruption_error import mean_corruption_error_of, relative_mean_corruption_error_of
from robustvit.metrics.intervals import Interval
from robustvit.metrics.mean_accuracy import MeanAccuracy, mean_accuracy_of
from robustvit.metrics.retention import retention_of
from robustvit.metrics.wilson import wilson_interval

__all__ = ["Scores", "rows_of", "score_outcome", "with_interval"]


@dataclass(frozen=True)
class Scores:
    """One run of one network.

    Attributes:
        ids: of the N pictures (or films).
        cells: what the rows of the table show.
        table: [cells, N], each in 0..1: whether the answer was right, or how often it changed.
        summary: key of a measure -> score from the means of the rows.
        groups: "noise", "blur", ... -> its mean accuracy.
        corruptions: corruption -> its mean accuracy.
    """

    ids: Sequence[str]
    cells: tuple[Cell, ...]
    table: np.ndarray
    summary: Mapping[str, Statistic]
    groups: Mapping[str, Statistic] = field(default_factory=dict)
    corruptions: Mapping[str, Statistic] = field(default_factory=dict)

    @property
    def has_bootstraps(self) -> bool:
        """Whether the interval of a score comes from draws."""
        scores = [*self.summary.values(), *self.groups.values(), *self.corruptions.values()]
        return any(not isinstance(score, CellAccuracy) for score in scores)

    def values(self, seed: int) -> tuple[dict[str, Value], dict[str, Value], dict[str, Value]]:
        """(summary, groups, corruptions) with intervals, those of bootstraps all from the same draws."""
        kinds = (self.summary, self.groups, self.corruptions)
        with np.errstate(divide="ignore", invalid="ignore"):  # a draw without a right answer has no retention
            found = bootstrap_scores(self.table, _joined(kinds), seed=seed)
        for name, score in _joined(kinds).items():
            if isinstance(score, CellAccuracy) or (isinstance(score, MeanAccuracy) and _is_unknown(found[name])):
                found[name] = wilson_interval(*self._right(score))
        return tuple(_part(found, place, kind) for place, kind in enumerate(kinds))  # type: ignore[return-value]

    def _right(self, score: CellAccuracy | MeanAccuracy) -> tuple[float, int]:
        """(right answers, pictures); of a mean over cells, the sum of the pictures' means."""
        pictures = self.table.shape[1]
        return float(np.clip(score(self.table.sum(1)), 0, pictures)), pictures

    def minus(self, other: Scores, seed: int) -> tuple[int, dict[str, Value], dict[str, Value]]:
        """(pictures that both saw, differences of the summaries, of the groups); paired, with intervals."""
        places = {name: place for place, name in enumerate(other.ids)}
        pairs = [(i, places[name]) for i, name in enumerate(self.ids) if name in places]
        if not pairs or self.cells != other.cells:
            return 0, {}, {}
        mine, others = (list(column) for column in zip(*pairs, strict=True))
        kinds = tuple(
            {name: score for name, score in ours.items() if name in theirs}
            for ours, theirs in ((self.summary, other.summary), (self.groups, other.groups))
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            found = bootstrap_differences(self.table[:, mine], other.table[:, others], _joined(kinds), seed=seed)
        for name, score in _joined(kinds).items():
            if isinstance(score, CellAccuracy | MeanAccuracy) and _is_unknown(found[name]):
                found[name] = _constant_difference(found[name], len(pairs))
        return len(pairs), _part(found, 0, kinds[0]), _part(found, 1, kinds[1])


def _joined(kinds: Sequence[Mapping[str, Statistic]]) -> dict[str, Statistic]:
    return {f"{place}:{name}": score for place, kind in enumerate(kinds) for name, score in kind.items()}


def _part(found: Mapping[str, Interval], place: int, names: Mapping[str, object]) -> dict[str, Value]:
    return {name: with_interval(found[f"{place}:{name}"]) for name in names}


def _is_unknown(interval: Interval) -> bool:
    return interval.low != interval.low


def _constant_difference(found: Interval, pictures: int) -> Interval:
    """Of two accuracies that differ by the same on every picture, of which a bootstrap learns nothing.

    Differences lie in -1..1, so half of 1 + difference is a score in 0..1, for which Wilson's interval holds. Where there is
    no difference at all, the pictures do not tell the networks apart, and there is no interval.
    """
    if abs(found.estimate) < SAME:
        return found
    wilson = wilson_interval(pictures * min(1.0, max(0.0, (1 + found.estimate) / 2)), pictures, level=found.level)
    return Interval(found.estimate, 2 * wilson.low - 1, 2 * wilson.high - 1, found.level)


def with_interval(interval: Interval) -> Value:
    """The estimate with its interval, where there is one."""
    low, high = (None if bound != bound else bound for bound in (interval.low, interval.high))
    return Value(interval.estimate, low, high)


def score_outcome(
    conditions: Sequence[Condition], outcome: Outcome, *, against_alexnet: bool = True, attacks: Sequence[Attack] = ()
) -> Scores:
    """The scores that these conditions allow.

    Args:
        conditions: that the outcome has.
        outcome: of the network, one picture or more.
        against_alexnet: whether mCE is wanted; CIFAR-C is not divided by anything.
        attacks: whose rows are among the conditions.
    """
    cells = tuple((condition.name, condition.severity) for condition in conditions)
    table = outcome.correct
    for attack in (attack for attack in attacks if len(attack.rows) > 1):
        cells = (*cells, _worst(attack))
        table = np.concatenate([table, rows_of(attack, conditions, outcome.correct).all(0, keepdims=True)])
    names = list(dict.fromkeys(condition.name for condition in conditions if condition.severity))
    groups = {group: [n for n in names if CORRUPTIONS[n].group == group] for group in _groups(names)}
    is_ever_right = CLEAN in conditions and bool(outcome.correct[list(conditions).index(CLEAN)].any())
    return Scores(
        ids=outcome.ids,
        cells=cells,
        table=table,
        summary={
            **_accuracies(cells, names, is_ever_right),
            **(_alexnet_scores(cells) if against_alexnet else {}),
            **({"patches_accuracy": mean_accuracy_of(cells, ["patches"])} if Condition("patches") in conditions else {}),
            **_attack_scores(cells, attacks),
        },
        groups={group: mean_accuracy_of(cells, members) for group, members in groups.items()},
        corruptions={name: mean_accuracy_of(cells, [name]) for name in names},
    )


def rows_of(attack: Attack, conditions: Sequence[Condition], table: np.ndarray) -> np.ndarray:
    """The rows of an attack, of a table with one row a condition."""
    return table[[list(conditions).index(Condition(row)) for row in attack.rows]]


def _worst(attack: Attack) -> Cell:
    """Right under every row of the attack."""
    return (f"{attack.name} (worst)", 0)


def _attack_scores(cells: Sequence[Cell], attacks: Sequence[Attack]) -> dict[str, Statistic]:
    scores: dict[str, Statistic] = {}
    for attack in attacks:
        scores[f"{attack.key}_accuracy"] = mean_accuracy_of(cells, attack.rows)
        if len(attack.rows) > 1:
            scores[f"{attack.key}_worst"] = mean_accuracy_of(cells, [_worst(attack)[0]])
    return scores


def _groups(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(CORRUPTIONS[name].group for name in names))


def _has(cells: Sequence[Cell], corruption_set: str) -> bool:
    """Whether all of a set was measured, at all severities."""
    return {(name, severity) for name in corruption_names(corruption_set) for severity in SEVERITIES} <= set(cells)


def _accuracies(cells: Sequence[Cell], names: Sequence[str], is_ever_right: bool) -> dict[str, Statistic]:
    scores: dict[str, Statistic] = {}
    if ("clean", 0) in cells:
        scores["clean_accuracy"] = clean_accuracy_of(cells)
    if names:
        scores["mean_accuracy"] = mean_accuracy_of(cells, names)
    for key, corruption_set in (("mean_accuracy_15", "common15"), ("mean_accuracy_19", "all19")):
        if _has(cells, corruption_set):
            scores[key] = mean_accuracy_of(cells, corruption_set)
    if names and is_ever_right:  # of nothing, no share can be kept
        scores["retention"] = retention_of(cells, "common15" if _has(cells, "common15") else names)
    return scores


def _alexnet_scores(cells: Sequence[Cell]) -> dict[str, Statistic]:
    if not _has(cells, "common15"):
        return {}
    relative = {"relative_mean_corruption_error": relative_mean_corruption_error_of(cells)} if ("clean", 0) in cells else {}
    return {"mean_corruption_error": mean_corruption_error_of(cells), **relative}
