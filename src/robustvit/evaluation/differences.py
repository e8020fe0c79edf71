"""How far two networks are apart, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from robustvit.evaluation.results import Difference, ModelResults
from robustvit.evaluation.scores import Scores

__all__ = ["differences_of"]


def differences_of(networks: Sequence[tuple[ModelResults, Sequence[Scores]]], seed: int) -> tuple[Difference, ...]:
    """Every two networks in every measurement, the earlier one minus the later one.

    Args:
        networks: results, and what their measurements are made of.
        seed: of the intervals.
    """
    found = []
    for (first, ours), (second, theirs) in combinations(networks, 2):
        for measurement, one, other in zip(first.measurements, ours, theirs, strict=True):
            images, summary, groups = one.minus(other, seed)
            if images:
                found.append(Difference(first.name, second.name, measurement.suites, images, summary, groups))
    return tuple(found)
