"""Patches covered at random and by a network: how many, where, and that the network finds those that hurt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from torch import Tensor, nn

import robustvit as rv
from robustvit.attacks import PatchSettings, PixelNetwork, cover_adversarial, cover_random, fit_scorer, load_scorer
from robustvit.methods.patch_corruption import PatchScorer
from robustvit.runtime.weights import CheckpointError

LABELS = torch.zeros(4, dtype=torch.long)


def network() -> PixelNetwork:
    torch.manual_seed(0)
    return PixelNetwork(rv.create_model("vit_nano", num_classes=10), (0.5,) * 3, (0.25,) * 3)


def pictures(count: int = 4) -> Tensor:
    return 0.4 * torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(1))  # darker than what covers


def changed_patches(attacked: Tensor, images: Tensor) -> Tensor:
    """bool [B, 8, 8]."""
    return torch.nn.functional.max_pool2d((attacked != images).any(1, keepdim=True).float(), 4)[:, 0] > 0


@settings(deadline=None, max_examples=15)
@given(rho=st.floats(0, 0.99), seed=st.integers(0, 100))
def test_as_many_patches_as_rho_says_are_covered_and_the_rest_is_untouched(rho: float, seed: int) -> None:
    images = pictures()
    covered = cover_random(network(), images, LABELS, PatchSettings(rho), seed=seed)
    expected = int(rho * 63 + 1e-9) + 1 if rho else 0
    assert changed_patches(covered, images).flatten(1).sum(1).tolist() == [expected] * 4
    assert covered.min() >= 0
    assert covered.max() <= 1


def test_the_noise_is_uniform_in_normalised_space_and_other_covers_can_be_chosen() -> None:
    images = pictures()

    def cover(noise: Any) -> Tensor:
        covered = cover_random(network(), images, LABELS, PatchSettings(0.5, noise=noise))
        return covered[(covered != images).expand_as(images)]

    unit = cover("unit_normalised")  # mean + std U[0, 1)
    assert 0.5 <= unit.min() < 0.52
    assert 0.73 < unit.max() <= 0.75
    assert cover("zero").unique().tolist() == [0.5]
    assert cover("pixel_uniform").max() > 0.95


def test_a_image_has_its_patches_whatever_the_batch() -> None:
    images, model = pictures(), network()
    whole = cover_random(model, images, LABELS, sample_ids=list("abcd"))
    alone = cover_random(model, images[2:3], LABELS[:1], sample_ids=["c"])
    assert torch.equal(whole[2:3], alone)


def test_the_lowest_scores_are_covered() -> None:
    images, scorer = 0.6 + pictures(), PatchScorer((32, 32), 4)  # above the mean, where GELU rises
    with torch.no_grad():
        scorer.conv.weight.fill_(1.0)
        scorer.fc.weight.copy_(torch.eye(64))  # the score is the brightness of the patch
    covered = cover_adversarial(network(), images, LABELS, scorer, PatchSettings(0.1))
    brightness = torch.nn.functional.avg_pool2d(images.mean(1, keepdim=True), 4).flatten(1)
    darkest = brightness.topk(7, largest=False).indices
    changed = changed_patches(covered, images).flatten(1)
    assert all(set(row.nonzero()[:, 0].tolist()) == set(dark.tolist()) for row, dark in zip(changed, darkest, strict=True))


class LeftEye(nn.Module):
    """A network that does not see the right half of an image."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(torch.cat([x[..., :16], torch.zeros_like(x[..., 16:])], dim=-1))


def test_a_fitted_network_finds_the_patches_that_matter_and_leaves_the_classifier_alone() -> None:
    torch.manual_seed(0)
    small = rv.create_model("vit_nano", num_classes=10, embed_dim=32, depth=2, num_heads=2)
    model = PixelNetwork(LeftEye(small), (0.5,) * 3, (0.25,) * 3)
    images, labels = torch.rand(32, 3, 32, 32), torch.zeros(32, dtype=torch.long)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    scorer = fit_scorer(model, [images] * 100, PatchSettings(0.1), steps=100, lr=1e-2)
    covered = changed_patches(cover_adversarial(model, images, labels, scorer), images)
    assert covered.sum() == 32 * 7
    assert covered[:, :, :4].sum() >= 0.9 * covered.sum()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with refused(ValueError, "batches", 2):
        fit_scorer(model, [pictures()] * 2, steps=3)


def test_a_network_without_tokens_has_patches_of_16_pixels() -> None:
    model = PixelNetwork(timm.create_model("resnet10t", num_classes=10))
    images = pictures()
    covered = cover_random(model, images, LABELS, PatchSettings(0.5))
    assert (covered != images).any(1).flatten(1).sum(1).tolist() == [2 * 256] * 4


def test_the_network_of_a_run_with_afat_is_found_again(tmp_path: Path) -> None:
    tiny = ["data.train=scenes:16", "data.val=", "loop.batch_size=8", "schedule.epochs=1", "loop.device=cpu"]
    model = ["model.name=vit_nano", "model.options={embed_dim: 32, depth: 2, num_heads: 2}"]
    rv.train(rv.load_config(None, [*tiny, *model, "methods.afat={}"]), tmp_path / "afat")
    rv.train(rv.load_config(None, [*tiny, *model]), tmp_path / "plain")
    scorer = load_scorer(tmp_path / "afat")
    checkpoint = max((tmp_path / "afat" / "checkpoints").iterdir())
    assert torch.equal(scorer.fc.weight, load_scorer(checkpoint).fc.weight)
    cover_adversarial(network(), pictures(), LABELS, scorer)
    with pytest.raises(CheckpointError, match="without afat"):
        load_scorer(tmp_path / "plain")
    with pytest.raises(CheckpointError, match="no checkpoints in"):
        load_scorer(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no"):
        load_scorer(tmp_path / "nowhere")
