"""Generated frost: drawings of ice that are given the measured statistics of photographs.

A drawing has the edges of crystals. Its detail of each size is brought to the strength that it has in a photograph, then its
values are replaced, keeping their order, by those of the photograph's brightness histogram. Whole numbers up to the last step,
which is one multiplication and one addition per pixel: the same bytes on every processor.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from robustvit.corruptions.frost_crystals import DRAWINGS, box_blur, value_noise

__all__ = ["bands", "generate"]

RADII = (0, 1, 2, 4, 8, 16, 32)
UNIT = 256
"""Brightness is counted in 1/256 of a grey level."""
ROUNDS = 4
"""Of bands and histogram: each disturbs the other a little."""


@lru_cache(maxsize=4)
def generate(name: str) -> np.ndarray:
    """A texture with the statistics of the photograph `name`: uint8 H x W x 3, the same in every process."""
    statistics = _statistics()[name]
    size = statistics["height"], statistics["width"]
    random = np.random.RandomState(statistics["seed"])
    field = 16 * DRAWINGS[statistics["drawing"]](random, *size) + _clouds(random, size)
    for _ in range(ROUNDS):
        field = _with_histogram(_with_bands(field, statistics["bands"]), statistics["histogram"])
    tint = _without(_with_bands(_clouds(random, size), statistics["tint_bands"]), field)
    levels, tints = field / UNIT, tint / UNIT
    channels = zip(statistics["channels"], statistics["tint"], strict=True)
    colours = [slope * levels + intercept + share * tints for (slope, intercept), share in channels]
    return np.stack(colours, 2).clip(0, 255).round().astype(np.uint8)


@lru_cache(maxsize=1)
def _statistics() -> dict[str, Any]:
    text = resources.files("robustvit.corruptions").joinpath("frost_statistics.json").read_text()
    return json.loads(text)["textures"]


def _clouds(random: np.random.RandomState, size: tuple[int, int]) -> np.ndarray:
    """Smooth noise: the coarse part of a texture, and a little of every size."""
    return sum(value_noise(random, size, cell) * cell >> 4 for cell in (256, 128, 64, 32, 16, 8, 4, 2))  # type: ignore[return-value]


def bands(field: np.ndarray) -> list[np.ndarray]:
    """A whole-numbered field [H, W] as a sum: details from fine to coarse by `RADII` of blur, then what is left.

    Radius 0 is the mean of neighbours with the weights 1, 2, 1 along rows and columns.
    """
    parts = []
    for radius in RADII:
        blurred = box_blur(field, radius) if radius else _softened(field)
        parts.append(field - blurred)
        field = blurred
    return [*parts, field - int(field.sum()) // field.size]


def _softened(field: np.ndarray) -> np.ndarray:
    padded = np.pad(field, 1, mode="edge")
    rows = padded[:-2] + 2 * padded[1:-1] + padded[2:]
    return (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:] + 8) >> 4


def _with_bands(field: np.ndarray, sds: list[float]) -> np.ndarray:
    """A field of mean 0 whose details have these standard deviations (grey levels)."""
    total = np.zeros_like(field)
    for part, sd in zip(bands(field), sds, strict=True):
        power = int((part * part).sum())
        gain = math.isqrt((round(sd * UNIT) ** 2 * field.size << 40) // max(power, 1))
        total += part * gain >> 20
    return total


def _without(field: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What of a field does not follow the other: the remainder of linear regression."""
    other = other - int(other.sum()) // other.size
    slope = (int((field * other).sum()) << 20) // int((other * other).sum())
    return field - (other * slope >> 20)


def _with_histogram(field: np.ndarray, shares: list[int]) -> np.ndarray:
    """The values replaced, keeping their order, so that `shares` of them fall in equal bins over 0 .. 256 grey levels."""
    counts = np.array(shares, np.int64)
    ends = counts.cumsum() * (2 * field.size)
    position = (2 * np.arange(field.size, dtype=np.int64) + 1) * int(counts.sum())  # the middle of each rank
    bins = np.searchsorted(ends, position, side="right")
    width = 256 * UNIT // len(shares)
    inside = (position - ends[bins] + counts[bins] * (2 * field.size)) * width // (counts[bins] * (2 * field.size))
    ranked = np.empty(field.size, np.int64)
    ranked[np.argsort(field, axis=None, kind="stable")] = bins * width + inside
    return ranked.reshape(field.shape)
