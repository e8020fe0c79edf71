"""The order of an epoch depends on (seed, epoch) alone, and its shards keep mixing partners together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from robustvit.training.sampling import Sampling, epoch_order, shard_offsets


@given(length=st.integers(1, 60), seed=st.integers(0, 2**40), epoch=st.integers(0, 1000))
def test_an_epoch_has_every_image_once(length: int, seed: int, epoch: int) -> None:
    assert sorted(epoch_order(length, seed=seed, epoch=epoch)) == list(range(length))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [tuple(epoch_order(50, seed=seed, epoch=epoch)) for seed in (0, 1) for epoch in (0, 1)]
    assert len(set(orders)) == 4
    assert orders[0] == tuple(epoch_order(50, seed=0, epoch=0))


@given(length=st.integers(1, 60), repeats=st.integers(1, 4))
def test_repeated_augmentation_keeps_the_epoch_as_long_with_fewer_images(length: int, repeats: int) -> None:
    order = epoch_order(length, seed=3, epoch=1, repeats=repeats)
    assert len(order) == length
    assert len(set(order.tolist())) == -(-length // repeats)
    assert max(np.bincount(order)) <= repeats


def test_each_coming_of_a_image_has_a_number() -> None:
    sampling = Sampling(9, 9, seed=0, repeats=3)
    (shard,) = sampling.shards([0], shards=1, groups=0, start=0, stop=1)
    assert shard.repetitions == (0, 1, 2) * 3
    assert len(set(zip(shard.positions, shard.repetitions, strict=True))) == 9


@given(pairs=st.integers(1, 8), shards=st.integers(1, 6), groups=st.integers(0, 5))
def test_shards_are_a_partition_of_the_global_batch(pairs: int, shards: int, groups: int) -> None:
    batch = 2 * pairs * shards * max(1, groups)
    parts = [shard_offsets(batch, shard, shards, groups=groups) for shard in range(shards)]
    assert {len(part) for part in parts} == {batch // shards}
    assert sorted(np.concatenate(parts)) == list(range(batch))


@given(pairs=st.integers(1, 8), shards=st.integers(1, 6))
def test_a_reversed_shard_has_the_partners_of_the_global_batch(pairs: int, shards: int) -> None:
    batch = 2 * pairs * shards
    for shard in range(shards):
        own = shard_offsets(batch, shard, shards, groups=1)
        assert own[::-1].tolist() == (batch - 1 - own).tolist()


def test_groups_are_dealt_like_images_to_gpus_and_come_one_after_the_other() -> None:
    assert shard_offsets(12, 0, 1, groups=3).tolist() == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
    shards = [shard_offsets(12, shard, 3, groups=3).tolist() for shard in range(3)]
    assert shards == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]  # as many processes as groups: a group each
    assert [shard_offsets(12, shard, 2, groups=3).tolist() for shard in range(2)] == [[0, 9, 4, 7, 2, 11], [3, 6, 1, 10, 5, 8]]


@given(half=st.integers(1, 6), groups=st.integers(1, 5), shards=st.integers(1, 6))
def test_every_part_of_a_shard_reversed_has_the_partners_of_its_group(half: int, groups: int, shards: int) -> None:
    batch = 2 * half * groups * shards
    partner = {}
    for group in range(groups):
        whole = list(range(group, batch, groups))
        partner |= dict(zip(whole, reversed(whole), strict=True))
    for shard in range(shards):
        own = shard_offsets(batch, shard, shards, groups=groups).tolist()
        of_groups = [offset % groups for offset in own]
        assert of_groups == sorted(of_groups)
        for group in set(of_groups):
            part = [offset for offset in own if offset % groups == group]
            assert part[::-1] == [partner[offset] for offset in part]


def test_the_copies_of_repeated_augmentation_are_in_different_groups() -> None:
    (shard,) = Sampling(24, 24, seed=0, repeats=3).shards([0], shards=1, groups=4, start=0, stop=1)
    assert shard.groups == tuple(sorted(shard.groups))
    pairs = list(zip(shard.groups, shard.positions, strict=True))
    assert len(set(shard.positions)) == 8
    assert len(set(pairs)) == 24


@given(
    start=st.integers(0, 11),
    world=st.sampled_from([1, 2, 3]),
    accumulate=st.sampled_from([1, 2]),
    repeats=st.integers(1, 3),
    groups=st.sampled_from([1, 2, 3, 12]),
)
def test_any_division_from_any_update_on_sees_the_same_images_in_the_same_groups(
    start: int, world: int, accumulate: int, repeats: int, groups: int
) -> None:
    sampling = Sampling(100, 24, seed=7, repeats=repeats)
    whole = list(sampling.shards([0], shards=1, groups=groups, start=0, stop=12))
    count = world * accumulate
    parts = list(sampling.shards(range(count), shards=count, groups=groups, start=start, stop=12))
    assert len(parts) == count * (12 - start)
    for i, expected in enumerate(whole[start:]):
        made = parts[i * count : (i + 1) * count]
        assert {part.epoch for part in made} == {expected.epoch} == {(start + i) // 4}
        together = [found for part in made for found in zip(part.positions, part.repetitions, part.groups, strict=True)]
        assert sorted(together) == sorted(zip(expected.positions, expected.repetitions, expected.groups, strict=True))


def test_the_last_incomplete_batch_is_dropped() -> None:
    assert Sampling(50, 12, seed=0).updates_per_epoch == 4
    assert Sampling(12, 12, seed=0).updates_per_epoch == 1


def test_a_batch_larger_than_the_set_is_refused() -> None:
    with refused(ValueError, 12, "loop.batch_size=10"):
        Sampling(10, 12, seed=0)


@pytest.mark.parametrize(("batch", "shards", "groups", "multiple"), [(7, 1, 1, 2), (12, 4, 3, 8), (10, 4, 0, 4)])
def test_a_batch_that_cannot_be_dealt_out_names_the_multiple(batch: int, shards: int, groups: int, multiple: int) -> None:
    with refused(ValueError, batch, f"multiple of {multiple},"):
        shard_offsets(batch, 0, shards, groups=groups)


def test_no_repeats_are_refused() -> None:
    with refused(ValueError, "data.repeats=0"):
        Sampling(10, 2, seed=0, repeats=0)
