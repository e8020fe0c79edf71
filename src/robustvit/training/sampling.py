"""Which image comes when: the order of an epoch, its batches, and who makes which part of a batch.

All processes and micro-batches together work on one global batch, whose order depends on (seed, epoch) alone. Mixing takes it
in n groups: group g has the places g, g + n, g + 2n, ..., as published samplers deal images to n GPUs, which spreads the
copies of repeated augmentation over the groups. In a group of G, mixing pairs image k with image G-1-k.

The batch is dealt out to S = processes * micro-batches shards so that every image is in the shard of its partner. A shard has
its groups one after the other, and each of these parts reversed has just the partners. With S = n a shard is a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustvit.runtime.randomness import keyed_seed

__all__ = ["Sampling", "Shard", "epoch_order", "shard_offsets"]


@dataclass(frozen=True)
class Shard:
    """What one process makes of one micro-batch: b images.

    Attributes:
        epoch: counted from 0.
        positions: b places in the dataset.
        repetitions: b numbers, 0 where an image comes for the first time in the epoch.
        groups: b numbers of the groups in which images are mixed, in ascending order; empty for no mixing.
    """

    epoch: int
    positions: tuple[int, ...]
    repetitions: tuple[int, ...]
    groups: tuple[int, ...] = ()


def epoch_order(length: int, *, seed: int, epoch: int, repeats: int = 1) -> NDArray[np.int64]:
    """int64 [length]: the positions of the images in the order of this epoch.

    With `repeats` each image comes that often in a row, and the epoch stays as long: every epoch has other images.
    """
    key = keyed_seed(seed, epoch, "order")
    generator = np.random.RandomState([key >> 32, key & 0xFFFFFFFF])  # its stream is the same in every version of NumPy
    distinct = generator.permutation(length)[: -(-length // repeats)]
    return distinct.repeat(min(repeats, length))[:length].astype(np.int64)


def shard_offsets(batch_size: int, shard: int, shards: int, *, groups: int) -> NDArray[np.int64]:
    """int64 [batch_size / shards]: the places in the global batch that a shard has, in its order.

    With n groups, offset o is in group g = o mod n, and its partner is batch_size - n + 2g - o; the shard has its groups one
    after the other, in each of which place k and place k from the end are partners.

    Args:
        batch_size: images an update.
        shard, shards: which one of how many.
        groups: in which images are mixed, of equal and even size; 0 for no mixing.

    Raises:
        ValueError: the batch cannot be dealt out evenly.
    """
    parts, reason = (2 * shards, " in pairs for mixing") if groups else (shards, "")
    if batch_size < 1 or batch_size % parts:
        raise ValueError(
            f"a batch of {batch_size} images cannot be dealt out{reason} to {shards} processes and micro-batches; give a "
            f"multiple of {parts}, as {max(parts, round(batch_size / parts) * parts)}"
        )
    if not groups:
        return np.arange(shard, batch_size, shards)
    first_half = np.arange(shard, batch_size // 2, shards)  # the first of each pair, of all groups
    parts_of_groups = []
    for group in range(groups):
        own = first_half[first_half % groups == group]
        parts_of_groups += [own, (batch_size - groups + 2 * group - own)[::-1]]
    return np.concatenate(parts_of_groups)


class Sampling:
    """The shards of every batch of a run.

    Args:
        length: images in the dataset.
        batch_size: images an update, over all shards.
        seed: of the run.
        repeats: times that an image comes in one epoch.

    Raises:
        ValueError: there is not one full batch.
    """

    def __init__(self, length: int, batch_size: int, *, seed: int, repeats: int = 1) -> None:
        if batch_size > length:
            raise ValueError(
                f"the training set has {length} images, less than one batch of {batch_size}; give loop.batch_size={length} "
                "or less, or more images"
            )
        if repeats < 1:
            raise ValueError(f"data.repeats={repeats} is not possible; give 1 for plain epochs, 3 for repeated augmentation")
        self.length, self.batch_size, self.seed, self.repeats = length, batch_size, seed, repeats
        self.updates_per_epoch = length // batch_size  # the rest of an epoch is dropped

    def shards(self, own: Sequence[int], *, shards: int, groups: int, start: int, stop: int) -> Iterator[Shard]:
        """For each of the updates start .. stop - 1, counted over all epochs, the shards `own` of `shards` in turn.

        `groups` as for `shard_offsets`.

        Raises:
            ValueError: the batch cannot be dealt out evenly.
        """
        offsets = [shard_offsets(self.batch_size, shard, shards, groups=groups) for shard in own]
        return self._shards(offsets, groups, start, stop)

    def _shards(self, offsets: list[NDArray[np.int64]], groups: int, start: int, stop: int) -> Iterator[Shard]:
        order, order_epoch = np.empty(0, np.int64), -1
        for update in range(start, stop):
            epoch, place = divmod(update, self.updates_per_epoch)
            if epoch != order_epoch:
                order, order_epoch = epoch_order(self.length, seed=self.seed, epoch=epoch, repeats=self.repeats), epoch
            for part in offsets:
                places = place * self.batch_size + part
                of_groups = tuple((part % groups).tolist()) if groups else ()
                yield Shard(epoch, tuple(order[places].tolist()), tuple((places % self.repeats).tolist()), of_groups)
