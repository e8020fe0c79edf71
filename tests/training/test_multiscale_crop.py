"""Scenes are flipped, resized, cropped and resized again as published detectors are trained, and targets go the same way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from robustvit.data.normalisation import Normalisation
from robustvit.data.resizing import Window, resize_image, resize_map
from robustvit.runtime.randomness import keyed_seed
from robustvit.tasks.segmentation import Segmentation
from robustvit.training.augment.multiscale_crop import MultiscaleCrop, MultiscalePlacement
from robustvit.training.augment.photometric import Photometric
from robustvit.training.augment.placement import Placement
from robustvit.training.augment.scene_augmentation import SceneAugmentation
from robustvit.training.augment.scene_crop import ScenePlacement
from robustvit.training.checks import check_combination
from robustvit.training.config import AugmentConfig, TrainConfig
from robustvit.training.config_io import ConfigError
from robustvit.training.inputs import Batch, prepare

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "augmentation.json").read_text())
SEEDS = [keyed_seed(0, i, "multiscale crop") for i in range(3000)]
PUBLISHED = AugmentConfig(crop="multiscale")
SMALL = AugmentConfig(
    crop="multiscale", short_sides=(24, 32, 40), long_side=66, first_short_sides=(20, 30), crop_range=(19, 28)
)
IMAGES = [np.random.RandomState(i).randint(0, 256, (3, *size)).astype(np.uint8) for i, size in enumerate([(24, 40), (50, 30)])]
MEAN = (0.485, 0.456, 0.406)


class Objects(NamedTuple):
    """A target that is no label map."""

    boxes: np.ndarray


def crop_of(config: AugmentConfig, **changes: Any) -> MultiscaleCrop:
    crop = SceneAugmentation(config, (1, 1), mean=MEAN).crop
    assert isinstance(crop, MultiscaleCrop)
    return crop._replace(**changes)


def augmented(count: int = 32, config: AugmentConfig = SMALL, **options: Any) -> Any:
    """Images of two sizes in turn, in one batch."""
    augment = SceneAugmentation(config, (1, 1), mean=MEAN, **options)
    bases = [augment.base(IMAGES[i % 2].transpose(1, 2, 0), "")[0] for i in range(count)]
    return augment(bases, SEEDS[:count], [Objects(np.zeros((0, 4)))] * count)


def stepwise(placement: MultiscalePlacement, pixels: np.ndarray) -> np.ndarray:
    """Flip, resize, crop, resize: one after the other."""
    top, left, height, width = placement.window
    flipped = pixels[:, :, ::-1] if placement.is_flipped else pixels
    return resize_image(resize_image(flipped, placement.first)[:, top : top + height, left : left + width], placement.shown)


def test_published_sizes_and_ranges_are_the_defaults() -> None:
    crop = crop_of(PUBLISHED)
    assert crop.short_sides == tuple(range(480, 801, 32))
    assert (crop.first_short_sides, crop.crop_range, crop.long_side, crop.flip) == ((400, 500, 600), (384, 600), 1333, 0.5)


@pytest.mark.parametrize(("original", "resized"), REFERENCE["resize"]["test_1333x800"].items())
def test_the_shorter_side_is_resized_to_a_side_with_the_longer_within_its_limit(original: str, resized: list[int]) -> None:
    width, height = map(int, original.split("x"))
    crop = crop_of(PUBLISHED, short_sides=(800,), first_short_sides=())
    assert crop.draw((height, width), SEEDS[0]).shown == tuple(resized[::-1])


def test_flips_branches_and_sides_are_drawn_evenly() -> None:
    drawn = [crop_of(PUBLISHED).draw((480, 640), seed) for seed in SEEDS]
    assert np.mean([placement.is_flipped for placement in drawn]) == pytest.approx(0.5, abs=0.03)
    whole = [placement for placement in drawn if placement.first == (480, 640)]
    cropped = [placement for placement in drawn if placement.first != (480, 640)]
    assert len(whole) / len(drawn) == pytest.approx(0.5, abs=0.03)
    assert all(placement.window == (0, 0, 480, 640) for placement in whole)
    sides, counts = np.unique([placement.shown[0] for placement in whole], return_counts=True)
    assert sides.tolist() == list(range(480, 801, 32))
    assert counts.min() > 0.7 * len(whole) / 11
    sides, counts = np.unique([min(placement.first) for placement in cropped], return_counts=True)
    assert sides.tolist() == [400, 500, 600]
    assert counts.min() > 0.85 * len(cropped) / 3
    sides = np.unique([min(placement.shown) for placement in cropped if max(placement.shown) < 1333])
    assert sides.tolist() == list(range(480, 801, 32))


def test_heights_and_widths_of_crops_are_drawn_from_their_range_each_for_itself() -> None:
    crop = crop_of(PUBLISHED, first_short_sides=(400,))
    drawn = [crop.draw((480, 640), seed) for seed in SEEDS]
    windows = np.array([placement.window for placement in drawn if placement.first == (400, 533)])
    top, left, height, width = windows.T
    assert (height.min(), height.max(), width.min(), width.max()) == (384, 400, 384, 533)
    assert width.mean() == pytest.approx((384 + 533) / 2, abs=5)
    assert abs(np.corrcoef(height, width)[0, 1]) < 0.1
    assert (top.min(), (top + height).max(), left.min(), (left + width).max()) == (0, 400, 0, 533)
    assert (left / np.maximum(533 - width, 1)).mean() == pytest.approx(0.5, abs=0.04)


def test_an_image_smaller_than_the_crop_is_cropped_to_itself() -> None:
    crop = crop_of(PUBLISHED, first_short_sides=(300,))
    windows = {crop.draw((300, 350), seed).window for seed in SEEDS[:50]}
    assert windows == {(0, 0, 300, 350)}


def test_an_image_is_flipped_resized_cropped_and_resized_one_after_the_other() -> None:
    images, view, placements = augmented(with_view=True)
    assert view is images  # colours are as they were
    assert {placement.is_flipped for placement in placements} == {True, False}
    for i, (image, placement) in enumerate(zip(images, placements, strict=True)):
        height, width = placement.shown
        assert np.array_equal(image[:, :height, :width], stepwise(placement, IMAGES[i % 2]))


def test_a_canvas_is_the_largest_image_of_its_batch_rounded_up_to_a_multiple_of_32() -> None:
    for start in range(0, 40, 4):
        augment = SceneAugmentation(SMALL, (1, 1), mean=MEAN)
        images, _, placements = augment([IMAGES[0]] * 4, SEEDS[start : start + 4], [Objects(np.zeros((0, 4)))] * 4)
        largest = np.max([placement.shown for placement in placements], axis=0)
        assert images.shape[2:] == tuple(-(-largest // 32) * 32)
        assert {placement.size for placement in placements} == {images.shape[2:]}


def test_what_happens_to_a_sample_does_not_depend_on_its_batch() -> None:
    augment = SceneAugmentation(SMALL, (1, 1), mean=MEAN)
    images, _, placements = augmented()
    for i in (0, 5, 12):
        (alone,), _, (placement,) = augment([IMAGES[i % 2]], [SEEDS[i]], [Objects(np.zeros((0, 4)))])
        height, width = placement.shown
        assert placement._replace(size=placements[i].size) == placements[i]
        assert np.array_equal(alone[:, :height, :width], images[i][:, :height, :width])


def test_padding_lies_to_the_right_and_below_and_is_0_after_normalising() -> None:
    images, _, placements = augmented(8)
    shown = [placement.shown for placement in placements]
    batch = Batch(torch.from_numpy(images), [], SEEDS[:8], list("abcdefgh"), shown=shown)
    normalisation = Normalisation(MEAN, (0.229, 0.224, 0.225))
    about: Any = dict(device="cpu", normalisation=normalisation, outputs=2)
    inputs = prepare(Segmentation(), batch, SMALL, (), **about).images
    for image, (height, width) in zip(inputs, shown, strict=True):
        assert not image[:, height:].any()
        assert not image[:, :, width:].any()
        assert (image[:, :height, :width] != 0).all()


def test_photometric_distortion_follows() -> None:
    plain, _, _ = augmented(6)
    images, view, _ = augmented(6, replace(SMALL, photometric=True), with_view=True)
    assert np.array_equal(view, plain)
    pairs = zip(images, SEEDS[:6], plain, strict=True)
    assert all(np.array_equal(image, Photometric.draw(seed)(same)) for image, seed, same in pairs)


PLACEMENTS = st.integers(0, 2**64 - 1).map(lambda seed: crop_of(SMALL).draw((24, 40), seed))


@settings(max_examples=80, deadline=None)
@given(placement=PLACEMENTS, box=st.tuples(*[st.integers(0, 20)] * 2, *[st.integers(1, 12)] * 2))
def test_a_box_and_a_mask_stay_around_what_they_were_drawn_around(
    placement: MultiscalePlacement, box: tuple[int, int, int, int]
) -> None:
    x, y, width, height = box
    marked = np.zeros((24, 40), bool)
    marked[y : y + height, x : x + width] = True
    ((x1, y1, x2, y2),) = placement.boxes(np.array([[x, y, x + width, min(y + height, 24)]], np.float64))
    (mask,) = placement.masks(marked[None])
    assert np.array_equal(mask, placement.map(marked, fill=0))
    rows, columns = np.nonzero(mask)
    if len(rows) == 0:
        assert x2 - x1 < 4 or y2 - y1 < 4  # less than a pixel of the image, or outside
        return
    found = np.array((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))
    assert np.abs(found - (x1, y1, x2, y2)).max() <= 3  # nearest pixels, twice


def test_masks_take_the_nearest_pixel_twice() -> None:
    placement = MultiscalePlacement((24, 40), True, (30, 50), Window(4, 7, 20, 25), (32, 40), (32, 64))
    labels = np.random.RandomState(0).rand(3, 24, 40) < 0.5
    placed = placement.masks(labels)
    assert (placed.shape, placed.dtype) == ((3, 32, 64), bool)
    assert not placed[:, :, 40:].any()
    for mask, own in zip(placed, labels, strict=True):
        cut = resize_map(own[:, ::-1], (30, 50))[4:24, 7:32]
        assert np.array_equal(mask[:, :40], resize_map(cut, (32, 40)))


def test_boxes_are_those_worked_by_hand() -> None:
    placement = MultiscalePlacement((10, 20), True, (20, 40), Window(4, 10, 8, 20), (16, 40), (32, 64))
    boxes = np.array([[2.0, 3.0, 6.0, 6.0], [12.0, 1.0, 20.0, 3.0], [0.0, 0.0, 20.0, 10.0], [0.0, 0.0, 1.0, 10.0]])
    # flipped: 14..18, 0..8, 0..20, 19..20; doubled and moved by the window; cut off at 20 x 8; doubled
    assert placement.boxes(boxes).tolist() == [[36, 4, 40, 16], [0, 0, 12, 4], [0, 0, 40, 16], [40, 0, 40, 16]]


@pytest.mark.parametrize(
    "placement",
    [
        Placement(2, 3, 16, 20, (32, 40), True),
        ScenePlacement((24, 40), (36, 60), Window(3, 4, 20, 30), (32, 32), True),
        MultiscalePlacement((24, 40), True, (30, 50), Window(4, 7, 20, 25), (32, 40), (32, 64)),
    ],
)
def test_masks_of_every_placement_are_its_maps_also_where_there_are_none(placement: Any) -> None:
    masks = np.random.RandomState(0).rand(2, 24, 40) < 0.5
    assert np.array_equal(placement.masks(masks), np.stack([placement.map(mask, 0) for mask in masks]))
    assert placement.masks(masks[:0]).shape == (0, *placement.size)


def test_an_image_of_one_pixel_is_no_trouble() -> None:
    placement = crop_of(PUBLISHED).draw((1, 1), SEEDS[1])
    image = np.zeros((3, *placement.size), np.uint8)
    placement.paste(np.full((3, 1, 1), 7, np.uint8), image)
    assert (image[:, : placement.shown[0], : placement.shown[1]] == 7).all()


def test_records_of_objects_take_the_first_window_of_a_scene() -> None:
    augment = SceneAugmentation(AugmentConfig(crop="scene"), (16, 16), mean=MEAN)
    _, _, placements = augment([IMAGES[0]] * 4, SEEDS[:4], [Objects(np.zeros((0, 4)))] * 4)
    free = SceneAugmentation(AugmentConfig(crop="scene", cat_max_ratio=1.0), (16, 16), mean=MEAN)
    assert placements == free([IMAGES[0]] * 4, SEEDS[:4], [None] * 4).placements


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"crop": "multiscale", "rand_augment": "rand-m9-mstd0.5-inc1"}, ("augment.rand_augment", "multiscale")),
        ({"crop": "multiscale", "crop_size": (64, 64)}, ("augment.crop_size", "short_sides")),
        ({"short_sides": ()}, ("augment.short_sides",)),
        ({"short_sides": (480, 1400)}, ("augment.short_sides", 1333)),
        ({"first_short_sides": (0,)}, ("augment.first_short_sides",)),
        ({"crop_range": (600, 384)}, ("augment.crop_range", 600)),
    ],
)
def test_settings_that_are_not_possible_are_refused(options: dict[str, Any], named: tuple[object, ...]) -> None:
    with refused(ValueError, *named):
        AugmentConfig(**options)


def test_classifiers_are_not_trained_at_many_sizes() -> None:
    with refused(ConfigError, "multiscale", "classification"):
        check_combination(TrainConfig(augment=PUBLISHED))
