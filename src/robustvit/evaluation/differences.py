"""How far two networks are apart, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from robustvit.evaluation.results import Difference
from robustvit.evaluation.runs import Measured

__all__ = ["differences_of"]


def differences_of(networks: Sequence[Measured], seed: int) -> tuple[Difference, ...]:
    """Every two networks in every measurement, the earlier one minus the later one.

    Args:
        networks: results, and what their measurements are made of.
        seed: of the intervals.
    """
    found = []
    for ours, theirs in combinations(networks, 2):
        first, second = ours.results, theirs.results
        for measurement, one, other in zip(first.measurements, ours.scores, theirs.scores, strict=True):
            images, summary, groups = one.minus(other, seed)
            if images:
                found.append(Difference(first.name, second.name, measurement.suites, images, summary, groups))
    return tuple(found)
