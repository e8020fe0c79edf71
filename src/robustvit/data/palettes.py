"""Colours for classes that have none, far apart from each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["completed_palette", "distinct_colours"]

_STEPS = (0, 36, 73, 109, 146, 182, 219, 255)
_WEIGHTS = (2.0, 4.0, 3.0)
"""Of squared differences in red, green and blue, as the eye has them roughly; whole, so that ties are the same everywhere."""


def distinct_colours(count: int, taken: Sequence[tuple[int, int, int]] = ()) -> tuple[tuple[int, int, int], ...]:
    """Colours on a grid, each the farthest from those before it, from `taken` and from black and white.

    Black and white are left to pixels without a class and to lines.
    """
    grid = np.stack(np.meshgrid(_STEPS, _STEPS, _STEPS, indexing="ij"), axis=-1).reshape(-1, 3)  # [512, 3]
    distance = np.full(len(grid), np.inf)
    for colour in ((0, 0, 0), (255, 255, 255), *taken):
        distance = np.minimum(distance, _squared(grid, np.asarray(colour)))
    chosen: list[tuple[int, int, int]] = []
    for _ in range(count):
        best = int(distance.argmax())
        red, green, blue = grid[best].tolist()
        chosen.append((red, green, blue))
        distance = np.minimum(distance, _squared(grid, grid[best]))
    return tuple(chosen)


def _squared(grid: NDArray[np.int64], colour: NDArray[np.int64]) -> NDArray[np.float64]:
    return ((grid - colour) ** 2 * np.asarray(_WEIGHTS)).sum(axis=1)


def completed_palette(colours: Sequence[tuple[int, int, int] | None]) -> tuple[tuple[int, int, int], ...]:
    """The given colours, with colours of their own for the classes that have none."""
    given = [colour for colour in colours if colour is not None]
    made = iter(distinct_colours(len(colours) - len(given), given))
    return tuple(next(made) if colour is None else colour for colour in colours)
