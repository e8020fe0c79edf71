"""The plain mean of accuracy over corruption types and severities, of a named set of types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robustvit.metrics.alexnet import COMMON15, EXTRA4
from robustvit.metrics.arrays import ArrayLike, require_fractions, require_names, to_floats

__all__ = ["CORRUPTION_SETS", "mean_accuracy"]

CORRUPTION_SETS: dict[str, tuple[str, ...]] = {"common15": COMMON15, "extra4": EXTRA4, "all19": (*COMMON15, *EXTRA4)}


def mean_accuracy(accuracies: Mapping[str, ArrayLike], corruption_set: str | None = "common15") -> float:
    """Mean over the types of a set of the mean over their severities. Say the set with the number: results differ by set.

    Args:
        accuracies: corruption -> accuracies at its severities.
        corruption_set: "common15", "extra4" or "all19", whose types must all be given (others are left out); None takes what
            is given.
    """
    if corruption_set is not None and corruption_set not in CORRUPTION_SETS:
        raise ValueError(f"there is no set of corruptions {corruption_set!r}; choose one of {', '.join(CORRUPTION_SETS)}")
    names = tuple(accuracies) if corruption_set is None else CORRUPTION_SETS[corruption_set]
    require_names(accuracies, names, f"the mean over {corruption_set or 'the given types'}")
    if not names:
        raise ValueError("the mean accuracy over no corruptions is not defined; give at least one")
    return float(np.mean([_mean_of_type(accuracies[name], name) for name in names]))


def _mean_of_type(values: ArrayLike, name: str) -> float:
    row = to_floats(values, f"accuracies of {name}")
    if row.ndim != 1 or not row.size:
        raise ValueError(f"{name} has accuracies of shape {list(row.shape)}; expected one for each severity")
    require_fractions(row, f"accuracies of {name}")
    return float(row.mean())
