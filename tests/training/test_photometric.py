"""Photometric distortion is that of the published segmenters, step by step and in its statistics."""

from __future__ import annotations

import colorsys
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.augmentation import Augmentation
from robustvit.training.augment.photometric import (
    Photometric,
    add_brightness,
    multiply_contrast,
    multiply_saturation,
    turn_hue,
)
from robustvit.training.config import AugmentConfig

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "augmentation.json").read_text())
FIXED = REFERENCE["photometric_fixed"]
IMAGE = np.array(FIXED["image_values"], np.uint8).reshape(4, 5, 3).transpose(2, 0, 1)
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "brightness_add": add_brightness,
    "contrast_multiply": multiply_contrast,
    "saturation_multiply": multiply_saturation,
    "hue_add (of 180)": lambda image, steps: turn_hue(image, int(steps)),
}
SEEDS = [keyed_seed(1, i) for i in range(20_000)]
COLOURS = np.stack(np.meshgrid(*[np.arange(0, 256, 15, dtype=np.uint8)] * 3), 0).reshape(3, 1, -1)


@pytest.mark.parametrize(("step", "amount"), [(step, amount) for step in STEPS for amount in FIXED[step]])
def test_every_step_gives_the_published_values(step: str, amount: str) -> None:
    """The published way back from HSV is in floating point and may differ by a level; on this image it does not."""
    made = STEPS[step](IMAGE, float(amount))
    assert made.transpose(1, 2, 0).ravel().tolist() == FIXED[step][amount]


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    """[draws, 3 colours, 3]: what becomes of the colours of the reference."""
    colours = np.array([entry["rgb"] for entry in REFERENCE["photometric_statistics"]], np.uint8)
    image = colours.T[:, None].copy()  # 3 1 n
    return np.stack([Photometric.draw(seed)(image)[:, 0].T for seed in SEEDS]).astype(float)


@pytest.mark.parametrize("number", range(3))
def test_the_draws_have_the_published_statistics(drawn: np.ndarray, number: int) -> None:
    """The reference is a sample itself, of 40 000: two samples agree within three standard errors of their difference."""
    entry, values = REFERENCE["photometric_statistics"][number], drawn[:, number]
    noise = 3 * (1 / len(values) + 1 / entry["draws"]) ** 0.5
    unchanged = entry["unchanged"]
    assert (values == entry["rgb"]).all(1).mean() == pytest.approx(unchanged, abs=noise * (unchanged * (1 - unchanged)) ** 0.5)
    assert (np.abs(values.mean(0) - entry["mean"]) < noise * np.array(entry["std"])).all()
    assert values.std(0) == pytest.approx(entry["std"], abs=0.6)
    for quantile, value in entry["quantiles_first_channel"].items():
        assert np.percentile(values[:, 0], float(quantile)) == pytest.approx(value, abs=2)


def test_each_step_has_a_chance_of_one_half_and_its_published_range() -> None:
    draws = [Photometric.draw(seed) for seed in SEEDS[:10_000]]
    ranges = {"brightness": (-32, 32), "contrast": (0.5, 1.5), "saturation": (0.5, 1.5), "hue": (-18, 17)}
    for name, (low, high) in ranges.items():
        given = [getattr(draw, name) for draw in draws if getattr(draw, name) is not None]
        assert len(given) / len(draws) == pytest.approx(0.5, abs=0.02)
        assert low <= min(given) <= low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) <= max(given) <= high
    assert np.mean([draw.is_contrast_last for draw in draws]) == pytest.approx(0.5, abs=0.02)


def test_steps_come_in_the_published_order() -> None:
    early = multiply_contrast(add_brightness(COLOURS, 20.0), 1.3)
    assert np.array_equal(Photometric(20.0, 1.3, 0.7, 5)(COLOURS), turn_hue(multiply_saturation(early, 0.7), 5))
    late = turn_hue(multiply_saturation(add_brightness(COLOURS, 20.0), 0.7), 5)
    assert np.array_equal(Photometric(20.0, 1.3, 0.7, 5, is_contrast_last=True)(COLOURS), multiply_contrast(late, 1.3))
    assert Photometric()(COLOURS) is COLOURS


@pytest.mark.parametrize("steps", [-18, -1, 0, 7, 90, 179])
def test_hues_turn_as_those_of_the_standard_library_do(steps: int) -> None:
    """8-bit hues have steps of 2 degrees, of which half is lost: up to 255 / 60 + 1 levels."""
    wanted = []
    for red, green, blue in COLOURS[:, 0].T.tolist():
        hue, saturation, value = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)
        wanted.append([255 * x for x in colorsys.hsv_to_rgb((hue + steps / 180) % 1, saturation, value)])
    assert np.abs(turn_hue(COLOURS, steps)[:, 0].T - np.array(wanted)).max() < 5.5


def test_grey_stays_grey_whatever_happens_to_its_colour() -> None:
    greys = np.arange(256, dtype=np.uint8)[None].repeat(3, 0)[:, None]
    for factor in (0.5, 1.5):
        assert np.array_equal(multiply_saturation(greys, factor), greys)
    assert np.array_equal(turn_hue(greys, 11), greys)
    assert np.array_equal(multiply_saturation(COLOURS, 0.0), COLOURS.max(0, keepdims=True).repeat(3, 0))


def test_pixels_do_not_know_of_each_other() -> None:
    """An image is converted in pieces, whose borders leave no trace."""
    wide = np.random.RandomState(0).randint(0, 256, (3, 200, 300)).astype(np.uint8)
    draw = Photometric(9.0, 0.8, 1.4, -11)
    assert np.array_equal(draw(wide)[:, 120:150, 7:31], draw(wide[:, 120:150, 7:31].copy()))


def test_any_crop_can_be_distorted_and_the_view_is_not() -> None:
    config = AugmentConfig(crop="none", flip=0, photometric=True)
    augment = Augmentation(config, (8, 8), seed=0, mean=(0.5, 0.5, 0.5), with_view=True)
    base = np.random.RandomState(1).randint(0, 256, (3, 8, 8)).astype(np.uint8)
    images, view, _ = augment([base] * 16, SEEDS[:16])
    assert view is not None
    assert all(np.array_equal(plain, base) for plain in view)
    assert all(np.array_equal(image, Photometric.draw(seed)(base)) for image, seed in zip(images, SEEDS, strict=False))
    assert len({image.tobytes() for image in images}) > 8
