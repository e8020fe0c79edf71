"""Frost: the generated textures, photographs in their place, and the rules of scaling and cutting."""

from __future__ import annotations

from pathlib import Path

import golden
import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused

from robustvit.corruptions.frost_textures import frost_textures
from robustvit.corruptions.parameters import parameters
from robustvit.corruptions.pixels import Setting
from robustvit.corruptions.weather import frost
from robustvit.runtime.randomness import KeyedDraws, LegacyDraws

MEANS = {"frost1": (78, 149, 166), "frost2": (201, 205, 215), "frost4": (138, 153, 165), "frost5": (112, 123, 135)}
SDS = {"frost1": (27, 16, 15), "frost2": (21, 22, 23), "frost4": (29, 29, 30), "frost5": (44, 43, 42)}
DIFFERENCES = {"frost1": 7.8, "frost2": 8.1, "frost4": 13.6, "frost5": 17.5}
"""Of neighbouring pixels, in luminance."""
TAILS = {"frost1": 4.9, "frost2": 6.4, "frost4": 5.6, "frost5": 5.5}
"""Kurtosis of these differences; 3 for Gaussian noise, more where there are edges."""
CONTRAST = {"frost1": (6, 9, 14), "frost2": (6, 10, 18), "frost4": (9, 17, 28), "frost5": (11, 22, 37)}
"""Standard deviations inside squares of 7 x 7 pixels: a tenth, a half, nine tenths of the squares have less. All these are of
the photographs."""


def luminance(name: str) -> torch.Tensor:
    texture = next(t for t in frost_textures() if t.name == name).fitted((224, 224), "imagenet").double()
    return (texture * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Photographs of one colour each, named as published."""
    for i in range(1, 7):
        Image.new("RGB", (300, 260), (40 * i, 0, 0)).save(tmp_path / f"frost{i}.{'png' if i < 4 else 'jpg'}", quality=100)
    return tmp_path


def red_levels(folder: Path, count: int = 60) -> set[int]:
    images = torch.zeros(count, 3, 64, 64, dtype=torch.uint8)
    spoiled = frost(images, (1, 1.0), Setting("arbitrary", KeyedDraws(0, range(count), "frost"), folder))
    return {20 * round(int(level) / 20) for level in spoiled[:, 0, 0, 0]}  # JPEG may change a level by 1


@pytest.mark.parametrize("name", MEANS)
def test_generated_textures_have_the_colours_and_detail_of_the_photographs(name: str) -> None:
    texture = next(t for t in frost_textures() if t.name == name).fitted((224, 224), "imagenet").float()
    assert texture.mean((1, 2)).tolist() == pytest.approx(MEANS[name], abs=1)
    assert texture.flatten(1).std(1).tolist() == pytest.approx(SDS[name], abs=1.5)
    differences = [luminance(name).diff(dim=axis).abs().mean() for axis in (0, 1)]
    assert float(sum(differences)) / 2 == pytest.approx(DIFFERENCES[name], rel=0.05)


@pytest.mark.parametrize("name", MEANS)
def test_generated_textures_have_edges_as_the_photographs_and_unlike_noise(name: str) -> None:
    differences = [luminance(name).diff(dim=axis) for axis in (0, 1)]
    tails = [float(d.pow(4).mean() / d.square().mean().square()) for d in differences]
    assert sum(tails) / 2 == pytest.approx(TAILS[name], rel=0.15)


@pytest.mark.parametrize("name", MEANS)
def test_generated_textures_have_dense_and_clear_parts_as_the_photographs(name: str) -> None:
    squares = luminance(name).unfold(0, 7, 7).unfold(1, 7, 7).flatten(2).std(2).flatten()
    quantiles = torch.quantile(squares, torch.tensor([0.1, 0.5, 0.9], dtype=squares.dtype))
    assert quantiles.tolist() == pytest.approx(CONTRAST[name], abs=2)


@pytest.mark.parametrize(
    ("folder_name", "severity"), [("cifar32", 3), ("tiny64", 1), ("tiny64", 5), ("arbitrary96x160", 3), ("imagenet224", 3)]
)
def test_generated_frost_has_the_published_statistics_within_their_spread(folder_name: str, severity: int) -> None:
    """By the rule for the other random ones, which is loose here: the textures differ so much from each other that means
    may be off by 10 levels. The numbers of docs/corruptions.md are of the same cuts of both kinds."""
    family, clean = golden.FAMILIES[folder_name], golden.picture(folder_name)
    draws = 24 if folder_name == "imagenet224" else 48
    setting = Setting(family, KeyedDraws(0, range(draws), "frost", severity))
    spoiled = frost(clean.expand(draws, -1, -1, -1), parameters("frost", severity, family), setting)
    assert golden.deviations(spoiled, folder_name, "frost", severity) == {}


def test_frost_is_the_weighted_sum_of_image_and_texture_cut_at_255() -> None:
    clean = golden.picture("imagenet224")
    scene, ice = 0.7, 0.7
    spoiled = frost(clean, (scene, ice), Setting("imagenet", LegacyDraws(np.random.RandomState(3))))
    state = np.random.RandomState(3)  # drawn in this order: texture, top, left
    texture = frost_textures()[state.randint(5)].fitted((224, 224), "imagenet")
    top, left = state.randint(texture.shape[1] - 224), state.randint(texture.shape[2] - 224)
    crop = texture[:, top : top + 224, left : left + 224]
    expected = (scene * clean.double() + ice * crop.double()).clamp(max=255).to(torch.uint8)
    assert torch.equal(spoiled, expected)


def test_a_photograph_that_was_replaced_is_read_again(folder: Path) -> None:
    assert 40 in red_levels(folder)
    Image.new("RGB", (310, 260), (0, 0, 0)).save(folder / "frost1.png")
    assert red_levels(folder) == {0, 80, 120, 160, 200}


def test_the_five_published_photographs_are_used_and_the_sixth_never(folder: Path) -> None:
    assert red_levels(folder) == {40, 80, 120, 160, 200}


def test_any_images_are_used_where_the_published_ones_are_not_complete(folder: Path) -> None:
    (folder / "frost1.png").unlink()
    (folder / "notes.txt").write_text("no image")
    assert red_levels(folder) == {80, 120, 160, 200, 240}


def test_a_folder_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    with refused(FileNotFoundError, tmp_path / "nowhere"):
        frost_textures(tmp_path / "nowhere")
    with refused(FileNotFoundError, tmp_path):
        frost_textures(tmp_path)


def test_a_photograph_too_small_for_a_fixed_size_is_refused(folder: Path) -> None:
    Image.new("RGB", (224, 400)).save(folder / "frost1.png")
    with refused(ValueError, "224x224"):
        frost_textures(folder)[0].fitted((224, 224), "imagenet")


def test_textures_are_scaled_by_the_rule_of_the_family() -> None:
    first = frost_textures()[0]  # 600 x 900
    assert first.fitted((224, 224), "imagenet").shape == (3, 600, 900)
    assert first.fitted((32, 32), "cifar").shape == (3, 120, 180)
    assert first.fitted((64, 64), "tiny").shape == (3, 180, 270)
    assert first.fitted((96, 160), "arbitrary").shape == (3, 660, 991)  # 1.1 times, rounded up: 1.1 * 900 > 990
    assert first.fitted((1000, 900), "arbitrary").shape == (3, 1100, 1651)


def test_shrinking_by_five_keeps_every_fifth_pixel() -> None:
    first = frost_textures()[0]
    assert torch.equal(first.fitted((32, 32), "cifar"), first.fitted((224, 224), "imagenet")[:, 2::5, 2::5])
