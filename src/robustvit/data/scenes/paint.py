"""From what a scene shows to pixels: ground, clutter, objects, light and grain, for a batch at once.

Every value of a pixel comes from additions, products, comparisons and square roots of single precision, element by element:
these are exact to the last bit everywhere, so a scene does not depend on the batch it is drawn in.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from robustvit.data.scenes.draws import SceneDraws
from robustvit.data.scenes.layout import MOST_OBJECTS, Floats, Hints, Objects, draw_colours, draw_objects
from robustvit.data.scenes.shapes import distances

__all__ = ["paint"]

STICKS = 5
CLARITY = (0.2, 0.55)
"""The share of its contrast that an image keeps."""
_CELLS = (3, 7, 15, 31, 63, 127)
"""Of the ground's layers along the shorter side. Layers finer than 3 pixels a cell are not drawn: they would flicker."""


def paint(
    seed: int, indices: Sequence[int], size: tuple[int, int], hints: Hints
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], Objects]:
    """Images uint8 [B, 3, H, W], and which object is seen at a pixel: 0 none, k the k-th, uint8 [B, H, W]."""
    H, W = size
    draws, side = SceneDraws(seed, indices), min(size)
    extent = (H / side, W / side)
    rows, columns = (((np.arange(n) + 0.5) / side).astype(np.float32) for n in size)
    grey = draws.uniform(1, (), 0.3, 0.65)
    objects = draw_objects(draws, extent, grey, hints)
    image = _ground(draws, rows, columns, grey)
    _add_sticks(image, draws, rows, columns, extent, grey)
    owner = _add_objects(image, objects, rows, columns)
    _add_haze(image, draws, grey)
    _add_light(image, draws, rows, columns)
    image += draws.uniform(3, (3, H, W), -0.03, 0.03)
    image *= 255
    np.clip(image, 0, 255, out=image)
    return np.rint(image, out=image).astype(np.uint8), owner, objects


def _ground(draws: SceneDraws, rows: Floats, columns: Floats, grey: Floats) -> Floats:
    """[B, 3, H, W]: two colours mixed by smooth noise of several scales, with the same noise in the brightness."""
    field = np.zeros((len(grey), len(rows), len(columns)), dtype=np.float32)
    for layer, cells in enumerate(_CELLS):
        if cells * 3 > _pixels(rows, columns):
            break
        field += _value_noise(draws, 60 + layer, rows, columns, cells) * np.float32(0.62**layer)
    colours = draw_colours(draws, 4, 2, 0.12)
    middle = grey[:, None] + colours[:, 0]
    step = (colours[:, 1] + draws.uniform(6, (1,), -0.22, 0.22))[:, :, None, None]
    return middle[:, :, None, None] + step * field[:, None]


def _pixels(rows: Floats, columns: Floats) -> int:
    return min(len(rows), len(columns))


def _value_noise(draws: SceneDraws, stream: int, rows: Floats, columns: Floats, cells: int) -> Floats:
    """[B, H, W] in -1..1: random values on a grid with `cells` cells to a side, smooth in between."""
    (top, down), (left, right) = (_between(axis.tobytes(), cells) for axis in (rows, columns))
    grid = draws.uniform(stream, (int(top[-1]) + 2, int(left[-1]) + 2), -1, 1)
    lines = grid[:, top] + down[:, None] * (grid[:, top + 1] - grid[:, top])
    start = lines[:, :, left]
    return start + right * (lines[:, :, left + 1] - start)


@lru_cache(maxsize=64)
def _between(axis: bytes, cells: int) -> tuple[NDArray[np.int64], Floats]:
    """For each pixel of an axis the cell it lies in, and how far it is in it, eased at both ends."""
    position = np.frombuffer(axis, dtype=np.float32) * np.float32(cells)
    cell = position.astype(np.int64)
    t = position - cell.astype(np.float32)
    return cell, t * t * (3 - 2 * t)


