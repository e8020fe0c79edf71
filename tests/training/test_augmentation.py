"""Crop, flip and colours of a sample, from its seed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from refusals import refused

from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.augmentation import Augmentation
from robustvit.training.config import AugmentConfig

SEEDS = [keyed_seed(0, i, "test") for i in range(64)]
RANDOM = np.random.RandomState(0)


def augmentation(size: tuple[int, int] = (16, 16), *, view: bool = False, **config: Any) -> Augmentation:
    return Augmentation(AugmentConfig(**config), size, seed=0, mean=(0.5, 0.25, 0.0), with_view=view)


def pictures(count: int, size: tuple[int, int] = (16, 16)) -> list[np.ndarray]:
    return list(RANDOM.randint(1, 256, (count, *size, 3), np.uint8))


def made(augment: Augmentation, images: list[np.ndarray], seeds: list[int]) -> np.ndarray:
    return augment([augment.base(image, str(i))[0] for i, image in enumerate(images)], seeds).images


def test_without_crop_and_flip_a_image_comes_as_it_is() -> None:
    images = pictures(3)
    assert np.array_equal(made(augmentation(crop="none", flip=0), images, SEEDS[:3]), np.stack(images).transpose(0, 3, 1, 2))


def test_a_flip_of_one_mirrors_every_image() -> None:
    images = pictures(3)
    mirrored = np.stack(images).transpose(0, 3, 1, 2)[:, :, :, ::-1]
    assert np.array_equal(made(augmentation(crop="none", flip=1), images, SEEDS[:3]), mirrored)


@pytest.mark.parametrize("crop", ["none", "resized"])
def test_flips_have_their_probability(crop: str) -> None:
    picture = np.zeros((16, 16, 3), np.uint8)
    picture[:, :8] = 255
    images = made(augmentation(crop=crop, flip=0.3, scale=(1, 1), ratio=(1, 1)), [picture] * 64, SEEDS)
    assert 0.15 < (images[:, 0, 8, 0] == 0).mean() < 0.45


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_a_padded_crop_is_a_window_of_the_image_in_the_mean_colour(seed: int) -> None:
    image = pictures(1, (16, 24))[0]
    (cropped,) = made(augmentation((16, 24), crop="padded", flip=0.5), [image], [seed])
    padded = np.empty((3, 16 + 4, 24 + 6), np.uint8)
    padded[:] = np.array([128, 64, 0], np.uint8)[:, None, None]
    padded[:, 2:-2, 3:-3] = image.transpose(2, 0, 1)
    windows = [padded[:, y : y + 16, x : x + 24] for y in range(5) for x in range(7)]
    assert any(np.array_equal(cropped, w) or np.array_equal(cropped, w[:, :, ::-1]) for w in windows)


def test_padded_crops_reach_every_place() -> None:
    picture = np.zeros((16, 16, 3), np.uint8)
    picture[8, 8] = 255
    images = made(augmentation(crop="padded", flip=0), [picture] * 64 * 8, [keyed_seed(1, i) for i in range(64 * 8)])
    places = {tuple(np.argwhere(image[2] == 255)[0]) for image in images}
    assert places == {(y, x) for y in range(6, 11) for x in range(6, 11)}


@pytest.mark.parametrize(
    "config",
    [
        {"crop": "padded"},
        {"crop": "resized"},
        {"crop": "resized", "rand_augment": "rand-m9-mstd0.5-inc1"},
        {"crop": "padded", "color_jitter": 0.4},
    ],
)
def test_what_happens_to_a_sample_does_not_depend_on_its_batch(config: dict[str, Any]) -> None:
    augment, images = augmentation(view=True, **config), pictures(6)
    whole = made(augment, images, SEEDS[:6])
    bases = [augment.base(image, str(i))[0] for i, image in enumerate(images)]
    for i in reversed(range(6)):
        alone, view, _ = augment([bases[i]], [SEEDS[i]])
        assert np.array_equal(alone[0], whole[i])
        assert view is not None
        assert view.shape == alone.shape


def test_a_resized_crop_has_the_area_and_ratio_that_were_asked_for() -> None:
    rows, columns = np.mgrid[0:64, 0:64].astype(np.uint8) * 4
    picture = np.stack([rows, columns, rows], -1)
    images = made(augmentation(crop="resized", scale=(0.25, 0.25), ratio=(1, 1), flip=0), [picture] * 20, SEEDS[:20])
    heights = np.ptp(images[:, 0].astype(int), axis=(1, 2)) / 4
    assert ((heights >= 27) & (heights <= 32)).all()
    assert len({tuple(image[:, 0, 0]) for image in images}) > 10


@pytest.mark.parametrize("crop", ["resized", "padded", "none"])
@pytest.mark.parametrize("size", [(1, 1), (1, 300), (7, 5)])
def test_images_of_any_size_come_out_at_the_size_of_the_network(crop: str, size: tuple[int, int]) -> None:
    images = made(augmentation((32, 16), crop=crop), pictures(20, size), SEEDS[:20])
    assert images.shape == (20, 3, 32, 16)


def test_a_random_filter_is_one_of_the_two_for_each_image() -> None:
    image = Image.fromarray(pictures(1, (40, 40))[0])
    expected = {image.resize((16, 16), f).tobytes() for f in (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC)}
    augment = augmentation(crop="none", interpolation="random")
    found = {augment.base(image, str(i))[0].transpose(1, 2, 0).tobytes() for i in range(20)}
    assert found == expected


def test_the_view_shares_crop_and_flip_and_has_no_colour_jitter() -> None:
    bases = [augmentation(crop="resized").base(image, "")[0] for image in pictures(4)]
    plain, *_ = augmentation(crop="resized")(bases, SEEDS[:4])
    student, view, _ = augmentation(crop="resized", color_jitter=0.5, view=True)(bases, SEEDS[:4])
    assert view is not None
    assert np.array_equal(view, plain)
    assert not np.array_equal(student, plain)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"crop": "centre"}, ("augment.crop", "centre", "resized", "padded", "none")),
        ({"rand_augment": "fast"}, ("augment.rand_augment", "fast")),
    ],
)
def test_impossible_settings_are_named(config: dict[str, Any], named: tuple[str, ...]) -> None:
    with refused(ValueError, *named):
        augmentation(**config)
