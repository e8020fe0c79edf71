"""Corruption error (CE), its mean over the 15 common corruptions (mCE), and both relative to the clean error.

Errors are given as corruption -> errors at the severities, in order. `E[c,s]` are the errors of the network, `A[c,s]` those of
the baseline, `E0` and `A0` the clean errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.metrics.alexnet import ALEXNET_ERRORS, ALEXNET_EXTRA_ERRORS, ErrorTable, ValueTable
from robustvit.metrics.arrays import ArrayLike, FloatArray, require_fractions, require_names, to_floats

__all__ = [
    "SEVERITIES",
    "corruption_errors",
    "extra_corruption_errors",
    "mean_corruption_error",
    "relative_corruption_errors",
    "relative_mean_corruption_error",
]

Errors = Mapping[str, ArrayLike]


def corruption_errors(
    errors: Errors, *, baseline: ErrorTable = ALEXNET_ERRORS, severities: Sequence[int] = SEVERITIES
) -> dict[str, float]:
    """`CE_c = sum_s E[c,s] / sum_s A[c,s]` for every given corruption that the baseline has.

    Args:
        errors: corruption -> errors at `severities`.
        baseline: what to divide by.
        severities: the published CE takes all five; with fewer, both sums run over these.
    """
    sums = {
        c: _row(errors[c], c, severities).sum() / _baseline_row(baseline, c, severities).sum()
        for c in baseline.errors
        if c in errors
    }
    return {corruption: float(value) for corruption, value in sums.items()}


def mean_corruption_error(
    errors: Errors, *, baseline: ErrorTable = ALEXNET_ERRORS, severities: Sequence[int] = SEVERITIES
) -> float:
    """mCE: the mean of `CE_c` over the corruptions of the baseline, all of which must be given. Others are left out."""
    require_names(errors, baseline.errors, "mCE")
    return float(np.mean([*corruption_errors(errors, baseline=baseline, severities=severities).values()]))


def relative_corruption_errors(
    errors: Errors, clean_error: float, *, baseline: ErrorTable = ALEXNET_ERRORS, severities: Sequence[int] = SEVERITIES
) -> dict[str, float]:
    """`rCE_c = sum_s (E[c,s] - E0) / sum_s (A[c,s] - A0)` for every given corruption that the baseline has."""
    require_fractions(np.asarray(clean_error, dtype=np.float64), "the clean error")
    relative = {}
    for corruption in (c for c in baseline.errors if c in errors):
        lost = (_row(errors[corruption], corruption, severities) - clean_error).sum()
        relative[corruption] = float(lost / (_baseline_row(baseline, corruption, severities) - baseline.clean_error).sum())
    return relative


def relative_mean_corruption_error(
    errors: Errors, clean_error: float, *, baseline: ErrorTable = ALEXNET_ERRORS, severities: Sequence[int] = SEVERITIES
) -> float:
    """Relative mCE: the mean of `rCE_c` over the corruptions of the baseline, all of which must be given."""
    require_names(errors, baseline.errors, "relative mCE")
    relative = relative_corruption_errors(errors, clean_error, baseline=baseline, severities=severities)
    return float(np.mean([*relative.values()]))


def extra_corruption_errors(errors: Errors, *, baseline: ValueTable = ALEXNET_EXTRA_ERRORS) -> dict[str, float]:
    """CE of the extra corruptions, over all five severities. To be reported as "CE (extra)": they are not part of mCE."""
    given = {c: _row(errors[c], c, SEVERITIES) for c in baseline.values if c in errors}
    return {corruption: float(row.mean() / baseline.values[corruption]) for corruption, row in given.items()}


def _row(values: ArrayLike, corruption: str, severities: Sequence[int]) -> FloatArray:
    row = to_floats(values, f"errors of {corruption}")
    if row.shape != (len(severities),):
        raise ValueError(
            f"{corruption} has errors of shape {list(row.shape)}; expected one for each severity {tuple(severities)}"
        )
    require_fractions(row, f"errors of {corruption}")
    return row


def _baseline_row(baseline: ErrorTable, corruption: str, severities: Sequence[int]) -> FloatArray:
    if not severities or not set(severities) <= set(SEVERITIES) or len(set(severities)) != len(severities):
        raise ValueError(f"severities={tuple(severities)} is not possible; choose some of {SEVERITIES}, each once")
    return np.array([baseline.errors[corruption][s - 1] for s in severities])
