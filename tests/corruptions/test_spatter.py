"""Spatter against the published pictures, and its parts against plain definitions."""

from __future__ import annotations

import golden
import numpy as np
import pytest
import torch

from robustvit.corruptions import spatter as spattering
from robustvit.corruptions.parameters import parameters
from robustvit.corruptions.pixels import Setting
from robustvit.corruptions.randomness import KeyedDraws, LegacyDraws
from robustvit.corruptions.spatter import spatter

WATER = [cell for cell in golden.files("seeded", "spatter") if cell[2] <= 3]
MUD = [cell for cell in golden.files("seeded", "spatter") if cell[2] >= 4]


def difference_to_published(folder: str, severity: int) -> tuple[int, float]:
    family = golden.FAMILIES[folder]
    setting = Setting(family, LegacyDraws(np.random.RandomState(1234 + severity)))
    ours = spatter(golden.picture(folder), parameters("spatter", severity, family), setting)
    return golden.difference(ours, golden.picture(folder, f"seeded/spatter_{severity}"))


@pytest.mark.parametrize(("folder", "name", "severity"), WATER)
def test_water_equals_the_published_pictures_for_the_same_random_stream(folder: str, name: str, severity: int) -> None:
    assert difference_to_published(folder, severity) == (0, 0.0)


@pytest.mark.parametrize(("folder", "name", "severity"), MUD)
def test_mud_differs_from_the_published_pictures_by_one_level_in_single_values(folder: str, name: str, severity: int) -> None:
    largest, share = difference_to_published(folder, severity)
    assert largest <= 1
    assert share < 2e-4


def test_distances_are_shortest_ways_in_sideways_diagonal_and_knights_steps() -> None:
    chosen = torch.rand(2, 50, 70, generator=torch.Generator().manual_seed(0)) < 0.003
    side, diagonal, knight = spattering.STEPS
    rows, columns = torch.meshgrid(torch.arange(50), torch.arange(70), indexing="ij")
    distance = torch.full(chosen.shape, spattering.FARTHEST * side)
    for picture, y, x in chosen.nonzero().tolist():
        dy, dx = (rows - y).abs(), (columns - x).abs()
        far, near = torch.maximum(dy, dx), torch.minimum(dy, dx)
        way = (far - 2 * near) * side + near * knight
        way = torch.where(2 * near <= far, way, (far - near) * knight + (2 * near - far) * diagonal)
        distance[picture] = torch.minimum(distance[picture], way)
    around = torch.nn.functional.pad(distance.double(), (1, 1, 1, 1), mode="reflect")
    nine = torch.nn.functional.avg_pool2d(around, 3, stride=1, divisor_override=1).long()
    assert torch.equal(spattering._distance_levels(-chosen.short()).long(), nine // 9 // side)


def test_short_steps_order_all_distances_as_the_true_steps_do() -> None:
    def way(x: int, y: int, steps: tuple[int, int, int]) -> int:
        side, diagonal, knight = steps
        return (x - 2 * y) * side + y * knight if 2 * y <= x else (x - y) * knight + (2 * y - x) * diagonal

    offsets = [(x, y) for x in range(30) for y in range(x + 1)]
    pairs = sorted((way(*o, spattering.STEPS), way(*o, spattering.SHORT_STEPS)) for o in offsets)
    near = [pair for pair in pairs if pair[0] < spattering.FARTHEST * spattering.STEPS[0]]
    assert [short for _, short in near] == sorted(short for _, short in near)
    assert len({true for true, _ in near}) == len({short for _, short in near})
    assert all(short > near[-1][1] for _, short in pairs[len(near) :])


def test_edges_follow_weak_gradients_only_from_strong_ones() -> None:
    levels = torch.zeros(2, 40, 40, dtype=torch.int16)
    levels[:, :, 20:] = 30  # a step of 30 has a gradient of 120: weak
    levels[1, :3, 20:] = 60  # strong at the top of the second
    edges = spattering._edges(levels)
    assert not edges[0].any()
    assert edges[1, 10:, 19:21].any(1).all()


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
