"""Curves that say more than one number, as precision over recall: what results keep of them, whatever the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.metrics.mean_accuracy import mean_over_types
from robustvit.tasks.per_class import CORRUPTED

__all__ = ["Curves", "curves_of"]

_DIGITS = 4


@dataclass(frozen=True)
class Curves:
    """Lines over the same places; both axes are shares.

    Attributes:
        title: what they are of.
        across, up: what the axes are.
        at: P places in 0 .. 1, ascending.
        lines: condition -> P heights in 0 .. 1. Conditions are "clean", "corrupted" (the mean over corruptions of the mean
            over severities) and those without severity.
    """

    title: str
    across: str
    up: str
    at: tuple[float, ...]
    lines: dict[str, tuple[float, ...]]

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Curves:
        """What `dataclasses.asdict` gave."""
        lines = {name: tuple(heights) for name, heights in stored["lines"].items()}
        return Curves(stored["title"], stored["across"], stored["up"], tuple(stored["at"]), lines)


def curves_of(
    title: str, axes: tuple[str, str], at: np.ndarray, conditions: Sequence[Condition], heights: Sequence[np.ndarray]
) -> Curves | None:
    """Curves from one line per condition; None where none of them is known.

    Args:
        title: what they are of.
        axes: (across, up).
        at: [P].
        conditions: C of them.
        heights: [P] for each condition; those that are not numbers are left out.
    """
    known = [(condition, line) for condition, line in zip(conditions, heights, strict=True) if np.isfinite(line).all()]
    spoiled: dict[str, list[np.ndarray]] = {}
    for condition, line in known:
        if condition.severity:
            spoiled.setdefault(condition.name, []).append(line)
    lines = {condition.name: line for condition, line in known if condition == CLEAN}
    if spoiled:
        lines[CORRUPTED] = np.array([mean_over_types(types) for types in _by_place(spoiled)])
    lines |= {condition.name: line for condition, line in known if not condition.severity and condition != CLEAN}
    if not lines:
        return None
    rounded = {name: tuple(np.round(line, _DIGITS).tolist()) for name, line in lines.items()}
    return Curves(title, *axes, tuple(np.round(at, _DIGITS).tolist()), rounded)


def _by_place(spoiled: Mapping[str, Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    """For each place: the heights at all severities, one array per corruption."""
    stacked = [np.stack(lines) for lines in spoiled.values()]  # severities P each
    return [[one[:, place] for one in stacked] for place in range(stacked[0].shape[1])]
