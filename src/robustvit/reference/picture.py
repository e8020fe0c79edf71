"""A picture to look at: textured shapes on a textured ground, drawn with numpy, the same every time."""

from __future__ import annotations

import numpy as np

__all__ = ["draw_shapes"]


def draw_shapes(size: int = 224) -> np.ndarray:
    """A striped disc, a chequered square and a dotted triangle with soft shadows.

    Args:
        size: side in pixels.

    Returns:
        [size, size, 3] uint8.
    """
    y, x = np.mgrid[0:size, 0:size] / size
    noise = _smooth_noise(size, cells=7) + 0.5 * _smooth_noise(size, cells=23)
    ground = 0.62 + 0.16 * noise - 0.18 * y
    picture = ground[..., None] * np.array([0.62, 0.78, 0.70])

    disc = (x - 0.33) ** 2 + (y - 0.36) ** 2 < 0.22**2
    u, v = _rotated(x - 0.70, y - 0.33, degrees=20)
    square = np.maximum(abs(u), abs(v)) < 0.155
    triangle = (y < 0.90) & (y > 0.56 + 1.15 * abs(x - 0.60))

    stripes = np.sin(2 * np.pi * (x + y) * 11) > 0
    chequers = (np.floor(u * 19) + np.floor(v * 19)) % 2 > 0
    dots = (np.mod(x * 15, 1) - 0.5) ** 2 + (np.mod(y * 15, 1) - 0.5) ** 2 < 0.08
    textured = [
        (triangle, dots, (0.96, 0.93, 0.86), (0.33, 0.29, 0.55)),
        (square, chequers, (0.93, 0.90, 0.80), (0.17, 0.38, 0.60)),
        (disc, stripes, (0.97, 0.80, 0.42), (0.80, 0.27, 0.22)),
    ]
    for shape, texture, light, dark in textured:
        picture *= 1 - 0.45 * _shadow(shape, size)[..., None]
        colours = np.where(texture[..., None], np.array(light), np.array(dark))
        shade = 1 + 0.10 * noise - 0.12 * (x + y - 0.8)
        picture = np.where(shape[..., None], colours * shade[..., None], picture)
    return (picture.clip(0, 1) * 255).round().astype(np.uint8)


def _rotated(x: np.ndarray, y: np.ndarray, *, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    angle = np.deg2rad(degrees)
    return np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x


def _smooth_noise(size: int, *, cells: int) -> np.ndarray:
    """[size, size] in about [-1, 1]: random values on a coarse grid, interpolated."""
    values = np.random.RandomState(cells).uniform(-1, 1, (cells + 1, cells + 1))
    at = np.linspace(0, cells, size)
    rows = np.stack([np.interp(at, np.arange(cells + 1), column) for column in values.T], axis=1)
    return np.stack([np.interp(at, np.arange(cells + 1), row) for row in rows])


def _shadow(shape: np.ndarray, size: int) -> np.ndarray:
    """The shape moved down and to the right, and blurred."""
    reach = size // 28
    shadow = np.roll(shape.astype(float), (reach, reach), axis=(0, 1))
    window = np.ones(reach) / reach
    for axis in (0, 1):
        shadow = np.apply_along_axis(np.convolve, axis, shadow, window, mode="same")
    return shadow
