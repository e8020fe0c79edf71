"""Mixup and CutMix are timm's, drawn once an update."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from timm.data.mixup import Mixup

from robustvit.tasks.base import Mix
from robustvit.tasks.classification import Classification
from robustvit.training.augment.mixing import apply_mix, draw_mix, is_mixing
from robustvit.training.config import AugmentConfig
from robustvit.training.sampling import shard_offsets

BOTH = AugmentConfig(mixup=0.8, cutmix=1.0)


def draws(augment: AugmentConfig, count: int = 400) -> list[Mix | None]:
    return [draw_mix(augment, 0, update, 32, 48) for update in range(count)]


def test_a_draw_depends_on_seed_and_update_and_leaves_the_shared_generators_alone() -> None:
    np.random.seed(5)
    torch.manual_seed(5)
    first = draw_mix(BOTH, 0, 3, 32, 32)
    assert np.random.rand() == np.random.RandomState(5).rand()
    assert draw_mix(BOTH, 0, 3, 32, 32) == first
    assert len({draw_mix(BOTH, seed, update, 32, 32) for seed in (0, 1) for update in (3, 4)}) == 4


def test_both_kinds_are_drawn_with_the_switching_probability() -> None:
    found = draws(AugmentConfig(mixup=0.8, cutmix=1.0, mix_switch_prob=0.25))
    share = np.mean([mix is not None and mix.box is not None for mix in found])
    assert 0.17 < share < 0.33


@pytest.mark.parametrize(("augment", "has_box"), [(AugmentConfig(mixup=0.8), False), (AugmentConfig(cutmix=1.0), True)])
def test_a_kind_alone_is_always_drawn(augment: AugmentConfig, has_box: bool) -> None:
    assert {mix is not None and mix.box is not None for mix in draws(augment, 50)} == {has_box}


def test_batches_are_left_unmixed_with_the_remaining_probability() -> None:
    share = np.mean([mix is None for mix in draws(AugmentConfig(mixup=0.8, mix_prob=0.5))])
    assert 0.4 < share < 0.6
    assert not is_mixing(AugmentConfig())
    assert draw_mix(AugmentConfig(), 0, 0, 32, 32) is None


def test_the_share_is_corrected_to_the_area_of_the_box() -> None:
    for mix in draws(AugmentConfig(cutmix=1.0), 50):
        assert mix is not None
        assert mix.box is not None
        top, bottom, left, right = mix.box
        assert 0 <= top <= bottom <= 32
        assert 0 <= left <= right <= 48
        assert mix.lam == pytest.approx(1 - (bottom - top) * (right - left) / (32 * 48))


def test_images_and_targets_are_mixed_as_timm_mixes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8), torch.tensor([0, 1, 2, 0, 1, 2])
    timm_mixup = Mixup(0.8, 0.0, label_smoothing=0.1, num_classes=3)
    monkeypatch.setattr(timm_mixup, "_params_per_batch", lambda: (0.7, False))
    theirs, targets = timm_mixup(images.float(), labels)
    mix = Mix(0.7)
    assert torch.equal(apply_mix(images, mix).float(), theirs.round())
    torch.testing.assert_close(apply_mix(images.float(), mix), theirs)
    torch.testing.assert_close(Classification().mix(labels, mix, outputs=3, smoothing=0.1), targets)


def test_a_box_is_pasted_from_the_partner() -> None:
    images = torch.arange(4, dtype=torch.uint8)[:, None, None, None].expand(4, 3, 8, 8)
    mixed = apply_mix(images, Mix(1 - 12 / 64, (1, 4, 2, 6)))
    assert mixed[0].unique(return_counts=True)[1].tolist() == [3 * 52, 3 * 12]
    assert (mixed[0, :, 1:4, 2:6] == 3).all()
    assert (images[0] == 0).all()


def test_unmixed_targets_are_smoothed_by_the_same_rule() -> None:
    expected = torch.tensor([[0.05, 0.05, 0.05, 0.85], [0.85, 0.05, 0.05, 0.05]])
    torch.testing.assert_close(Classification().mix(torch.tensor([3, 0]), None, outputs=4, smoothing=0.2), expected)


@settings(max_examples=30, deadline=None)
@given(pairs=st.integers(1, 3), shards=st.integers(1, 4), update=st.integers(0, 50))
def test_mixing_the_shards_is_mixing_the_global_batch(pairs: int, shards: int, update: int) -> None:
    batch = 2 * pairs * shards
    images = torch.randint(0, 256, (batch, 3, 8, 8), dtype=torch.uint8)
    labels = torch.arange(batch) % 5
    mix = draw_mix(BOTH, 1, update, 8, 8)
    whole, targets = apply_mix(images, mix), Classification().mix(labels, mix, outputs=5, smoothing=0.1)
    for shard in range(shards):
        own = torch.from_numpy(shard_offsets(batch, shard, shards, mixing=True))
        assert torch.equal(apply_mix(images[own], mix), whole[own])
        torch.testing.assert_close(Classification().mix(labels[own], mix, outputs=5, smoothing=0.1), targets[own])


def test_an_odd_batch_cannot_be_mixed() -> None:
    with refused(ValueError, 3):
        apply_mix(torch.zeros(3, 3, 8, 8), Mix(0.5))
