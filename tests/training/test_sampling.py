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
    (shard,) = sampling.shards([0], shards=1, mixing=False, start=0, stop=1)
    assert shard.repetitions == (0, 1, 2) * 3
    assert len(set(zip(shard.positions, shard.repetitions, strict=True))) == 9


@given(pairs=st.integers(1, 8), shards=st.integers(1, 6), mixing=st.booleans())
def test_shards_are_a_partition_of_the_global_batch(pairs: int, shards: int, mixing: bool) -> None:
    batch = 2 * pairs * shards
    parts = [shard_offsets(batch, shard, shards, mixing=mixing) for shard in range(shards)]
    assert {len(part) for part in parts} == {batch // shards}
    assert sorted(np.concatenate(parts)) == list(range(batch))


@given(pairs=st.integers(1, 8), shards=st.integers(1, 6))
def test_a_reversed_shard_has_the_partners_of_the_global_batch(pairs: int, shards: int) -> None:
    batch = 2 * pairs * shards
    for shard in range(shards):
        own = shard_offsets(batch, shard, shards, mixing=True)
        assert own[::-1].tolist() == (batch - 1 - own).tolist()


@given(
    start=st.integers(0, 11), world=st.sampled_from([1, 2, 3]), accumulate=st.sampled_from([1, 2]), repeats=st.integers(1, 3)
)
def test_any_division_from_any_update_on_sees_the_same_images(start: int, world: int, accumulate: int, repeats: int) -> None:
    sampling = Sampling(100, 24, seed=7, repeats=repeats)
    whole = list(sampling.shards([0], shards=1, mixing=True, start=0, stop=12))
    count = world * accumulate
    parts = list(sampling.shards(range(count), shards=count, mixing=True, start=start, stop=12))
    assert len(parts) == count * (12 - start)
    for i, expected in enumerate(whole[start:]):
        made = parts[i * count : (i + 1) * count]
        assert {part.epoch for part in made} == {expected.epoch} == {(start + i) // 4}
        together = [pair for part in made for pair in zip(part.positions, part.repetitions, strict=True)]
        assert sorted(together) == sorted(zip(expected.positions, expected.repetitions, strict=True))


def test_the_last_incomplete_batch_is_dropped() -> None:
    assert Sampling(50, 12, seed=0).updates_per_epoch == 4
    assert Sampling(12, 12, seed=0).updates_per_epoch == 1


def test_a_batch_larger_than_the_set_is_refused() -> None:
    with refused(ValueError, 12, "loop.batch_size=10"):
        Sampling(10, 12, seed=0)


@pytest.mark.parametrize(("batch", "shards", "mixing", "multiple"), [(7, 1, True, 2), (12, 4, True, 8), (10, 4, False, 4)])
def test_a_batch_that_cannot_be_dealt_out_names_the_multiple(batch: int, shards: int, mixing: bool, multiple: int) -> None:
    with refused(ValueError, batch, f"multiple of {multiple},"):
        shard_offsets(batch, 0, shards, mixing=mixing)


def test_no_repeats_are_refused() -> None:
    with refused(ValueError, "data.repeats=0"):
        Sampling(10, 2, seed=0, repeats=0)
