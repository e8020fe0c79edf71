"""A placement moves an image, a map and boxes alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.augmentation import Augmentation
from robustvit.training.augment.placement import Placement
from robustvit.training.config import AugmentConfig

SEEDS = [keyed_seed(0, i, "placement") for i in range(32)]
PIXELS = np.random.RandomState(0).randint(0, 256, (16, 24, 3), np.uint8)


def test_a_map_follows_its_image_through_padded_crops_and_flips() -> None:
    augment = Augmentation(AugmentConfig(crop="padded"), (16, 24), seed=0, mean=(0.5, 0.5, 0.5))
    base, scaled = augment.base(PIXELS, "")
    images, _, placements = augment([base] * len(SEEDS), SEEDS)
    assert scaled is None
    assert {placement.is_flipped for placement in placements} == {True, False}
    for image, placement in zip(images, placements, strict=True):
        assert np.array_equal(placement.map(PIXELS, fill=128), image.transpose(1, 2, 0))


def test_a_map_follows_its_image_through_resized_crops() -> None:
    """Blocks of one colour: away from their edges, scaling leaves them as they are."""
    blocks = np.kron(np.arange(8).reshape(2, 4), np.ones((32, 32))).astype(np.uint8) * 30
    augment = Augmentation(AugmentConfig(crop="resized", interpolation="bilinear"), (64, 64), seed=0, mean=(0.5, 0.5, 0.5))
    images, _, placements = augment([np.stack([blocks] * 3, -1)] * len(SEEDS), SEEDS)
    for image, placement in zip(images, placements, strict=True):
        assert (placement.map(blocks, fill=255) == image[0]).mean() > 0.85


def test_a_base_of_another_size_says_how_it_was_scaled() -> None:
    augment = Augmentation(AugmentConfig(crop="none"), (8, 8), seed=0, mean=(0.5, 0.5, 0.5))
    base, placement = augment.base(PIXELS, "a")
    assert placement is not None
    assert placement[:5] == (0, 0, 16, 24, (8, 8))
    assert np.array_equal(np.asarray(placement.image(Image.fromarray(PIXELS))).transpose(2, 0, 1), base)


@settings(max_examples=40, deadline=None)
@given(
    top=st.integers(-4, 8),
    left=st.integers(-4, 8),
    scale=st.sampled_from([1, 2, 3]),
    is_flipped=st.booleans(),
    box=st.tuples(st.integers(0, 10), st.integers(0, 10), st.integers(1, 6), st.integers(1, 6)),
)
def test_a_box_stays_around_what_it_was_drawn_around(
    top: int, left: int, scale: int, is_flipped: bool, box: tuple[int, int, int, int]
) -> None:
    x, y, width, height = box
    marked = np.zeros((16, 16), np.uint8)
    marked[y : y + height, x : x + width] = 1
    placement = Placement(top, left, 12, 12, (12 * scale, 12 * scale), is_flipped)
    (found,) = placement.boxes(np.array([[x, y, x + width, y + height]], np.float32))
    rows, columns = np.nonzero(placement.map(marked, fill=0))
    if len(rows):
        assert found.tolist() == [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    else:
        assert (found[2] - found[0]) * (found[3] - found[1]) == 0


@pytest.mark.parametrize("is_flipped", [False, True])
def test_what_lies_beyond_the_image_is_filled(is_flipped: bool) -> None:
    placed = Placement(-2, 0, 4, 2, (4, 2), is_flipped).map(np.ones((4, 2), np.uint8), fill=255)
    assert placed.tolist() == [[255, 255], [255, 255], [1, 1], [1, 1]]
