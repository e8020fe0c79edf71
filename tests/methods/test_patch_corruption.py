"""The patch corruption network of AFAT equals the reference: scores, choice, corrupted image, gradients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from torch import Tensor

from robustvit.methods.patch_corruption import PatchScorer, cover_patches, draw_noise, keep_mask, random_scores

CASE: dict[str, Any] = json.loads((Path(__file__).parents[1] / "reference" / "afat.json").read_text())["case1_mask_and_ste"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture
def case() -> tuple[PatchScorer, Tensor, Tensor, Tensor]:
    """(network, images, noise, G), drawn as the reference says."""
    rs = np.random.RandomState(1)

    def draw(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values.astype("float32"))

    x = draw(rs.standard_normal((2, 3, 8, 8)))
    scorer = PatchScorer((8, 8), 2)
    scorer.conv.weight.data = draw(0.5 * rs.standard_normal((1, 3, 2, 2)))
    scorer.fc.weight.data = draw(0.25 * rs.standard_normal((16, 16)))
    return scorer, x, draw(rs.random_sample((2, 3, 8, 8))), draw(rs.standard_normal((2, 3, 8, 8)))


def test_scores_and_choice_equal_the_reference(case: tuple[PatchScorer, Tensor, Tensor, Tensor]) -> None:
    scorer, x, _, _ = case
    scores = scorer(x)
    torch.testing.assert_close(scores, torch.tensor(CASE["scores"]), rtol=0, atol=1e-6)
    for rho in (0.1, 0.25, 0.5):
        covered = [(row == 0).nonzero().flatten().tolist() for row in keep_mask(scores, rho)]
        assert covered == CASE[f"rho={rho}"]["occluded_patch_indices"]
    assert keep_mask(scores, 0).all()


def test_corrupted_images_equal_the_reference(case: tuple[PatchScorer, Tensor, Tensor, Tensor]) -> None:
    scorer, x, noise, _ = case
    covered, expected = cover_patches(x, keep_mask(scorer(x), 0.25), noise, MEAN, STD), CASE["xhat_rho=0.25"]
    assert covered.sum().item() == pytest.approx(expected["sum"], abs=1e-4)
    torch.testing.assert_close(covered[0, 0, 0], torch.tensor(expected["row_b0_c0_y0"]), rtol=0, atol=1e-5)
    torch.testing.assert_close(covered[1, 2, 5], torch.tensor(expected["row_b1_c2_y5"]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 0.05, 100.0])
def test_gradients_pass_straight_through_and_are_clipped(
    case: tuple[PatchScorer, Tensor, Tensor, Tensor], scale: float
) -> None:
    scorer, x, noise, G = case
    (scale * (G * cover_patches(x, keep_mask(scorer(x), 0.25), noise, MEAN, STD)).sum()).backward()
    expected = CASE[f"ste_gradients_scale={scale}"]
    assert scorer.conv.weight.grad is not None
    assert scorer.fc.weight.grad is not None
    torch.testing.assert_close(scorer.conv.weight.grad, torch.tensor(expected["grad_conv"]), rtol=0, atol=1e-5)
    torch.testing.assert_close(scorer.fc.weight.grad[0], torch.tensor(expected["grad_fc_row0"]), rtol=0, atol=1e-5)


def test_without_a_clip_the_gradient_of_the_mask_is_that_of_the_scores() -> None:
    gradient = torch.tensor([[3.0, -0.5, -7.0, 1.0]])
    for clip, expected in ((0.0, gradient), (2.0, torch.tensor([[2.0, -0.5, -2.0, 1.0]]))):
        scores = torch.rand(1, 4, requires_grad=True)
        keep_mask(scores, 0.25, clip).backward(gradient)
        assert scores.grad is not None
        assert torch.equal(scores.grad, expected)


@given(st.integers(2, 40), st.floats(0.01, 0.9))
def test_as_many_patches_as_the_quantile_says_are_covered(patches: int, rho: float) -> None:
    scores = random_scores(range(3), patches, torch.empty(0))
    thresholds = scores.quantile(rho, dim=1, keepdim=True)
    assert torch.equal(keep_mask(scores, rho), (scores > thresholds).float()) or rho * (patches - 1) % 1 < 1e-5


@pytest.mark.parametrize(("patches", "covered"), [(196, 20), (64, 7), (16, 2)])
def test_a_tenth_is_as_many_patches_as_released(patches: int, covered: int) -> None:
    scores = random_scores(range(2), patches, torch.empty(0))
    assert (keep_mask(scores, 0.1) == 0).sum(1).tolist() == [covered] * 2


def test_the_network_at_224_pixels_is_as_large_as_released() -> None:
    assert sum(parameter.numel() for parameter in PatchScorer((224, 224), 16).parameters()) == 39184


def test_random_choice_and_noise_depend_on_the_seed_of_the_sample_alone() -> None:
    x = torch.zeros(3, 3, 8, 8)
    scores, noise = random_scores([7, 8, 9], 16, x), draw_noise(x, "unit_normalised", MEAN, STD, [7, 8, 9])
    assert torch.equal(random_scores([9, 7], 16, x), scores[[2, 0]])
    assert torch.equal(draw_noise(x[:2], "unit_normalised", MEAN, STD, [9, 7]), noise[[2, 0]])
    assert not torch.equal(scores[0], scores[1])
    assert not torch.equal(noise[0], noise[1])


def test_equal_scores_cover_no_more_than_the_share() -> None:
    assert (keep_mask(torch.zeros(2, 16), 0.25) == 0).sum(1).tolist() == [4, 4]


def test_noise_is_what_it_is_called() -> None:
    x = torch.zeros(2, 3, 64, 64)
    assert draw_noise(x, "zero", MEAN, STD, range(2)).abs().max() == 0
    unit = draw_noise(x, "unit_normalised", MEAN, STD, range(2))
    assert 0 <= unit.min() < 0.01
    assert 0.99 < unit.max() < 1
    normalised = draw_noise(x, "pixel_uniform", MEAN, STD, range(2))
    pixels = normalised * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
    assert -1e-6 <= pixels.min() < 0.01
    assert 0.99 < pixels.max() <= 1 + 1e-6


def test_sizes_that_do_not_fit_are_explained() -> None:
    with refused(ValueError, "4 pixels", "30x32"):
        PatchScorer((30, 32), 4)
    with pytest.raises(ValueError, match="32x32 pixels, got 32x64"):
        PatchScorer((32, 32), 4)(torch.zeros(1, 3, 32, 64))
    wide = PatchScorer((32, 64), 4)(torch.zeros(1, 3, 32, 64))
    assert wide.shape == (1, 128)
