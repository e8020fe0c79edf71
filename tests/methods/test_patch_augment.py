"""RVT's patch-wise augmentation changes single patches, each its own way, and trains the network on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from families import FAMILIES, context_of, pictures, small_network
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from steps import MEAN, STD, make_step
from torch import Tensor

from robustvit.methods.patch_augment import PatchAugmentConfig, augment_patches

NOTHING = PatchAugmentConfig(crop_prob=0, noise_prob=0, flip_prob=0)


def augment(x: Tensor, config: PatchAugmentConfig, seeds: Any = None) -> Tensor:
    return augment_patches(x, range(len(x)) if seeds is None else seeds, config, MEAN, STD)


def patches_of(x: Tensor, side: int) -> Tensor:
    """[B, 3, H, W] -> [B N, 3, side, side]."""
    return x.unfold(2, side, side).unfold(3, side, side).permute(0, 2, 3, 1, 4, 5).flatten(0, 2)


def test_without_a_chance_nothing_changes_but_the_range() -> None:
    x = pictures()
    assert torch.equal(augment(x, NOTHING), x)
    assert augment(3 * x, NOTHING).abs().max() == 2  # (1 - 0.5) / 0.25


def test_a_flip_mirrors_every_patch_in_its_place() -> None:
    x = pictures()
    found = augment(x, replace(NOTHING, flip_prob=1, patch_size=8))
    assert torch.equal(patches_of(found, 8), patches_of(x, 8).flip(-1))


@pytest.mark.parametrize("side", [4, 8, 16])
def test_as_many_patches_change_as_the_probability_says(side: int) -> None:
    x = pictures(64) * 0.5
    for name in ("crop_prob", "noise_prob", "flip_prob"):
        found = augment(x, replace(NOTHING, patch_size=side, **{name: 0.25}))
        changed = (patches_of(found, side) != patches_of(x, side)).flatten(1).any(1).float()
        assert changed.mean().item() == pytest.approx(0.25, abs=4 * (0.19 / len(changed)) ** 0.5)


def test_noise_has_its_strength_and_differs_from_patch_to_patch() -> None:
    x = torch.zeros(16, 3, 32, 32)
    noise = patches_of(augment(x, replace(NOTHING, noise_prob=1, noise_std=0.05)), 16)
    assert noise.std().item() == pytest.approx(0.05, rel=0.02)
    assert abs(noise.mean().item()) < 1e-3
    assert not torch.equal(noise[0], noise[1])


def test_a_crop_enlarges_a_square_of_85_to_100_percent_of_the_patch() -> None:
    ramp = (torch.arange(16.0) / 16 - 0.5).expand(8, 3, 16, 16).contiguous()  # grows to the right by 1 / 16 a pixel
    found = augment(ramp, replace(NOTHING, crop_prob=1))
    slopes = (found[..., 10] - found[..., 5])[:, 0] / 5 * 16  # side of the crop over 16
    assert ((slopes**2 >= 0.85 - 1e-4) & (slopes**2 <= 1 + 1e-4)).all()
    assert slopes.std() > 0.005
    assert torch.equal(found[..., 0, :], found[..., 9, :])  # rows stay equal: the ratio is 1 and nothing turns
    assert found.min() >= ramp.min()
    assert found.max() <= ramp.max()
    whole = augment(pictures(), replace(NOTHING, crop_prob=1, crop_scale=1.0))
    torch.testing.assert_close(whole, pictures(), rtol=0, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([4, 8, 16]), st.permutations(range(4)))
def test_what_happens_to_a_image_depends_on_its_seed_alone(seed: int, side: int, order: list[int]) -> None:
    config = PatchAugmentConfig(patch_size=side, crop_prob=0.5, noise_prob=0.5, flip_prob=0.5)
    x, seeds = pictures(4, seed), torch.arange(seed, seed + 4)
    whole = augment(x, config, seeds.tolist())
    torch.testing.assert_close(augment(x[order], config, seeds[order].tolist()), whole[order], rtol=0, atol=1e-6)
    assert whole.abs().max() <= 2
    assert whole.shape == x.shape


@pytest.mark.parametrize("family", FAMILIES)
def test_every_backbone_learns_from_augmented_patches(family: str) -> None:
    network = small_network(family)
    method = PatchAugmentConfig(weight=0.5, flip_prob=0.5).build(context_of(network))
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    losses = []
    for _ in range(6):
        step = make_step(network, pictures(), method)
        loss = method.terms(step)["patch_augment"]
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in network.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1
    assert method.state_dict() == {}


def test_the_term_is_the_weighted_cross_entropy_of_the_augmented_images() -> None:
    network = small_network("vit")
    method = PatchAugmentConfig(weight=0.5, flip_prob=1.0, crop_prob=0, noise_prob=0).build(context_of(network))
    step = make_step(network, pictures(), method)
    flipped = patches_of(step.images, 16).flip(-1).view(4, 2, 2, 3, 16, 16).permute(0, 3, 1, 4, 2, 5).reshape(4, 3, 32, 32)
    expected = 0.5 * F.cross_entropy(network(flipped), step.targets)
    torch.testing.assert_close(method.terms(step)["patch_augment"], expected)


def test_wrong_requests_are_explained() -> None:
    with refused(ValueError, "crop_prob=2", "0 to 1"):
        PatchAugmentConfig(crop_prob=2)
    with refused(ValueError, "crop_scale=0"):
        PatchAugmentConfig(crop_scale=0)
    with refused(ValueError, "5 pixels", "32x32"):
        PatchAugmentConfig(patch_size=5).build(context_of(small_network("vit")))
    with refused(ValueError, "16 pixels", "20x32"):
        augment(torch.zeros(1, 3, 20, 32), NOTHING)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_precision_does_not_change_the_images(dtype: torch.dtype) -> None:
    images = pictures()
    given = (images, range(4), PatchAugmentConfig(patch_size=4, crop_prob=0.5), MEAN, STD)
    expected = augment_patches(*given)
    with torch.autocast("cpu", dtype):
        assert torch.equal(augment_patches(*given), expected)
