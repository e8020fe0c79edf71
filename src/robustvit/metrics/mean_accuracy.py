"""The plain mean of accuracy over corruption types and severities, of a named set of types.

`mean_over_types` is the definition. It is linear, so that for a bootstrap it is a weight for each cell: what the definition
gives for that cell alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from robustvit.corruptions.registry import corruption_names
from robustvit.metrics.arrays import ArrayLike, FloatArray, require_fractions, require_names, to_floats
from robustvit.metrics.cells import CLEAN, Cell, CellAccuracy

__all__ = ["MeanAccuracy", "mean_accuracy", "mean_accuracy_of", "mean_over_types"]


def mean_over_types(rows: Sequence[Any]) -> Any:
    """The definition: the mean over types of the mean over their severities.

    Args:
        rows: for each type its accuracies [severities]; as numbers of any kind.
    """
    return np.mean([np.mean(row) for row in rows])


def mean_accuracy(accuracies: Mapping[str, ArrayLike], corruption_set: str | None = "common15") -> float:
    """Mean over the types of a set of the mean over their severities. Say the set with the number: results differ by set.

    Args:
        accuracies: corruption -> accuracies at its severities.
        corruption_set: "common15", "all19" or another that `corruption_names` knows, whose types must all be given (others
            are left out); None takes what is given.
    """
    names = tuple(accuracies) if corruption_set is None else corruption_names(corruption_set)
    require_names(accuracies, names, f"the mean over {corruption_set or 'the given types'}")
    if not names:
        raise ValueError("the mean accuracy over no corruptions is not defined; give at least one")
    return float(mean_over_types([_row(accuracies[name], name) for name in names]))


@dataclass(frozen=True, eq=False)
class MeanAccuracy:
    """A weighted mean of cells; the weights [cells] sum to 1."""

    weights: FloatArray

    def __call__(self, accuracies: FloatArray) -> FloatArray:
        return accuracies @ self.weights


def mean_accuracy_of(cells: Sequence[Cell], types: str | Sequence[str] | None = "common15") -> CellAccuracy | MeanAccuracy:
    """Mean accuracy as a statistic; of one cell, its accuracy.

    Args:
        cells: in the order of the accuracies.
        types: a set that `corruption_names` knows, or names of types; None takes all types that have cells.
    """
    given = list(dict.fromkeys(name for name, severity in cells if (name, severity) != CLEAN))
    names = given if types is None else list(corruption_names(types) if isinstance(types, str) else types)
    missing = [name for name in names if name not in given]
    if missing or not names:
        which = types if isinstance(types, str) else "the given types"
        raise ValueError(f"the mean over {which} has no cells for: {', '.join(missing) or 'any'}")
    weights = _weights(cells, names)
    positions = weights.nonzero()[0]
    return CellAccuracy(int(positions[0])) if len(positions) == 1 else MeanAccuracy(weights)


def _weights(cells: Sequence[Cell], names: Sequence[str]) -> FloatArray:
    """[cells]: the definition for an accuracy of 1 in one cell of a type and 0 elsewhere, in fractions: rounded only once."""
    severities = {name: sum(name == other for other, _ in cells) for name in names}

    def weight(name: str) -> float:
        rows = [[Fraction(0)] * severities[other] for other in names]
        rows[names.index(name)][0] = Fraction(1)
        return float(mean_over_types(rows))

    weights = {name: weight(name) for name in names}
    return np.array([weights.get(name, 0.0) for name, _ in cells])


def _row(values: ArrayLike, name: str) -> FloatArray:
    row = to_floats(values, f"accuracies of {name}")
    if row.ndim != 1 or not row.size:
        raise ValueError(f"{name} has accuracies of shape {list(row.shape)}; expected one for each severity")
    require_fractions(row, f"accuracies of {name}")
    return row
