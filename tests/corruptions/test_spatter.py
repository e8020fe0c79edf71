"""Spatter against the published pictures, and water against its definition, pixel by pixel."""

from __future__ import annotations

import math
from typing import Any

import golden
import numpy as np
import pytest
import torch
from torch import Tensor

from robustvit.corruptions.parameters import parameters
from robustvit.corruptions.pixels import Setting
from robustvit.corruptions.spatter import spatter
from robustvit.runtime.randomness import KeyedDraws, LegacyDraws

WATER = [cell for cell in golden.files("seeded", "spatter") if cell[2] <= 3]
MUD = [cell for cell in golden.files("seeded", "spatter") if cell[2] >= 4]


def difference_to_published(folder: str, severity: int) -> tuple[int, float]:
    family = golden.FAMILIES[folder]
    setting = Setting(family, LegacyDraws(np.random.RandomState(1234 + severity)))
    ours = spatter(golden.picture(folder), parameters("spatter", severity, family), setting)
    return golden.difference(ours, golden.picture(folder, f"seeded/spatter_{severity}"))


@pytest.mark.parametrize(("folder", "name", "severity"), WATER)
def test_water_equals_the_published_images_for_the_same_random_stream(folder: str, name: str, severity: int) -> None:
    assert difference_to_published(folder, severity) == (0, 0.0)


@pytest.mark.parametrize(("folder", "name", "severity"), MUD)
def test_mud_differs_from_the_published_images_by_one_level_in_single_values(folder: str, name: str, severity: int) -> None:
    largest, share = difference_to_published(folder, severity)
    assert largest <= 1
    assert share < 2e-4


class Layer:
    """Draws that are given: the liquid itself, where nothing is blurred and the threshold is 0."""

    dtype = torch.float64

    def __init__(self, levels: np.ndarray) -> None:
        self.liquid = torch.from_numpy((levels + 0.5) / 255)[None]  # halves: 255 times that is truncated to the level

    def normal(self, mean: float, sd: float, size: tuple[int, ...]) -> Tensor:
        return self.liquid


def rain(levels: np.ndarray, amount: float = 0.6) -> np.ndarray:
    """What water of these levels 0 .. 255 [H, W] adds to the red of a black picture."""
    black = torch.zeros(1, 3, *levels.shape, dtype=torch.uint8)
    draws: Any = Layer(levels)
    return spatter(black, (0, 1, 0, 0, amount, 0), Setting("arbitrary", draws))[0, 0].numpy()


def windows(values: np.ndarray, mode: str) -> np.ndarray:
    """The 3 x 3 values around each: [H, W, 3, 3]."""
    return np.lib.stride_tricks.sliding_window_view(np.pad(values, 1, mode=mode), (3, 3))


def edges_by_definition(levels: np.ndarray) -> np.ndarray:
    """Canny with thresholds 50 and 150, pixel by pixel."""
    H, W = levels.shape
    sobel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    gx, gy = (np.einsum("hwij,ij->hw", windows(levels, "edge"), mask) for mask in (sobel, sobel.T))
    strength = np.pad(abs(gx) + abs(gy), 1)
    thin = np.zeros((H, W), bool)
    for y, x in np.ndindex(H, W):
        m, angle = strength[y + 1, x + 1], math.degrees(math.atan2(abs(gy[y, x]), abs(gx[y, x])))
        diagonal = 1 if gx[y, x] * gy[y, x] >= 0 else -1
        dy, dx, slack = (0, 1, 1) if angle < 22.5 else (1, 0, 1) if angle > 67.5 else (1, diagonal, 0)
        thin[y, x] = m > 50 and m > strength[y + 1 - dy, x + 1 - dx] and m > strength[y + 1 + dy, x + 1 + dx] - slack
    found = thin & (strength[1:-1, 1:-1] > 150)
    for _ in range(H * W):
        found = windows(found, "constant").any((2, 3)) & thin
    return found


def shine_by_definition(levels: np.ndarray) -> np.ndarray:
    """Distance to the next edge, its mean, equalised, embossed, its mean again."""
    H, W = levels.shape
    distance = np.full((H, W), 20 * 65536)
    for y, x in np.argwhere(edges_by_definition(levels)):
        dy, dx = abs(np.arange(H) - y)[:, None], abs(np.arange(W) - x)
        far, near = np.maximum(dy, dx), np.minimum(dy, dx)
        knights, sides, diagonals = np.minimum(near, far - near), np.maximum(far - 2 * near, 0), np.maximum(2 * near - far, 0)
        distance = np.minimum(distance, 143976 * knights + 65536 * sides + 91750 * diagonals)
    mean = windows(distance, "reflect").sum((2, 3)) // 9 // 65536
    below = np.cumsum(np.bincount(mean.ravel(), minlength=256))
    lowest = below[mean.min()]
    spread = np.rint(255 * (below[mean] - lowest) / (H * W - lowest)).astype(int) if lowest < H * W else mean
    lit = np.einsum("hwij,ij->hw", windows(spread, "reflect"), np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])).clip(0, 255)
    return (2 * windows(lit, "reflect").sum((2, 3)) + 9) // 18  # rounded


@pytest.mark.parametrize("seed", range(6))
def test_water_shines_as_defined_pixel_by_pixel(seed: int) -> None:
    coarse = torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (1, 1, 2 + seed, 3 + seed)))
    smooth = torch.nn.functional.interpolate(coarse, (41, 58), mode="bicubic")[0, 0]
    levels = (600 * smooth / (1 + seed)).clamp(0, 254).long().numpy()  # from few steep rims to many flat ones
    mask = levels * shine_by_definition(levels)
    expected = (175 * 0.6 * mask / mask.max()).astype(int)
    assert edges_by_definition(levels).any()
    assert abs(rain(levels) - expected).max() <= 1  # float32 truncates


def test_a_weak_rim_shines_only_where_it_hangs_together_with_a_strong_one() -> None:
    levels = np.zeros((40, 40), int)
    levels[:, 20:] = 30  # a step of 30 has a gradient of 120: weak
    even = rain(levels)
    assert len(np.unique(even[:, 20:])) == 1
    levels[:3, 20:] = 60  # strong at the top
    uneven = rain(levels)
    assert all(len(np.unique(row[20:])) > 1 for row in uneven[10:30])


def test_drops_shine_least_where_there_are_none() -> None:
    images = torch.full((4, 3, 64, 64), 100, dtype=torch.uint8)
    spoiled = spatter(images, (0.65, 0.3, 2, 0.75, 0.6, 0), Setting("tiny", KeyedDraws(0, range(4), "spatter")))
    touched = (spoiled != images).any(1).float().mean()
    assert 0 < touched < 0.1
    assert torch.all(spoiled >= images)


def test_spatter_without_any_liquid_changes_nothing() -> None:
    images = torch.full((2, 3, 40, 40), 100, dtype=torch.uint8)
    for mud in (0, 1):
        setting = Setting("arbitrary", KeyedDraws(0, range(2), "spatter"))
        assert torch.equal(spatter(images, (0.1, 0.1, 1, 5.0, 0.6, mud), setting), images)
