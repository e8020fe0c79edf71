"""Scores as functions of the accuracies of all cells at once, so that they can be bootstrapped.

A cell is (corruption, severity), or `CLEAN`. Every score here equals the function of the same name on one table of accuracies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustvit.metrics.alexnet import ALEXNET_ERRORS, ErrorTable
from robustvit.metrics.arrays import FloatArray
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.mean_accuracy import CORRUPTION_SETS

__all__ = [
    "CLEAN",
    "Cell",
    "CellAccuracy",
    "MeanAccuracy",
    "clean_accuracy_of",
    "mean_accuracy_of",
    "mean_corruption_error_of",
    "relative_error_of",
    "retention_of",
]

Cell = tuple[str, int]
CLEAN: Cell = ("clean", 0)


@dataclass(frozen=True)
class CellAccuracy:
    """The accuracy of the cell at `position`: a single proportion, for which `wilson_interval` is made."""

    position: int

    def __call__(self, accuracies: FloatArray) -> FloatArray:
        return accuracies[..., self.position]


@dataclass(frozen=True, eq=False)
class MeanAccuracy:
    """A weighted mean of cells; the weights [cells] sum to 1."""

    weights: FloatArray

    def __call__(self, accuracies: FloatArray) -> FloatArray:
        return accuracies @ self.weights


def clean_accuracy_of(cells: Sequence[Cell]) -> CellAccuracy:
    """The accuracy of the clean cell."""
    return CellAccuracy(_positions(cells, [CLEAN])[0])


def mean_accuracy_of(cells: Sequence[Cell], types: str | Sequence[str] | None = "common15") -> CellAccuracy | MeanAccuracy:
    """Mean over types of the mean over their severities; of one cell, its accuracy.

    Args:
        cells: in the order of the accuracies.
        types: a set of corruptions by its name, or their names; None takes all types that have cells.
    """
    weights = _weights_of_mean(cells, types)
    positions = weights.nonzero()[0]
    return CellAccuracy(int(positions[0])) if len(positions) == 1 else MeanAccuracy(weights)


def retention_of(cells: Sequence[Cell], types: str | Sequence[str] | None = "common15") -> Statistic:
    """Mean accuracy over clean accuracy."""
    mean, clean = mean_accuracy_of(cells, types), clean_accuracy_of(cells)
    return lambda accuracies: mean(accuracies) / clean(accuracies)


def mean_corruption_error_of(cells: Sequence[Cell], *, baseline: ErrorTable = ALEXNET_ERRORS) -> Statistic:
    """mCE; needs the cells of every corruption of the baseline at all five severities."""
    rows = _baseline_positions(cells, baseline)
    sums = np.array([sum(errors) for errors in baseline.errors.values()])

    def score(accuracies: FloatArray) -> FloatArray:
        return ((1 - accuracies[..., rows]).sum(-1) / sums).mean(-1)  # mean_c sum_s E / sum_s A

    return score


def relative_error_of(cells: Sequence[Cell], *, baseline: ErrorTable = ALEXNET_ERRORS) -> Statistic:
    """Relative mCE; needs the clean cell as well."""
    rows, clean = _baseline_positions(cells, baseline), clean_accuracy_of(cells)
    sums = np.array([sum(errors) - len(errors) * baseline.clean_error for errors in baseline.errors.values()])

    def score(accuracies: FloatArray) -> FloatArray:
        lost = clean(accuracies)[..., None, None] - accuracies[..., rows]  # E[c,s] - E0
        return (lost.sum(-1) / sums).mean(-1)

    return score


def _baseline_positions(cells: Sequence[Cell], baseline: ErrorTable) -> np.ndarray:
    """[corruptions, severities] positions in `cells`."""
    wanted = [[(corruption, s + 1) for s in range(len(errors))] for corruption, errors in baseline.errors.items()]
    return np.array([_positions(cells, row) for row in wanted])


def _weights_of_mean(cells: Sequence[Cell], types: str | Sequence[str] | None) -> FloatArray:
    if isinstance(types, str) and types not in CORRUPTION_SETS:
        raise ValueError(f"there is no set of corruptions {types!r}; choose one of {', '.join(CORRUPTION_SETS)}")
    given = list(dict.fromkeys(name for name, severity in cells if (name, severity) != CLEAN))
    names = given if types is None else list(CORRUPTION_SETS[types] if isinstance(types, str) else types)
    missing = [name for name in names if name not in given]
    if missing or not names:
        which = types if isinstance(types, str) else "the given types"
        raise ValueError(f"the mean over {which} has no cells for: {', '.join(missing) or 'any'}")
    counts = {name: sum(name == other for other, _ in cells) for name in names}
    return np.array([1 / (len(names) * counts[name]) if name in counts else 0.0 for name, _ in cells])


def _positions(cells: Sequence[Cell], wanted: Sequence[Cell]) -> list[int]:
    known = {cell: position for position, cell in enumerate(cells)}
    missing = [
        f"{name} at severity {severity}" if (name, severity) != CLEAN else "clean"
        for name, severity in wanted
        if (name, severity) not in known
    ]
    if missing:
        raise ValueError(f"{len(known)} cells were given and these are missing: {', '.join(missing)}")
    return [known[cell] for cell in wanted]
