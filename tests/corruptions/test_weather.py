"""Snow and fog against the published pictures and statistics; what all weather has in common."""

from __future__ import annotations

import golden
import pytest
import torch
from torch import Tensor

from robustvit.corruptions.plasma import plasma
from robustvit.runtime.randomness import KeyedDraws

NAMES = ("snow", "frost", "fog", "spatter")
ACCIDENT = ("arbitrary96x160", "snow", 5)
"""The published resampler sets the last column of the layer to 0 here; not imitated."""


@pytest.fixture(scope="module")
def photographs() -> Tensor:
    clean = golden.picture("tiny64")
    return torch.cat([clean, clean.flip(-1), clean // 2])


@pytest.mark.parametrize(
    ("folder", "name", "severity"),
    [cell for name in ("snow", "fog") for cell in golden.files("seeded", name) if cell != ACCIDENT],
)
def test_snow_and_fog_equal_the_published_images_for_the_same_random_stream(folder: str, name: str, severity: int) -> None:
    ours = golden.spoil_as_published(folder, name, severity)
    assert golden.difference(ours, golden.picture(folder, f"seeded/{name}_{severity}")) == (0, 0.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("severity", [1, 5])
def test_a_image_meets_the_same_weather_alone_and_in_a_batch(photographs: Tensor, name: str, severity: int) -> None:
    together = golden.spoil(photographs, name, severity, ids=[7, 8, 9])
    alone = torch.cat([golden.spoil(photographs[i : i + 1], name, severity, ids=[7 + i]) for i in range(3)])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("name", NAMES)
def test_weather_leaves_its_input_alone_and_keeps_shape_and_dtype(photographs: Tensor, name: str) -> None:
    before = photographs.clone()
    spoiled = golden.spoil(photographs, name, 3)
    assert torch.equal(photographs, before)
    assert spoiled.shape == photographs.shape
    assert spoiled.dtype == torch.uint8
    assert not torch.equal(spoiled, photographs)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_alone_decides(photographs: Tensor, name: str) -> None:
    assert torch.equal(golden.spoil(photographs, name, 3, seed=1), golden.spoil(photographs, name, 3, seed=1))
    assert not torch.equal(golden.spoil(photographs, name, 3, seed=1), golden.spoil(photographs, name, 3, seed=2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [(32, 47), (33, 32), (71, 130)])
def test_weather_takes_any_size_from_32_on(size: tuple[int, int], name: str) -> None:
    images = torch.randint(0, 256, (2, 3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for severity in (1, 5):
        assert golden.spoil(images, name, severity).shape == images.shape


@pytest.mark.parametrize("name", NAMES)
def test_weather_takes_images_that_are_not_contiguous(photographs: Tensor, name: str) -> None:
    channels_last = photographs.contiguous(memory_format=torch.channels_last)
    assert torch.equal(golden.spoil(channels_last, name, 2), golden.spoil(photographs, name, 2))


@pytest.mark.parametrize("severity", [1, 5])
def test_weather_on_images_of_one_level_shows_the_weather_alone(severity: int) -> None:
    black, white = (torch.full((2, 3, 64, 64), level, dtype=torch.uint8) for level in (0, 255))
    assert not golden.spoil(black, "fog", severity).any()  # the brightest value, here black, stays as it was
    fog = golden.spoil(white, "fog", severity).double()
    assert fog.amax() <= 255
    assert fog.amin() < 255
    assert golden.spoil(black, "snow", severity).any()
    assert torch.all(golden.spoil(white, "snow", severity) >= 254)  # 254: truncation
    for name in ("frost", "spatter"):
        on_black, on_white = (golden.spoil(images, name, severity).int() for images in (black, white))
        assert on_black.any()
        assert torch.all(on_white >= on_black)


def test_fog_never_exceeds_the_brightest_value_of_the_image(photographs: Tensor) -> None:
    dim = photographs // 2
    assert torch.all(golden.spoil(dim, "fog", 5).amax((1, 2, 3)) <= dim.amax((1, 2, 3)))


def test_snow_never_darkens(photographs: Tensor) -> None:
    assert torch.all(golden.spoil(photographs, "snow", 3).int() >= photographs.int() - 1)  # 1: truncation


def test_plasma_spans_the_unit_interval_and_continues_periodically() -> None:
    clouds = torch.stack([*plasma(64, 2.0, KeyedDraws(0, range(20), "plasma"))])
    assert torch.all(clouds.amin((1, 2)) == 0)
    assert torch.all(clouds.amax((1, 2)) == 1)
    across_the_border = (clouds[:, :, 0] - clouds[:, :, -1]).abs().mean()
    assert across_the_border < 2 * clouds.diff(dim=2).abs().mean()
