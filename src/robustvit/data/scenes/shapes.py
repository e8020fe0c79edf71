"""The ten classes of the scenes: shapes of equal area, each as a signed distance to its outline.

A shape function takes float32 coordinates x, y (y points down, as rows do) and returns the distance, negative inside. Far
outside it may be too short, which nothing here can see. The shapes are built from half-planes and discs by `minimum` (union)
and `maximum` (intersection).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["CLASS_NAMES", "REACH", "distances"]

Plane = NDArray[np.float32]


def _length(x: Plane, y: Plane) -> Plane:
    return np.sqrt(x * x + y * y)


def disc(x: Plane, y: Plane) -> Plane:
    return _length(x, y) - 1


def square(x: Plane, y: Plane) -> Plane:
    return np.maximum(abs(x), abs(y)) - 1


def triangle(x: Plane, y: Plane) -> Plane:
    return np.maximum(0.8660254 * abs(x) - 0.5 * y - 0.5, y - 0.5)


def ring(x: Plane, y: Plane) -> Plane:
    return abs(_length(x, y) - 1) - 0.3


def cross(x: Plane, y: Plane) -> Plane:
    x, y = abs(x), abs(y)
    return np.maximum(np.maximum(x, y) - 1, np.minimum(x, y) - 0.3)


def star(x: Plane, y: Plane) -> Plane:
    """Five points. Reflections at the lines of symmetry bring every point into one half of a spike."""
    x, y = abs(x), -y
    for normal_x, normal_y in ((0.80901699, -0.58778525), (-0.80901699, -0.58778525)):
        beyond: Plane = 2 * np.maximum(normal_x * x + normal_y * y, 0)
        x, y = x - normal_x * beyond, y - normal_y * beyond
    return 0.91336 * abs(x) + 0.40713 * (y - 1)


def heart(x: Plane, y: Plane) -> Plane:
    """A square on its corner and a disc on each of its upper sides."""
    x, y = abs(x), y - 0.17
    corner = 0.70710678 * (x + abs(y)) - 0.6
    lobe = _length(x - 0.42426407, y + 0.42426407) - 0.6
    return np.minimum(corner, lobe)


def crescent(x: Plane, y: Plane) -> Plane:
    return np.maximum(_length(x, y) - 1, 0.86 - _length(x - 0.5, y))


def arrow(x: Plane, y: Plane) -> Plane:
    """A triangle on a shaft, pointing up."""
    x = abs(x)
    head = np.maximum(0.78 * x - 0.6258 * y - 0.6258, y - 0.05)
    shaft = np.maximum(np.maximum(x - 0.32, y - 1), -y)
    return np.minimum(head, shaft)


def drop(x: Plane, y: Plane) -> Plane:
    """A disc and the cone of its tangents from a point above: sin(half angle) = 0.6 / 1.2."""
    x, y = abs(x), y - 0.2
    cone = np.maximum(0.8660254 * x - 0.5 * y - 0.6, y + 0.3)
    return np.minimum(_length(x, y) - 0.6, cone)


# The number makes the area pi, that of the unit disc.
_SHAPES: dict[str, tuple[Callable[[Plane, Plane], Plane], float]] = {
    "disc": (disc, 1.0),
    "square": (square, 0.88623),
    "triangle": (triangle, 1.55512),
    "ring": (ring, 0.91287),
    "cross": (cross, 1.24097),
    "star": (star, 1.50811),
    "heart": (heart, 1.10543),
    "crescent": (crescent, 1.51668),
    "arrow": (arrow, 1.45081),
    "drop": (drop, 1.51016),
}
CLASS_NAMES: tuple[str, ...] = tuple(_SHAPES)
REACH = 1.56
"""No shape has a point farther from its origin."""


def distances(classes: NDArray[np.int64], x: Plane, y: Plane) -> Plane:
    """Signed distances [n, H, W] at x, y [n, H, W] to the outlines of n shapes of area pi."""
    d = np.empty_like(x)
    for kind, (shape, scale) in enumerate(_SHAPES.values()):
        which = np.flatnonzero(classes == kind)
        if len(which):
            unit = np.float32(1 / scale)
            d[which] = np.float32(scale) * shape(x[which] * unit, y[which] * unit)
    return d