def _add_sticks(
    image: Floats, draws: SceneDraws, rows: Floats, columns: Floats, extent: tuple[float, float], grey: Floats
) -> None:
    """Clutter: thin sticks of any colour, on the ground."""
    y, x = (draws.uniform(40 + axis, (STICKS,), 0, extent[axis]) for axis in (0, 1))
    cosine, sine = draws.directions(42, (STICKS,))
    half_length = draws.uniform(43, (STICKS,), 0.08, 0.35)
    half_width = draws.uniform(44, (STICKS,), 0.008, 0.02)
    colours = draw_colours(draws, 45, STICKS, 0.25) + (grey[:, None] + draws.uniform(47, (STICKS,), -0.25, 0.25))[..., None]
    side = np.float32(_pixels(rows, columns))
    for k in range(STICKS):
        along, across = _turned(rows, columns, x[:, k], y[:, k], cosine[:, k], sine[:, k])
        beyond = np.maximum(abs(along) - half_length[:, k, None, None], 0)
        distance = np.sqrt(beyond * beyond + across * across) - half_width[:, k, None, None]
        _blend(image, colours[:, k, :, None, None], _coverage(distance * side))


def _turned(rows: Floats, columns: Floats, x: Floats, y: Floats, cosine: Floats, sine: Floats) -> tuple[Floats, Floats]:
    """Coordinates [n, H, W] along and across n axes through (x, y)."""
    dx = columns - x[:, None]
    dy = rows - y[:, None]
    along = (cosine[:, None] * dx)[:, None, :] + (sine[:, None] * dy)[:, :, None]
    across = (cosine[:, None] * dy)[:, :, None] - (sine[:, None] * dx)[:, None, :]
    return along, across


def _coverage(distance_px: Floats) -> Floats:
    """The share of a pixel that lies inside an outline `distance_px` away."""
    return np.clip(np.float32(0.5) - distance_px, 0, 1)


def _blend(image: Floats, colour: Floats, share: Floats) -> None:
    """`image += share (colour - image)`."""
    image += share[:, None] * (colour - image)


def _add_objects(image: Floats, objects: Objects, rows: Floats, columns: Floats) -> NDArray[np.uint8]:
    """Paints the objects and returns which one is seen where, [B, H, W]."""
    owner = np.zeros((len(image), len(rows), len(columns)), dtype=np.uint8)
    side = np.float32(_pixels(rows, columns))
    for k in range(MOST_OBJECTS):
        which = np.flatnonzero(objects.count > k)
        if not len(which):
            break
        radius = objects.radius[which, k, None, None]
        placed = (objects.x[which, k], objects.y[which, k], objects.cosine[which, k], objects.sine[which, k])
        u, v = _turned(rows, columns, *placed)
        distance = distances(objects.classes[which, k], u / radius, v / radius)
        tone = _texture(u, v, objects.texture[which, k], objects.frequency[which, k])
        colour = objects.colour[which, k, :, None, None] + objects.tint[which, k, :, None, None] * tone[:, None]
        part = image[which]
        part *= _shadow(distance)[:, None]
        _blend(part, colour, _coverage(distance * (radius * side)))
        image[which] = part
        owner[which] = np.where(distance < 0, np.uint8(k + 1), owner[which])
    return owner


def _texture(u: Floats, v: Floats, weights: Floats, frequency: Floats) -> Floats:
    """[n, H, W] in -1..1."""
    f = frequency[:, None, None]
    gain, a, b, c, bias = (weights[:, i, None, None] for i in range(5))
    p, q = _wave(u * f), _wave(v * f)
    return np.clip((gain * a) * p + (gain * b) * q + (gain * c) * (p * q) + bias, -1, 1)


def _wave(t: Floats) -> Floats:
    """A triangle wave of period 1 between -1 and 1."""
    return 4 * abs(t - np.rint(t)) - 1


def _shadow(distance: Floats) -> Floats:
    """Darkens the surroundings of an object at `distance` in its radii: it stands out from a ground of its own colour."""
    return 1 - np.float32(0.35) * np.clip(1 - distance * 5, 0, 1)


def _add_haze(image: Floats, draws: SceneDraws, grey: Floats) -> None:
    """Takes contrast from the whole image, from one more than from another, as air does."""
    clarity = draws.uniform(53, (), *CLARITY)
    image *= clarity[:, None, None, None]
    image += ((1 - clarity) * grey)[:, None, None, None]


def _add_light(image: Floats, draws: SceneDraws, rows: Floats, columns: Floats) -> None:
    """Light that falls off to one side."""
    cosine, sine = draws.directions(50)
    strength = draws.uniform(51, (), 0.0, 0.35)
    level = draws.uniform(52, (), 0.85, 1.15)
    across, down = ((strength * part)[:, None] * (axis - axis.mean()) for part, axis in ((cosine, columns), (sine, rows)))
    image *= (level[:, None, None] + across[:, None, :] + down[:, :, None])[:, None]
