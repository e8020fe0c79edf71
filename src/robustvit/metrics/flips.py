"""Flip probability (FP), flip rate (FR) and its mean over types (mFR): how often a prediction changes along a sequence.

`mfp` and `mfr` are the definitions of the means over types, over arrays: evaluation bootstraps them. The documented functions
check mappings and call these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from robustvit.metrics.alexnet import ALEXNET_FLIPS, ValueTable
from robustvit.metrics.arrays import ArrayLike, FloatArray, require_fractions, require_names, to_integers

__all__ = [
    "SequenceRule",
    "flip_probability",
    "flip_rate",
    "flip_rates",
    "frame_pairs",
    "mean_flip_probability",
    "mean_flip_rate",
    "mfp",
    "mfr",
    "sequence_rule",
]

SequenceRule = Literal["temporal", "noise"]


def sequence_rule(perturbation: str) -> SequenceRule:
    """Types with "noise" in their name compare with the first frame, all others with an earlier one."""
    return "noise" if "noise" in perturbation else "temporal"


def frame_pairs(frames: int, rule: SequenceRule, difficulty: int = 1) -> tuple[slice, slice]:
    """The frames to compare, as (earlier, later) slices of the frame axis; for noise, earlier is frame 1 alone."""
    if rule not in ("temporal", "noise"):
        raise ValueError(f"rule={rule!r} is not known; choose 'temporal' or 'noise'")
    if rule == "noise" and difficulty != 1:
        raise ValueError(
            f"difficulty={difficulty} is for temporal types; for noise give the predictions of the noisier dataset"
        )
    if difficulty < 1 or frames <= difficulty:
        raise ValueError(f"{frames} frames cannot be compared {difficulty} apart; give a difficulty from 1 to {frames - 1}")
    if rule == "noise":
        return slice(0, 1), slice(1, None)
    return slice(0, frames - difficulty), slice(difficulty, None)


def flip_probability(predictions: ArrayLike, rule: SequenceRule, *, difficulty: int = 1) -> float:
    """The mean over sequences i and frames j of `[f(i,j) != f(i,j-d)]` (temporal), or of `[f(i,j) != f(i,1)]` (noise).

    Args:
        predictions: classes [sequences, frames], or [frames] of one sequence.
        rule: see `sequence_rule`.
        difficulty: d. The d interleaved subsequences of a sequence are pooled.
    """
    classes = np.atleast_2d(to_integers(predictions, "predictions"))
    if classes.ndim != 2 or not len(classes):
        raise ValueError(
            f"predictions must be [sequences, frames] with at least one sequence, got shape {list(classes.shape)}"
        )
    earlier, later = frame_pairs(classes.shape[1], rule, difficulty)
    return float((classes[:, later] != classes[:, earlier]).mean())


def mfp(probabilities: FloatArray) -> FloatArray:
    """The definition: the mean of FP [..., types] over types."""
    return probabilities.mean(-1)


def flip_rate(probabilities: FloatArray, baseline: FloatArray) -> FloatArray:
    """The definition: `FR_p = FP_p / FP_p(baseline)`, [..., types] each."""
    return probabilities / baseline


def mfr(probabilities: FloatArray, baseline: FloatArray) -> FloatArray:
    """The definition: the mean of FR over types, of FP [..., types] and that of the baseline [types]."""
    return flip_rate(probabilities, baseline).mean(-1)


def flip_rates(probabilities: Mapping[str, float], *, baseline: ValueTable = ALEXNET_FLIPS) -> dict[str, float]:
    """`FR_p` for every given type that the baseline has."""
    names = [name for name in baseline.values if name in probabilities]
    rates = flip_rate(_probabilities(probabilities, names), _baseline(baseline, names))
    return dict(zip(names, rates.tolist(), strict=True))


def mean_flip_rate(probabilities: Mapping[str, float], *, baseline: ValueTable = ALEXNET_FLIPS) -> float:
    """mFR: the mean of FR over the types of the baseline, all of which must be given. Print `baseline.name` with it."""
    names = [*baseline.values]
    require_names(probabilities, names, "mFR")
    return float(mfr(_probabilities(probabilities, names), _baseline(baseline, names)))


def mean_flip_probability(probabilities: Mapping[str, float]) -> float:
    """The plain mean over the given types: the CIFAR-P score, which is not divided by anything."""
    if not probabilities:
        raise ValueError("the mean flip probability over no types is not defined; give at least one")
    return float(mfp(np.array([*probabilities.values()], dtype=np.float64)))


def _probabilities(given: Mapping[str, float], names: Sequence[str]) -> FloatArray:
    """[names]."""
    for name in names:
        require_fractions(np.asarray(given[name], dtype=np.float64), f"the flip probability of {name}")
    return np.array([given[name] for name in names], dtype=np.float64)


def _baseline(table: ValueTable, names: Sequence[str]) -> FloatArray:
    """[names]."""
    return np.array([table.values[name] for name in names])
