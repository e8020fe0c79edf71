"""Mixup and CutMix are timm's, drawn once for each group of images of an update."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from timm.data.mixup import Mixup

from robustvit.tasks.classification import Classification
from robustvit.tasks.mixing import Mix, MixedPart, mix_parts
from robustvit.training.augment.mixing import apply_mix, count_groups, draw_mix, draw_mixes, is_mixing
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
@given(pairs=st.integers(1, 3), shards=st.integers(1, 4), groups=st.integers(1, 4), update=st.integers(0, 50))
def test_mixing_the_shards_is_mixing_the_groups_of_the_global_batch(pairs: int, shards: int, groups: int, update: int) -> None:
    batch = 2 * pairs * shards * groups
    images = torch.randint(0, 256, (batch, 3, 8, 8), dtype=torch.uint8)
    labels = torch.arange(batch) % 5
    mixed_targets = partial(Classification().mix, outputs=5, smoothing=0.1)
    whole, targets = images.clone(), torch.zeros(batch, 5)
    for group in range(groups):  # as `groups` GPUs would, each with its own draw
        mix, every = draw_mix(BOTH, 1, update, 8, 8, group=group), slice(group, None, groups)
        whole[every], targets[every] = apply_mix(images[every], mix), mixed_targets(labels[every], mix)
    for shard in range(shards):
        own = torch.from_numpy(shard_offsets(batch, shard, shards, groups=groups))
        parts = draw_mixes(BOTH, 1, update, (own % groups).tolist(), 8, 8)
        assert sum(part.count for part in parts) == len(own)
        assert torch.equal(mix_parts(parts, images[own], apply_mix), whole[own])
        assert torch.equal(mix_parts(parts, labels[own], mixed_targets), targets[own])


def test_every_group_has_a_share_and_a_box_of_its_own() -> None:
    parts = draw_mixes(AugmentConfig(cutmix=1.0), 0, 3, [0] * 4 + [1] * 2 + [5] * 6, 32, 48)
    assert [part.count for part in parts] == [4, 2, 6]
    mixes = {part.mix for part in parts}
    assert len({mix and mix.lam for mix in mixes}) == len({mix and mix.box for mix in mixes}) == 3
    assert parts[0].mix == draw_mix(AugmentConfig(cutmix=1.0), 0, 3, 32, 48)  # the first group has the draw of a whole batch
    assert draw_mixes(AugmentConfig(), 0, 3, [], 32, 48) == ()


def test_groups_are_left_unmixed_one_by_one() -> None:
    parts = draw_mixes(AugmentConfig(mixup=0.8, mix_prob=0.5), 0, 0, list(range(200)), 8, 8)
    assert 0.4 < np.mean([part.mix is None for part in parts]) < 0.6


def test_each_part_is_mixed_among_itself_and_an_unmixed_one_stays() -> None:
    images = torch.tensor([0.0, 1, 2, 10, 20, 30, 40])[:, None, None, None].expand(7, 3, 4, 4)
    parts = (MixedPart(2, Mix(0.75)), MixedPart(1, None), MixedPart(4, Mix(0.5, (0, 4, 0, 2))))
    mixed = mix_parts(parts, images, apply_mix)
    assert mixed[:, 0, 0, 0].tolist() == [0.25, 0.75, 2, 40, 30, 20, 10]
    assert mixed[:, 0, 0, 3].tolist() == [0.25, 0.75, 2, 10, 20, 30, 40]
    labels = {"image": torch.tensor([0, 1, 0, 0, 0, 1, 1]), "rest": [torch.arange(7)]}

    def keep(targets: Any, mix: Mix | None) -> Any:
        return {**targets, "lam": torch.full_like(targets["image"], 1 if mix is None else mix.lam, dtype=torch.float32)}

    made = mix_parts(parts, labels, keep)
    assert made["lam"].tolist() == [0.75, 0.75, 1, 0.5, 0.5, 0.5, 0.5]
    assert torch.equal(made["image"], labels["image"])  # type: ignore[arg-type]
    assert torch.equal(made["rest"][0], torch.arange(7))


@pytest.mark.parametrize(("group", "batch", "groups"), [(0, 96, 1), (96, 96, 1), (128, 8, 1), (32, 96, 3), (2, 96, 48)])
def test_a_batch_has_as_many_groups_as_fit(group: int, batch: int, groups: int) -> None:
    assert count_groups(AugmentConfig(mixup=0.8, mix_group=group), batch) == groups
    assert count_groups(AugmentConfig(mix_group=group), batch) == 0


def test_groups_that_do_not_divide_the_batch_are_refused_with_the_nearest_that_do() -> None:
    with refused(ValueError, "augment.mix_group=128", "loop.batch_size=192", "give 96,"):
        count_groups(AugmentConfig(mixup=0.8, mix_group=128), 192)
    with refused(ValueError, "augment.mix_group=4", "loop.batch_size=9", "give 0"):
        count_groups(AugmentConfig(mixup=0.8, mix_group=4), 9)


@pytest.mark.parametrize("group", [-2, 7])
def test_a_group_that_cannot_be_paired_is_refused(group: int) -> None:
    with refused(ValueError, f"augment.mix_group={group}", "even"):
        AugmentConfig(mix_group=group)


def test_an_odd_batch_cannot_be_mixed() -> None:
    with refused(ValueError, 3):
        apply_mix(torch.zeros(3, 3, 8, 8), Mix(0.5))
