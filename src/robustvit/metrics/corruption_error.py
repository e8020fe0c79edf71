"""Corruption error (CE), its mean over the 15 common corruptions (mCE) or some of them, and both relative to the clean error.

`E[c,s]` are the errors of the network, `A[c,s]` those of the baseline, `E0` and `A0` the clean errors. `ce`, `mce`,
`relative_ce` and `relative_mce` are the definitions, over arrays; the other functions check what they are given and call
these: with corruption -> errors at the severities, in order, or (`..._of`) with the accuracies of all cells of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.corruptions.registry import corruption_names
from robustvit.metrics.alexnet import ALEXNET_ERRORS, ALEXNET_EXTRA_ERRORS, ErrorTable, ValueTable
from robustvit.metrics.arrays import ArrayLike, FloatArray, IntArray, require_fractions, require_names, to_floats
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.cells import Cell, clean_accuracy_of, positions_of

__all__ = [
    "SEVERITIES",
    "ce",
    "corruption_errors",
    "extra_corruption_errors",
    "mce",
    "mean_corruption_error",
    "mean_corruption_error_of",
    "relative_ce",
    "relative_corruption_errors",
    "relative_mce",
    "relative_mean_corruption_error",
    "relative_mean_corruption_error_of",
]

Errors = Mapping[str, ArrayLike]


def ce(errors: FloatArray, baseline: FloatArray) -> FloatArray:
    """The definition: `CE_c = sum_s E[c,s] / sum_s A[c,s]`, of E [..., severities] and A [..., severities]."""
    return errors.sum(-1) / baseline.sum(-1)


def mce(errors: FloatArray, baseline: FloatArray) -> FloatArray:
    """The definition: the mean over c of `CE_c`, of E [..., corruptions, severities] and A [corruptions, severities]."""
    return ce(errors, baseline).mean(-1)


def relative_ce(lost: FloatArray, baseline: FloatArray, baseline_clean: float) -> FloatArray:
    """The definition: `rCE_c = sum_s (E[c,s] - E0) / sum_s (A[c,s] - A0)`.

    Args:
        lost: E - E0, [..., severities].
        baseline: A, [..., severities].
        baseline_clean: A0.
    """
    return lost.sum(-1) / (baseline.sum(-1) - baseline.shape[-1] * baseline_clean)


def relative_mce(lost: FloatArray, baseline: FloatArray, baseline_clean: float) -> FloatArray:
    """The definition: the mean over c of `rCE_c`, of E - E0 [..., corruptions, severities]; see `relative_ce`."""
    return relative_ce(lost, baseline, baseline_clean).mean(-1)


def corruption_errors(
    errors: Errors, *, baseline: ErrorTable = ALEXNET_ERRORS, severities: Sequence[int] = SEVERITIES
) -> dict[str, float]:
    """`CE_c` for every given corruption that the baseline has.

    Args:
        errors: corruption -> errors at `severities`.
        baseline: what to divide by.
        severities: the published CE takes all five; with fewer, both sums run over these.
    """
    names = [c for c in baseline.errors if c in errors]
    values = ce(_table(errors, names, severities), _baseline_table(baseline, names, severities))
    return dict(zip(names, values.tolist(), strict=True))


def mean_corruption_error(
    errors: Errors,
    *,
    corruption_set: str | None = None,
    baseline: ErrorTable = ALEXNET_ERRORS,
    severities: Sequence[int] = SEVERITIES,
) -> float:
    """mCE: the mean of `CE_c` over the corruptions of the baseline, all of which must be given. Others are left out.

    Args:
        errors: corruption -> errors at `severities`.
        corruption_set: the mean is over this set alone, such as "noiseless12": AFAT's mCE without noise.
        baseline: what to divide by.
        severities: as for `corruption_errors`.
    """
    names = _counting(baseline, corruption_set)
    require_names(errors, names, "mCE" if corruption_set is None else f"mCE over {corruption_set}")
    return float(mce(_table(errors, names, severities), _baseline_table(baseline, names, severities)))


def relative_corruption_errors(
    errors: Errors, clean_error: float, *, baseline: ErrorTable = ALEXNET_ERRORS, severities: Sequence[int] = SEVERITIES
) -> dict[str, float]:
    """`rCE_c` for every given corruption that the baseline has."""
    names = [c for c in baseline.errors if c in errors]
    lost = _table(errors, names, severities) - _checked_clean(clean_error)
    values = relative_ce(lost, _baseline_table(baseline, names, severities), baseline.clean_error)
    return dict(zip(names, values.tolist(), strict=True))


def relative_mean_corruption_error(
    errors: Errors, clean_error: float, *, baseline: ErrorTable = ALEXNET_ERRORS, severities: Sequence[int] = SEVERITIES
) -> float:
    """Relative mCE: the mean of `rCE_c` over the corruptions of the baseline, all of which must be given."""
    names = [*baseline.errors]
    require_names(errors, names, "relative mCE")
    lost = _table(errors, names, severities) - _checked_clean(clean_error)
    return float(relative_mce(lost, _baseline_table(baseline, names, severities), baseline.clean_error))


def mean_corruption_error_of(
    cells: Sequence[Cell], *, corruption_set: str | None = None, baseline: ErrorTable = ALEXNET_ERRORS
) -> Statistic:
    """mCE as a statistic; needs the cells of every corruption of the baseline, or of the set, at all five severities."""
    names = _counting(baseline, corruption_set)
    rows, table = _positions(cells, names), _baseline_table(baseline, names, SEVERITIES)
    return lambda accuracies: mce(1 - accuracies[..., rows], table)


def relative_mean_corruption_error_of(cells: Sequence[Cell], *, baseline: ErrorTable = ALEXNET_ERRORS) -> Statistic:
    """Relative mCE as a statistic; needs the clean cell as well."""
    names = _counting(baseline, None)
    rows, table = _positions(cells, names), _baseline_table(baseline, names, SEVERITIES)
    clean = clean_accuracy_of(cells)

    def score(accuracies: FloatArray) -> FloatArray:
        lost = clean(accuracies)[..., None, None] - accuracies[..., rows]  # E[c,s] - E0
        return relative_mce(lost, table, baseline.clean_error)

    return score


def extra_corruption_errors(errors: Errors, *, baseline: ValueTable = ALEXNET_EXTRA_ERRORS) -> dict[str, float]:
    """CE of the extra corruptions, over all five severities. To be reported as "CE (extra)": they are not part of mCE."""
    given = {c: _row(errors[c], c, SEVERITIES) for c in baseline.values if c in errors}
    return {corruption: float(row.mean() / baseline.values[corruption]) for corruption, row in given.items()}


def _counting(baseline: ErrorTable, corruption_set: str | None) -> list[str]:
    """The corruptions of a mean: all of the baseline, or those of a set.

    Raises:
        ValueError: the baseline lacks some of the set.
    """
    names = [*baseline.errors] if corruption_set is None else [*corruption_names(corruption_set)]
    if foreign := [name for name in names if name not in baseline.errors]:
        raise ValueError(
            f"{baseline.name} has no errors of {', '.join(foreign)}, which {corruption_set} has; give another set"
        )
    return names


def _positions(cells: Sequence[Cell], names: Sequence[str]) -> IntArray:
    """[names, severities] positions in `cells`."""
    return np.array([positions_of(cells, [(name, s) for s in SEVERITIES]) for name in names])


def _table(errors: Errors, names: Sequence[str], severities: Sequence[int]) -> FloatArray:
    """[names, severities]."""
    return np.array([_row(errors[name], name, severities) for name in names]).reshape(len(names), len(severities))


def _row(values: ArrayLike, corruption: str, severities: Sequence[int]) -> FloatArray:
    row = to_floats(values, f"errors of {corruption}")
    if row.shape != (len(severities),):
        raise ValueError(
            f"{corruption} has errors of shape {list(row.shape)}; expected one for each severity {tuple(severities)}"
        )
    require_fractions(row, f"errors of {corruption}")
    return row


def _baseline_table(baseline: ErrorTable, names: Sequence[str], severities: Sequence[int]) -> FloatArray:
    """[names, severities]."""
    if not severities or not set(severities) <= set(SEVERITIES) or len(set(severities)) != len(severities):
        raise ValueError(f"severities={tuple(severities)} is not possible; choose some of {SEVERITIES}, each once")
    rows = [[baseline.errors[name][s - 1] for s in severities] for name in names]
    return np.array(rows).reshape(len(names), len(severities))


def _checked_clean(clean_error: float) -> float:
    require_fractions(np.asarray(clean_error, dtype=np.float64), "the clean error")
    return clean_error
