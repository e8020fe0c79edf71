"""What a scene shows, before any pixel is drawn: objects, their places, textures and colours, as arrays over a batch.

Lengths are in units of the shorter side of the image, so that a scene is the same image at every size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robustvit.data.scenes.draws import SceneDraws
from robustvit.data.scenes.shapes import CLASS_NAMES, REACH
from robustvit.runtime.portable_math import circle

__all__ = ["MOST_OBJECTS", "Hints", "Objects", "draw_colours", "draw_objects"]

MOST_OBJECTS = 4
MAIN_RADIUS, OTHER_RADIUS = (0.16, 0.24), (0.07, 0.12)
"""Of the disc that has the object's area."""
CONTRAST, CHROMA, TINT = (0.1, 0.35), (0.12, 0.3), (0.1, 0.22)
"""How far objects differ from the ground in brightness, how coloured they are, and how strong their texture is."""
TILT = 1 / 6
"""The share of the circle in which objects are turned: 30 degrees to either side."""
COARSE, FINE = (4.0, 5.5), (7.5, 9.5)
"""Frequencies of textures, in waves to a side of the image: 8 pixels to 3 pixels a wave at 32 pixels."""

Floats = NDArray[np.float32]

# Waves along the object's axes u and v give its texture: clip(gain * (a wave(u) + b wave(v) + c wave(u) wave(v)) + bias).
_TEXTURES = np.array(
    [  # gain, a, b, c, bias
        (1.0, 0.0, 0.0, 0.0, 0.6),  # plain
        (1.6, 1.0, 0.0, 0.0, 0.0),  # stripes
        (2.0, 0.0, 0.0, 1.0, 0.0),  # checks
        (1.8, 0.5, 0.5, 0.0, -0.3),  # dots
        (1.8, 0.5, 0.5, 0.5, 0.5),  # lattice
    ],
    dtype=np.float32,
)


class Hints(NamedTuple):
    """The shares of objects whose colour, and whose texture, tell their class. Their shape always does."""

    colour: float = 0.0
    texture: float = 0.9


@dataclass(frozen=True)
class Objects:
    """The objects of B scenes, K to a scene, painted in this order. `count` [B] of them are there.

    Attributes:
        classes: [B, K], 0..9.
        radius, x, y: [B, K], size and centre.
        cosine, sine: [B, K], of the rotation.
        colour, tint: [B, K, 3], the middle colour and what a texture of +1 adds to it.
        texture: [B, K, 5], a row of the table of textures.
        frequency: [B, K], waves to a side of the image.
    """

    count: NDArray[np.int64]
    classes: NDArray[np.int64]
    radius: Floats
    x: Floats
    y: Floats
    cosine: Floats
    sine: Floats
    colour: Floats
    tint: Floats
    texture: Floats
    frequency: Floats


def draw_colours(draws: SceneDraws, stream: int, count: int, chroma: float) -> Floats:
    """[B, count, 3]: colours of zero mean, of any hue, at most `chroma` strong."""
    cosine, sine = draws.directions(stream, (count,))
    return _hue(cosine, sine) * draws.uniform(stream + 1, (count, 1), 0.3 * chroma, chroma)


def draw_objects(draws: SceneDraws, extent: tuple[float, float], ground: Floats, hints: Hints) -> Objects:
    """The objects in images of `extent` (height, width) on grounds of mean grey `ground` [B]."""
    K = MOST_OBJECTS
    count = 1 + draws.integers(10, K)
    is_main = np.arange(K) == (draws.uniform(11) * count).astype(np.int64)[:, None]
    classes = draws.integers(12, len(CLASS_NAMES), (K,))
    radius = np.where(is_main, draws.uniform(13, (K,), *MAIN_RADIUS), draws.uniform(14, (K,), *OTHER_RADIUS))
    y, x = (_place(draws.uniform(15 + axis, (K,)), radius, extent[axis]) for axis in (0, 1))
    cosine, sine = draws.directions(17, (K,), TILT)
    look = np.where(draws.uniform(18, (K,)) < hints.texture, classes, draws.integers(19, len(CLASS_NAMES), (K,)))
    fine, texture = np.divmod(look, len(_TEXTURES))  # ten looks: five textures, coarse or fine
    frequency = np.where(fine == 1, draws.uniform(24, (K,), *FINE), draws.uniform(25, (K,), *COARSE))
    colour = _object_colours(draws, classes, draws.uniform(34, (K,)) < hints.colour, ground)
    side = np.where(draws.uniform(20, (K,)) < 0.5, np.float32(-1), np.float32(1))
    tint = draw_colours(draws, 21, K, 0.08) + (side * draws.uniform(23, (K,), *TINT))[..., None]
    return Objects(count, classes, radius, x, y, cosine, sine, colour, tint, _TEXTURES[texture], frequency)


def _object_colours(draws: SceneDraws, classes: NDArray[np.int64], follows: NDArray[np.bool_], ground: Floats) -> Floats:
    """[B, K, 3]: of any hue, or of the class's; clearly lighter or darker than the ground."""
    K = MOST_OBJECTS
    cosine, sine = draws.directions(30, (K,))
    cosines, sines = circle(len(CLASS_NAMES))
    cosine = np.where(follows, cosines.astype(np.float32)[classes], cosine)
    sine = np.where(follows, sines.astype(np.float32)[classes], sine)
    hue = _hue(cosine, sine) * draws.uniform(31, (K, 1), *CHROMA)
    lighter = draws.uniform(32, (K,)) < 1 - ground[:, None]
    step = draws.uniform(33, (K,), *CONTRAST)
    grey = ground[:, None] + np.where(lighter, step, -step)
    return hue + np.clip(grey, np.float32(0.15), np.float32(0.88))[..., None]


def _hue(cosine: Floats, sine: Floats) -> Floats:
    """[..., 3]: the cosines of three angles a third of a circle apart: red, green and blue of a hue, with mean 0."""
    half, root = np.float32(0.5), np.float32(0.8660254)
    return np.stack([cosine, -half * cosine + root * sine, -half * cosine - root * sine], axis=-1)


def _place(u: Floats, radius: Floats, extent: float) -> Floats:
    """Where in 0..extent the centre lies, so that the whole object is inside."""
    margin = np.minimum(np.float32(REACH) * radius, np.float32(extent / 2))
    return margin + u * (np.float32(extent) - 2 * margin)
