from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from torch import Tensor
from torch.nn import functional as F

from robustvit.corruptions.patches import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    PatchNoise,
    clamp_to_pixels,
    keep_highest,
    noise_of,
    occlude_patches,
    occluded_count,
    paste,
    patch_grid,
)

MEAN, STD = IMAGENET_MEAN, IMAGENET_STD
WHITE = torch.full((4, 3, 224, 224), 255, dtype=torch.uint8)


def changed_patches(before: Tensor, after: Tensor, patch: int = 16) -> Tensor:
    """bool [B, h, w]"""
    return F.max_pool2d((before != after).any(1).float(), patch) > 0


def test_a_tenth_of_196_patches_are_20() -> None:
    assert occluded_count(0.1, 196) == 20
    assert occluded_count(0.1, 64) == 7
    assert occluded_count(0.1, 16) == 2


@given(share=st.floats(0.01, 0.99), N=st.integers(2, 400))
@settings(max_examples=50, deadline=None)
def test_the_count_is_that_of_scores_up_to_their_quantile(share: float, N: int) -> None:
    place = share * (N - 1)
    if abs(place - round(place)) > 1e-6:  # on a score itself, rounding decides
        scores = torch.arange(N, dtype=torch.float64)
        assert occluded_count(share, N) == int((scores <= scores.quantile(share)).sum())


def test_exactly_as_many_patches_change_and_nothing_else() -> None:
    changed = changed_patches(WHITE, occlude_patches(WHITE, noise="unit_normalised"))
    assert changed.flatten(1).sum(1).tolist() == [20] * 4


def test_every_patch_is_as_likely() -> None:
    white = WHITE.new_full((4000, 3, 8, 10), 255)
    changed = changed_patches(white, occlude_patches(white, share=0.3, patch=2, noise="zero"), 2)
    counts = changed.double().mean(0)
    p = occluded_count(0.3, 20) / 20
    assert (counts - p).abs().max() < 5 * math.sqrt(p * (1 - p) / 4000)


def test_default_noise_is_uniform_after_normalising() -> None:
    covered = occlude_patches(WHITE[:1] * 0, share=0.99)[0].flatten(1).double()
    covered = covered[:, covered.sum(0) > 0]
    mean, std = torch.tensor([0.485, 0.456, 0.406]).double(), torch.tensor([0.229, 0.224, 0.225]).double()
    unit = ((covered + 0.5) / 255 - mean[:, None]) / std[:, None]
    assert unit.min() > -0.01
    assert unit.max() < 1.01
    assert torch.allclose(unit.mean(1), torch.full((3,), 0.5).double(), atol=0.01)
    assert torch.allclose(unit.std(1), torch.full((3,), 12**-0.5).double(), atol=0.01)


def test_pixel_noise_takes_all_levels() -> None:
    covered = occlude_patches(WHITE[:1] * 0, share=0.99, noise="pixel_uniform")
    assert len(covered.unique()) == 256
    assert abs(covered.double().mean() - 127.5 * occluded_count(0.99, 196) / 196) < 1


def test_dropped_patches_have_the_mean_colour() -> None:
    covered = occlude_patches(WHITE * 0, noise="mean", share=0.5)
    assert covered.amax((0, 2, 3)).tolist() == [124, 116, 104]


@given(share=st.floats(0, 0.9), patch=st.sampled_from([4, 8]), noise=st.sampled_from(get_args(PatchNoise)))
@settings(max_examples=20, deadline=None)
def test_bytes_and_normalised_images_are_covered_by_the_same_noise(share: float, patch: int, noise: PatchNoise) -> None:
    images = torch.randint(0, 256, (2, 3, 16, 24), dtype=torch.uint8)
    u, grid = torch.rand(2, 3, 16, 24), patch_grid((16, 24), patch)
    keep = keep_highest(torch.rand(2, grid[0] * grid[1]), share)
    in_bytes = paste(images, keep, noise_of(u, noise, MEAN, STD, as_bytes=True), grid)
    scale, shift = (torch.tensor(values)[:, None, None] for values in (STD, MEAN))
    normalised = (images / 255 - shift) / scale
    covered = clamp_to_pixels(paste(normalised, keep, noise_of(u, noise, MEAN, STD), grid), MEAN, STD)
    assert (255 * (covered * scale + shift) - in_bytes).abs().max() < 1 + 1e-3  # bytes are rounded down
    assert (in_bytes != images).any(1).float().mean() <= occluded_count(share, keep.shape[1]) / keep.shape[1]


def test_the_old_name_of_dropped_patches_is_taken() -> None:
    assert torch.equal(occlude_patches(WHITE, noise="mean"), occlude_patches(WHITE, noise="zero"))


@given(batch=st.permutations(range(4)), patch=st.sampled_from([8, 16, 32]), share=st.floats(0, 0.9))
@settings(max_examples=15, deadline=None)
def test_a_image_is_occluded_alike_in_any_batch(batch: list[int], patch: int, share: float) -> None:
    images = torch.randint(0, 256, (4, 3, 64, 96), dtype=torch.uint8)
    before = images.clone()
    together = occlude_patches(images[batch], patch=patch, share=share, sample_ids=batch)
    for row, i in zip(together, batch, strict=True):
        assert torch.equal(row, occlude_patches(images[i : i + 1], patch=patch, share=share, sample_ids=[i])[0])
    assert torch.equal(images, before)


def test_no_share_changes_nothing_in_new_memory() -> None:
    same = occlude_patches(WHITE, share=0)
    assert torch.equal(same, WHITE)
    assert same.data_ptr() != WHITE.data_ptr()


def test_another_seed_occludes_others() -> None:
    first, second = (changed_patches(WHITE, occlude_patches(WHITE, seed=seed)) for seed in (0, 1))
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (dict(share=1.0), "1.0"),
        (dict(share=-0.1), "-0.1"),
        (dict(patch=15), "15"),
        (dict(noise="salt"), "unit_normalised"),
        (dict(sample_ids=[1]), "sample_ids"),
    ],
)
def test_impossible_options_are_named(options: dict, named: str) -> None:
    with refused(ValueError, named):
        occlude_patches(WHITE, **options)


def test_normalised_images_are_refused() -> None:
    with refused(TypeError, "uint8"):
        occlude_patches(torch.zeros(1, 3, 32, 32))
