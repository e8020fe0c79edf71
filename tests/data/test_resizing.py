"""Images and label maps are resized as the published segmenters resize them, whole or a window of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from robustvit.data.resizing import Window, fitted_size, resize_image, resize_map

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "augmentation.json").read_text())
RAMP = (10 * np.arange(8)[:, None] + 3 * np.arange(12)).astype(np.uint8)
IMAGE = np.random.RandomState(0).randint(0, 256, (3, 40, 56)).astype(np.uint8)
SIDES = st.tuples(st.integers(1, 120), st.integers(1, 120))


def sides(text: str) -> tuple[int, int]:
    width, height = text.split("x")
    return int(height), int(width)


@pytest.mark.parametrize("limits", [(2048, 1024), (1333, 800)])
def test_fitted_sizes_are_the_published_ones(limits: tuple[int, int]) -> None:
    for size, fitted in REFERENCE["resize"][f"test_{limits[0]}x{limits[1]}"].items():
        assert fitted_size(sides(size), limits) == tuple(fitted[::-1])


@pytest.mark.parametrize("size", [(5, 9), (13, 17)])
def test_resampling_agrees_with_the_published_values(size: tuple[int, int]) -> None:
    """All values of this image lie half-way between two levels: a level of difference is allowed."""
    name = f"to_{size[0]}x{size[1]}"
    assert resize_map(RAMP, size).tolist() == REFERENCE["resample"][f"label_nearest_{name}"]
    wanted = np.array(REFERENCE["resample"][f"image_bilinear_{name}"])
    assert np.abs(resize_image(RAMP[None], size)[0].astype(int) - wanted).max() <= 1


@settings(max_examples=40, deadline=None)
@given(size=SIDES)
def test_images_are_those_of_torch_without_anti_aliasing(size: tuple[int, int]) -> None:
    whole = F.interpolate(torch.from_numpy(IMAGE)[None].float(), size, mode="bilinear", align_corners=False)[0]
    difference = np.abs(resize_image(IMAGE, size) - whole.numpy())
    assert difference.max() <= 0.5 + 1e-3  # what rounding does


@settings(max_examples=60, deadline=None)
@given(size=SIDES, share=st.tuples(*[st.floats(0, 1)] * 4))
def test_a_window_is_what_one_would_cut_from_the_whole(size: tuple[int, int], share: tuple[float, ...]) -> None:
    height, width = (max(1, int(s * side)) for s, side in zip(share, size, strict=False))
    top, left = int(share[2] * (size[0] - height)), int(share[3] * (size[1] - width))
    window, part = Window(top, left, height, width), (slice(top, top + height), slice(left, left + width))
    assert np.array_equal(resize_image(IMAGE, size, window), resize_image(IMAGE, size)[:, *part])
    assert np.array_equal(resize_map(IMAGE[0], size, window), resize_map(IMAGE[0], size)[part])
    both = resize_map(IMAGE.transpose(1, 2, 0), size, window)
    assert np.array_equal(both[..., 0], resize_map(IMAGE[0], size)[part])


def test_the_same_size_leaves_everything_as_it_is() -> None:
    assert np.array_equal(resize_image(IMAGE, (40, 56)), IMAGE)
    assert not np.shares_memory(resize_image(IMAGE, (40, 56)), IMAGE)
    assert np.array_equal(resize_map(IMAGE[0], (40, 56)), IMAGE[0])


@given(size=st.tuples(st.integers(1, 5000), st.integers(1, 5000)), factor=st.floats(0.01, 4))
def test_fitted_sizes_fit_and_keep_the_ratio(size: tuple[int, int], factor: float) -> None:
    limits = max(1, int(2048 * factor)), max(1, int(1024 * factor))
    fitted = fitted_size(size, limits)
    assert max(fitted) <= max(1, limits[0])
    assert min(fitted) <= max(1, limits[1])
    scale = min(limits[0] / max(size), limits[1] / min(size))
    assert all(abs(new - side * scale) <= 0.5 + 1e-6 or new == 1 for new, side in zip(fitted, size, strict=True))
