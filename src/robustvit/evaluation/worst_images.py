"""The images that went worst, for the report: as they are, and under corruption."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.data.samples import Sample
from robustvit.evaluation.examples import example_of
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.results import Example, WorstImage
from robustvit.evaluation.tallied import Tallied
from robustvit.tasks.per_class import CORRUPTED

__all__ = ["make_worst_images"]

MOST = 3
"""Images to show of either kind, however many were asked for."""


def make_worst_images(planned: Pass, tallied: Tallied, count: int) -> tuple[WorstImage, ...]:
    """Those with the lowest primary measure as they are, then those of the others with the lowest mean over corruptions.

    Args:
        planned: a pass that shows images, of a task that ranks samples.
        tallied: of that pass.
        count: of either kind, at most `MOST`.

    Returns:
        Worst first. An image that is among the worst as it is says nothing about corruption, and is not shown twice.
    """
    alone = [tallied.spread(i, planned.scoring.sample_scores(row)) for i, row in enumerate(tallied.rows)]
    scores = np.stack(alone)  # cells N
    plain = scores[tallied.cells.index(CLEAN)] if CLEAN in tallied.cells else _first_present(scores, tallied.present)
    spoiled = scores[[cell.severity > 0 for cell in tallied.cells]]
    known = np.isfinite(spoiled)
    counts = known.sum(0)
    means = np.where(counts > 0, np.where(known, spoiled, 0).sum(0) / np.maximum(counts, 1), np.nan)
    most = min(count, MOST)
    first = _lowest(plain, most)
    others = np.where(np.isin(np.arange(len(means)), first), np.nan, means)
    wanted = [*((CLEAN.name, i) for i in first), *((CORRUPTED, i) for i in _lowest(others, most))]
    samples = _found(planned, {tallied.ids[i] for _, i in wanted})
    found = []
    for ranked, i in wanted:
        sample = samples[tallied.ids[i]]
        shown = list(planned.conditions_of(sample.id)[:1])
        if ranked == CORRUPTED:
            shown.append(_worst_cell(tallied.cells, scores[:, i]))
        found.append(WorstImage(ranked, _number(plain[i]), _number(means[i]), _example(planned, sample, shown)))
    return tuple(found)


def _first_present(scores: np.ndarray, present: np.ndarray) -> np.ndarray:
    """[N]: of every sample, its score in the first cell that it belongs to; both arguments are [cells, N]."""
    return scores[present.argmax(0), np.arange(scores.shape[1])]


def _lowest(numbers: np.ndarray, count: int) -> list[int]:
    """Where the lowest of [N] stand; those that are no numbers do not count."""
    order = np.argsort(numbers, kind="stable")  # NaN comes last
    return [int(i) for i in order[: min(count, int(np.isfinite(numbers).sum()))]]


def _worst_cell(cells: Sequence[Condition], scores: np.ndarray) -> Condition:
    """The corruption under which a sample, with scores [cells], went worst."""
    corrupted = [(scores[i], cell) for i, cell in enumerate(cells) if cell.severity and np.isfinite(scores[i])]
    return min(corrupted, key=lambda pair: pair[0])[1]


def _found(planned: Pass, names: set[str]) -> dict[str, Sample]:
    return {sample.id: sample for sample in planned.samples if sample.id in names}


def _example(planned: Pass, sample: Sample, conditions: Sequence[Condition]) -> Example:
    return example_of(planned, sample, planned.protocol.apply(sample.open())[None], conditions)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
