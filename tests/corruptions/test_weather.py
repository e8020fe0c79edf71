"""Snow and fog against the published pictures and statistics; what all weather has in common."""

from __future__ import annotations

import golden
import numpy as np
import pytest
import torch
from torch import Tensor

from robustvit.corruptions import weather
from robustvit.corruptions.parameters import family_of_size, parameters
from robustvit.corruptions.pixels import Setting
from robustvit.corruptions.plasma import plasma
from robustvit.corruptions.randomness import KeyedDraws, LegacyDraws

NAMES = ("snow", "frost", "fog", "spatter")
ACCIDENT = ("arbitrary96x160", "snow", 5)
"""The published resampler sets the last column of the layer to 0 here; not imitated."""


def spoil(images: Tensor, name: str, severity: int, *, seed: int = 0, ids: list[int] | None = None) -> Tensor:
    family = family_of_size(*images.shape[-2:])
    draws = KeyedDraws(seed, ids or range(len(images)), name, severity)
    return getattr(weather, name)(images, parameters(name, severity, family), Setting(family, draws))


@pytest.fixture(scope="module")
def photographs() -> Tensor:
    clean = golden.picture("tiny64")
    return torch.cat([clean, clean.flip(-1), clean // 2])


@pytest.mark.parametrize(
    ("folder", "name", "severity"),
    [cell for name in ("snow", "fog") for cell in golden.files("seeded", name) if cell != ACCIDENT],
)
def test_snow_and_fog_equal_the_published_pictures_for_the_same_random_stream(folder: str, name: str, severity: int) -> None:
    family = golden.FAMILIES[folder]
    setting = Setting(family, LegacyDraws(np.random.RandomState(1234 + severity)))
    ours = getattr(weather, name)(golden.picture(folder), parameters(name, severity, family), setting)
    assert golden.difference(ours, golden.picture(folder, f"seeded/{name}_{severity}")) == (0, 0.0)


@pytest.mark.parametrize("name", ["snow", "fog", "spatter"])
@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("folder", ["cifar32", "tiny64"])
def test_seeded_weather_has_the_published_statistics_at_small_sizes(folder: str, severity: int, name: str) -> None:
    spoiled = spoil(golden.picture(folder).expand(48, -1, -1, -1), name, severity)
    assert golden.deviations(spoiled, folder, name, severity) == {}


@pytest.mark.parametrize("name", ["snow", "fog", "spatter"])
@pytest.mark.parametrize(("folder", "severity"), [("arbitrary96x160", 2), ("arbitrary96x160", 4), ("imagenet224", 3)])
def test_seeded_weather_has_the_published_statistics_at_large_sizes(folder: str, severity: int, name: str) -> None:
    draws = 12 if folder == "imagenet224" else 32
    spoiled = spoil(golden.picture(folder).expand(draws, -1, -1, -1), name, severity)
    assert golden.deviations(spoiled, folder, name, severity) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["snow", "fog", "spatter"])
@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("folder", golden.FAMILIES)
def test_every_cell_has_the_published_statistics(folder: str, severity: int, name: str) -> None:
    family = golden.FAMILIES[folder]
    clean = golden.picture(folder).expand(48, -1, -1, -1)
    setting = Setting(family, KeyedDraws(0, range(48), name, severity))
    spoiled = getattr(weather, name)(clean, parameters(name, severity, family), setting)
    assert golden.deviations(spoiled, folder, name, severity) == {}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("severity", [1, 5])
def test_a_picture_meets_the_same_weather_alone_and_in_a_batch(photographs: Tensor, name: str, severity: int) -> None:
    together = spoil(photographs, name, severity, ids=[7, 8, 9])
    alone = torch.cat([spoil(photographs[i : i + 1], name, severity, ids=[7 + i]) for i in range(3)])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("name", NAMES)
def test_weather_leaves_its_input_alone_and_keeps_shape_and_dtype(photographs: Tensor, name: str) -> None:
    before = photographs.clone()
    spoiled = spoil(photographs, name, 3)
    assert torch.equal(photographs, before)
    assert spoiled.shape == photographs.shape
    assert spoiled.dtype == torch.uint8
    assert not torch.equal(spoiled, photographs)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_alone_decides(photographs: Tensor, name: str) -> None:
    assert torch.equal(spoil(photographs, name, 3, seed=1), spoil(photographs, name, 3, seed=1))
    assert not torch.equal(spoil(photographs, name, 3, seed=1), spoil(photographs, name, 3, seed=2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [(32, 47), (33, 32), (71, 130)])
def test_weather_takes_any_size_from_32_on(size: tuple[int, int], name: str) -> None:
    images = torch.randint(0, 256, (2, 3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for severity in (1, 5):
        assert spoil(images, name, severity).shape == images.shape


@pytest.mark.parametrize("name", NAMES)
def test_weather_takes_pictures_that_are_not_contiguous(photographs: Tensor, name: str) -> None:
    channels_last = photographs.contiguous(memory_format=torch.channels_last)
    assert torch.equal(spoil(channels_last, name, 2), spoil(photographs, name, 2))


@pytest.mark.parametrize("level", [0, 255])
@pytest.mark.parametrize("name", NAMES)
def test_weather_survives_pictures_of_one_level(name: str, level: int) -> None:
    images = torch.full((1, 3, 64, 64), level, dtype=torch.uint8)
    for severity in (1, 5):
        spoil(images, name, severity)


def test_fog_never_exceeds_the_brightest_value_of_the_picture(photographs: Tensor) -> None:
    dim = photographs // 2
    assert torch.all(spoil(dim, "fog", 5).amax((1, 2, 3)) <= dim.amax((1, 2, 3)))


def test_snow_never_darkens(photographs: Tensor) -> None:
    assert torch.all(spoil(photographs, "snow", 3).int() >= photographs.int() - 1)  # 1: truncation


def test_plasma_spans_the_unit_interval_and_continues_periodically() -> None:
    clouds = torch.stack([*plasma(64, 2.0, KeyedDraws(0, range(20), "plasma"))])
    assert torch.all(clouds.amin((1, 2)) == 0)
    assert torch.all(clouds.amax((1, 2)) == 1)
    across_the_border = (clouds[:, :, 0] - clouds[:, :, -1]).abs().mean()
    assert across_the_border < 2 * clouds.diff(dim=2).abs().mean()
