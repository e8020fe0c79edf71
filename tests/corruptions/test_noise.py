"""The four noises against the published pictures and statistics, and the tables that they look up."""

from __future__ import annotations

import math

import golden
import numpy as np
import pytest
import torch
from torch import Tensor

from robustvit.corruptions import noise
from robustvit.corruptions.pixels import Setting
from robustvit.runtime.randomness import KeyedDraws, LegacyDraws

NAMES = ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise")


def flat(level: int, count: int = 64) -> Tensor:
    return torch.full((count, 3, 64, 64), level, dtype=torch.uint8)


@pytest.mark.parametrize(("folder", "name", "severity"), [cell for name in NAMES for cell in golden.files("seeded", name)])
def test_noise_equals_the_published_images_for_the_same_random_stream(folder: str, name: str, severity: int) -> None:
    ours = golden.spoil_as_published(folder, name, severity)
    assert golden.difference(ours, golden.picture(folder, f"seeded/{name}_{severity}")) == (0, 0.0)


@pytest.mark.parametrize("photons", [3, 5, 60])
@pytest.mark.parametrize("level", [0, 1, 77, 254])
def test_shot_noise_draws_each_count_with_its_poisson_probability(level: int, photons: int) -> None:
    setting = Setting("arbitrary", KeyedDraws(0, range(64)))
    grey = noise.shot_noise(flat(level), photons, setting)
    rate, values = level / 255 * photons, grey.numel()
    for count in range(photons):
        expected = math.exp(-rate) * rate**count / math.factorial(count)
        share = float((grey == int(min(count / photons, 1) * 255)).double().mean())
        assert abs(share - expected) < 5 * math.sqrt(expected / values) + 2e-5 * (photons + 1)


def test_gaussian_noise_has_the_tails_of_the_normal_distribution() -> None:
    sd = 20 / 255
    n = noise.gaussian_noise(flat(128), sd, Setting("tiny", KeyedDraws(0, range(64)))).double().flatten()
    for limit in (1.0, 2.0, 3.0, 4.0):
        expected = 0.5 * math.erfc(limit / math.sqrt(2))
        share = float((n >= 128 + 20 * limit).double().mean())
        assert abs(share - expected) < 5 * math.sqrt(expected / len(n)) + 1 / 2**16
    assert float(n.mean()) == pytest.approx(127.5, abs=0.1)  # truncated, not rounded


def test_impulse_noise_replaces_single_values_by_black_and_white_alike() -> None:
    spoiled = noise.impulse_noise(flat(100), 0.27, Setting("tiny", KeyedDraws(0, range(64))))
    black, white = ((spoiled == value).double() for value in (0, 255))
    assert float(black.mean()) == pytest.approx(0.135, abs=0.002)
    assert float(white.mean()) == pytest.approx(0.135, abs=0.002)
    assert torch.all((spoiled == 100) | (spoiled == 0) | (spoiled == 255))
    assert float((white[:, 0] * white[:, 1]).mean()) == pytest.approx(0.135**2, abs=0.002)  # channels are independent


def test_impulse_noise_of_the_published_stream_replaces_the_same_share() -> None:
    setting = Setting("tiny", LegacyDraws(np.random.RandomState(0)))
    spoiled = noise.impulse_noise(flat(100, 1), 0.27, setting)
    assert float((spoiled != 100).double().mean()) == pytest.approx(0.27, abs=0.02)


@pytest.mark.parametrize("name", ["shot_noise", "speckle_noise"])
def test_noise_that_comes_from_light_leaves_black_black(name: str) -> None:
    assert not golden.spoil(flat(0, 1), name, 5).any()


@pytest.mark.parametrize("name", NAMES)
def test_images_of_any_size_and_layout_keep_their_shape(name: str) -> None:
    images = torch.randint(0, 256, (2, 33, 47, 3), dtype=torch.uint8).permute(0, 3, 1, 2)
    spoiled = golden.spoil(images, name, 3)
    assert spoiled.shape == images.shape
    assert spoiled.dtype == torch.uint8
    assert torch.equal(spoiled, golden.spoil(images.contiguous(), name, 3))
