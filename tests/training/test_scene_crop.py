"""A scene is cropped as published segmenters are trained, and its image, label map and boxes go the same way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from robustvit.data.label_maps import IGNORED
from robustvit.data.resizing import Window, resize_image, resize_map
from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.photometric import Photometric
from robustvit.training.augment.scene_augmentation import SceneAugmentation
from robustvit.training.augment.scene_crop import SceneCrop, ScenePlacement, is_varied
from robustvit.training.config import AugmentConfig

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "augmentation.json").read_text())
SEEDS = [keyed_seed(0, i, "scene") for i in range(3000)]
MORE_SEEDS = [keyed_seed(1, i, "scene") for i in range(20_000)]
IMAGE = np.random.RandomState(0).randint(0, 256, (3, 24, 40)).astype(np.uint8)
LABELS = np.random.RandomState(1).randint(0, 5, (24, 40)).astype(np.uint8)
STRIPE = np.repeat((np.arange(128) >= 100).astype(np.uint8)[None], 64, axis=0)
DOTTED = np.where((np.arange(64)[:, None] % 2 == 0) | (np.arange(128) // 10 == 7), IGNORED, STRIPE).astype(np.uint8)
"""Even rows, and columns 70 to 79, do not count."""
MEAN = (0.485, 0.456, 0.406)


def augmented(config: AugmentConfig, size: tuple[int, int], labels: Any = LABELS, **options: Any) -> Any:
    augment = SceneAugmentation(config, size, mean=MEAN, **options)
    base, placement = augment.base(IMAGE.transpose(1, 2, 0), "")
    assert placement is None
    return augment([base] * 64, SEEDS[:64], [labels] * 64)


def test_sizes_of_cityscapes_are_the_published_ones() -> None:
    for factor, (width, height) in REFERENCE["resize"]["train_city_2048x1024"].items():
        crop = SceneCrop((8, 8), (float(factor), float(factor)), base_size=(2048, 1024))
        assert crop.draw((1024, 2048), SEEDS[0]).scaled == (height, width)
        assert crop.draw((512, 1024), SEEDS[0]).scaled == (height, width)  # whatever the size of the image


@pytest.mark.parametrize(("number", "labels"), [(0, STRIPE), (1, DOTTED)])
def test_the_published_share_of_all_crops_is_bad(number: int, labels: np.ndarray) -> None:
    crops = np.lib.stride_tricks.sliding_window_view(labels, (32, 32)).reshape(-1, 32, 32)
    is_bad = [not is_varied(crop, 0.75) for crop in crops]
    assert np.mean(is_bad) == pytest.approx(REFERENCE["cat_max_ratio"][number]["share_of_bad_positions"], abs=1e-12)


@pytest.mark.parametrize(("number", "labels"), [(0, STRIPE), pytest.param(1, DOTTED, marks=pytest.mark.slow)])
def test_re_draws_leave_the_published_share_of_bad_crops(number: int, labels: np.ndarray) -> None:
    expected = REFERENCE["cat_max_ratio"][number]["expected_bad_after_redraws"]
    crop = SceneCrop((32, 32), (1.0, 1.0), cat_max_ratio=0.75)
    is_bad = [not is_varied(crop.draw((64, 128), seed, labels).map(labels, 0), 0.75) for seed in MORE_SEEDS]
    standard_error = (expected * (1 - expected) / len(MORE_SEEDS)) ** 0.5
    assert np.mean(is_bad) == pytest.approx(expected, abs=4 * standard_error)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [({0: 74, 1: 26}, True), ({0: 75, 1: 25}, False), ({3: 100}, False), ({255: 100}, False), ({0: 7, 1: 3, 255: 90}, True)],
)
def test_a_crop_is_varied_by_the_pixels_that_count(counts: dict[int, int], expected: bool) -> None:
    labels = np.concatenate([np.full(count, label, np.uint8) for label, count in counts.items()]).reshape(10, 10)
    assert is_varied(labels, 0.75) is expected


def test_factors_positions_and_flips_cover_their_range_evenly() -> None:
    crop = SceneCrop((16, 16), (0.5, 2.0), flip=0.25)
    drawn = [crop.draw((32, 64), seed) for seed in SEEDS]
    heights = np.array([placement.scaled[0] for placement in drawn]) / 32
    assert (heights.min(), heights.max()) == (0.5, pytest.approx(2, abs=0.04))
    assert heights.mean() == pytest.approx(1.25, abs=0.04)
    assert np.mean([placement.is_flipped for placement in drawn]) == pytest.approx(0.25, abs=0.03)
    still = SceneCrop((16, 16), (1.0, 1.0))
    corners = np.array([still.draw((18, 20), seed).window[:2] for seed in SEEDS])
    counts = np.unique(corners, axis=0, return_counts=True)[1]
    assert len(counts) == 3 * 5
    assert counts.min() > 0.75 * len(SEEDS) / 15


def test_what_is_missing_lies_to_the_right_and_below_flipped_or_not() -> None:
    config = AugmentConfig(crop="scene", ratio_range=(0.5, 0.5), photometric=True)
    images, _, placements = augmented(config, (16, 32))
    assert {placement.is_flipped for placement in placements} == {True, False}
    for image, placement in zip(images, placements, strict=True):
        assert placement.shown == (12, 20)
        labels = placement.map(LABELS, fill=IGNORED)
        assert (labels[12:] == IGNORED).all()
        assert (labels[:, 20:] == IGNORED).all()
        assert (labels[:12, :20] < 5).all()
        assert (image[:, :12, :20].std((1, 2)) > 8).all()  # colours of the image


def test_a_window_of_a_scaled_scene_is_what_scaling_and_cutting_give() -> None:
    config = AugmentConfig(crop="scene", ratio_range=(0.5, 2.0))
    images, view, placements = augmented(config, (20, 30), with_view=True)
    assert view is images  # colours are as they were
    for image, placement in zip(images, placements, strict=True):
        top, left, height, width = placement.window
        part = slice(top, top + height), slice(left, left + width)
        seen = resize_image(IMAGE, placement.scaled)[:, *part]
        labels = resize_map(LABELS, placement.scaled)[part]
        if placement.is_flipped:
            seen, labels = seen[:, :, ::-1], labels[:, ::-1]
        assert np.array_equal(image[:, :height, :width], seen)
        assert np.array_equal(placement.map(LABELS, fill=9)[:height, :width], labels)


def test_the_view_has_the_colours_that_were_there() -> None:
    plain, _, _ = augmented(AugmentConfig(crop="scene"), (20, 30))
    images, view, _ = augmented(AugmentConfig(crop="scene", photometric=True), (20, 30), with_view=True)
    assert np.array_equal(view, plain)
    assert all(
        np.array_equal(image, Photometric.draw(seed)(same)) for image, seed, same in zip(images, SEEDS, plain, strict=False)
    )


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**64 - 1), box=st.tuples(*[st.integers(0, 20)] * 2, *[st.integers(1, 12)] * 2))
def test_a_box_stays_around_what_it_was_drawn_around(seed: int, box: tuple[int, int, int, int]) -> None:
    x, y, width, height = box
    marked = np.zeros((24, 40), np.uint8)
    marked[y : y + height, x : x + width] = 1
    placement = SceneCrop((20, 20), (0.5, 2.0)).draw((24, 40), seed)
    ((x1, y1, x2, y2),) = placement.boxes(np.array([[x, y, x + width, min(y + height, 24)]], np.float32))
    rows, columns = np.nonzero(placement.map(marked, fill=0))
    if len(rows) == 0:
        assert x2 - x1 < 2 or y2 - y1 < 2  # less than a pixel of the map, or outside
        return
    found = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    assert np.abs(np.array(found) - (x1, y1, x2, y2)).max() <= 1.01


def test_a_placement_can_be_written_by_hand() -> None:
    placement = ScenePlacement((4, 4), (8, 8), Window(2, 0, 4, 6), (5, 7), is_flipped=True)
    labels = np.arange(16, dtype=np.uint8).reshape(4, 4)
    assert placement.map(labels, fill=99).tolist() == [
        [6, 6, 5, 5, 4, 4, 99],
        [6, 6, 5, 5, 4, 4, 99],
        [10, 10, 9, 9, 8, 8, 99],
        [10, 10, 9, 9, 8, 8, 99],
        [99] * 7,
    ]
    assert placement.boxes(np.array([[0.0, 1.0, 2.0, 2.0]])).tolist() == [[2.0, 0.0, 6.0, 2.0]]


def test_an_image_of_one_pixel_and_a_tiny_factor_are_no_trouble() -> None:
    placement = SceneCrop((4, 4), (0.01, 0.01), cat_max_ratio=0.75).draw((1, 1), SEEDS[0], np.zeros((1, 1), np.uint8))
    assert placement.scaled == placement.shown == (1, 1)


@pytest.mark.parametrize("target", [3, np.zeros((24, 41), np.uint8), np.zeros((24, 40), np.int64)])
def test_targets_that_are_no_label_maps_of_their_images_are_refused(target: Any) -> None:
    with refused(ValueError, "cat_max_ratio", "[24, 40]"):
        augmented(AugmentConfig(crop="scene"), (8, 8), target)
    augmented(AugmentConfig(crop="scene", cat_max_ratio=1.0), (8, 8), target)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"crop": "scene", "rand_augment": "rand-m9-mstd0.5-inc1"}, ("augment.rand_augment", "scene")),
        ({"crop": "scene", "color_jitter": 0.4}, ("augment.color_jitter", "photometric")),
        ({"cat_max_ratio": 0.0}, ("augment.cat_max_ratio",)),
        ({"ratio_range": (2.0, 0.5)}, ("augment.ratio_range", "2.0")),
        ({"crop_size": (0, 512)}, ("augment.crop_size", "512")),
        ({"base_size": (2048, 0)}, ("augment.base_size", "2048")),
    ],
)
def test_settings_that_are_not_possible_are_refused(options: dict[str, Any], named: tuple[str, ...]) -> None:
    with refused(ValueError, *named):
        AugmentConfig(**options)
