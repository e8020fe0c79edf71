"""Random erasing: one box of noise a sample, from its seed."""

from __future__ import annotations

import random

import torch

from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.erasing import erase

SEEDS = [keyed_seed(0, i, "test") for i in range(300)]


def test_the_erased_share_of_images_and_pixels_is_timms() -> None:
    images = erase(torch.full((300, 3, 32, 32), 9.0), SEEDS, 0.4)
    erased = (images != 9).all(1)  # B H W
    areas = erased.flatten(1).float().mean(1)
    hit = areas[areas > 0]
    assert 0.3 < len(hit) / 300 < 0.5
    assert hit.min() > 0.01
    assert hit.max() < 0.36
    noise = images[(images != 9)]
    assert abs(noise.mean()) < 0.05
    assert abs(noise.std() - 1) < 0.05


def test_what_is_erased_is_one_box() -> None:
    for erased in (erase(torch.full((20, 3, 32, 32), 9.0), SEEDS[:20], 1.0) != 9).any(1):
        rows, columns = erased.any(1), erased.any(0)
        assert torch.equal(erased, rows[:, None] & columns[None])
        assert (rows.int().diff() != 0).sum() <= 2


def test_a_sample_is_erased_alike_in_any_batch() -> None:
    whole = erase(torch.zeros(8, 3, 16, 16), SEEDS[:8], 0.7)
    parts = [erase(torch.zeros(1, 3, 16, 16), [seed], 0.7) for seed in reversed(SEEDS[:8])]
    assert torch.equal(whole, torch.cat(parts).flip(0))


def test_the_shared_generators_are_left_alone() -> None:
    random.seed(4)
    torch.manual_seed(4)
    erase(torch.zeros(8, 3, 16, 16), SEEDS[:8], 1.0)
    assert random.random() == random.Random(4).random()
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(4)))


def test_nothing_is_erased_with_probability_zero() -> None:
    assert not erase(torch.zeros(4, 3, 16, 16), SEEDS[:4], 0.0).any()
