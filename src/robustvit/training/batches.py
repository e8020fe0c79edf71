"""Training batches: any process, from any update on, in a thread beside the network or in worker processes; always the same.

    data = TrainingData(task, training_samples(task, config.data, seed=0), config.data, config.augment, (32, 32), seed=0)
    for micro_batches in data.batches(128, start_update=300, epochs=10): ...

What comes out is 8-bit and unmixed; `inputs.prepare` does the rest on the network's device.
"""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from timm.data import IMAGENET_DEFAULT_MEAN
from torch.utils.data import DataLoader, Dataset

from robustvit.data.samples import UnreadablePictureError
from robustvit.runtime.cores import available_cores
from robustvit.runtime.interruption import WorkersEnd, leave_signals_to_parent, starting_workers
from robustvit.runtime.prefetch import Prefetch
from robustvit.runtime.randomness import keyed_seed
from robustvit.tasks.base import Task
from robustvit.training.augment.augmentation import Augmentation, Pixels
from robustvit.training.augment.mixing import count_groups
from robustvit.training.augment.scene_augmentation import SceneAugmentation
from robustvit.training.base_cache import BaseImages
from robustvit.training.config import SCENE_CROPS, AugmentConfig, DataConfig
from robustvit.training.inputs import Batch
from robustvit.training.sampling import Sampling, Shard
from robustvit.training.training_sets import TrainingSamples

__all__ = ["Batch", "ShardMaker", "TrainingData"]

_MOST_IN_A_ROW = 1000
"""Images that may be unreadable one after the other."""


class ShardMaker(Dataset[Batch]):
    """Makes the batch of a shard: `maker[shard]`."""

    def __init__(
        self,
        task: Task,
        samples: TrainingSamples,
        bases: BaseImages,
        augmentation: Augmentation | SceneAugmentation,
        seed: int,
    ) -> None:
        self.task, self.samples, self.bases, self.augmentation, self.seed = task, samples, bases, augmentation, seed

    def __getitem__(self, shard: Shard) -> Batch:
        found: list[Pixels] = []
        ids, seeds, targets = [], [], []
        unreadable: list[tuple[str, str]] = []
        slots = zip(shard.positions, shard.repetitions, self.bases.get(shard.positions), strict=True)
        for position, repetition, item in slots:
            purpose: tuple[int | str, ...] = (repetition,) if repetition else ()
            if isinstance(item, UnreadablePictureError):
                unreadable.append((self.samples.id(position), str(item)))
                purpose = (*purpose, "instead of", unreadable[-1][0])
                position, item = self._next_readable(position, unreadable)
            name = self.samples.id(position)
            found.append(item[0])
            targets.append(item[1])
            ids.append(name)
            seeds.append(keyed_seed(self.seed, name, shard.epoch, *purpose))
        images, view, placements = self.augmentation(found, seeds, targets)
        placed = [self.task.place(*pair) for pair in zip(targets, placements, strict=True)]
        as_tensor = None if view is None else torch.from_numpy(view)
        shown = [placement.shown for placement in placements]
        made = torch.from_numpy(images)
        return Batch(made, self.task.collate(placed), seeds, ids, as_tensor, unreadable, shown, shard.groups)

    def _next_readable(self, position: int, unreadable: list[tuple[str, str]]) -> tuple[int, tuple[Pixels, Any]]:
        """The first readable image after `position`, in the order of the dataset."""
        tried = min(len(self.samples) - 1, _MOST_IN_A_ROW)
        for step in range(1, tried + 1):
            candidate = (position + step) % len(self.samples)
            (item,) = self.bases.get([candidate])
            if not isinstance(item, UnreadablePictureError):
                return candidate, item
        name, reason = unreadable[-1]
        raise ValueError(
            f"{name} and the {tried} training images after it cannot be read ({reason}); look at the files, or leave them out"
        )


class TrainingData:
    """The training images of a run.

    Args:
        task: what is learned from them.
        samples: the set; generated ones are drawn at `img_size` from here on.
        data: how they are read.
        augment: what happens to them.
        img_size: (H, W); images of crop="multiscale" have sizes of their own, which change from batch to batch.
        seed: of the run.
        spatial_view: make STL's second view too.
        mean: of the normalisation, where `augment` leaves it to the network; its colour fills what is outside an image.

    Attributes:
        classes: names in the order of the labels; empty where nobody knows them.
        workers: processes that make batches: `data.workers`, but no more than the machine has cores.
        length: images in the set, copies included.

    Raises:
        ValueError: no image can be read, or a setting is not possible.
    """

    def __init__(
        self,
        task: Task,
        samples: TrainingSamples,
        data: DataConfig,
        augment: AugmentConfig,
        img_size: tuple[int, int],
        *,
        seed: int,
        mean: Sequence[float] = IMAGENET_DEFAULT_MEAN,
        spatial_view: bool = False,
    ) -> None:
        if data.workers < 0:
            raise ValueError(f"data.workers={data.workers} is not possible; give a number of processes, or 0 for a thread")
        self.workers = min(data.workers, available_cores())
        self.config, self.augment, self.img_size, self.seed = data, augment, img_size, seed
        how: Any = dict(mean=augment.mean or mean, with_view=spatial_view)
        augmentation = (
            SceneAugmentation(augment, img_size, **how)
            if augment.crop in SCENE_CROPS
            else Augmentation(augment, img_size, seed=seed, **how)
        )
        samples.draw_at(img_size)
        self.samples = samples
        bases = BaseImages(task, self.samples, augmentation.base, data.cache)
        self.maker = ShardMaker(task, self.samples, bases, augmentation, seed)
        self.classes, self.length = self.samples.classes, len(self.samples)

    def fingerprint(self) -> str:
        """Of the number of images and some of their names; another one means that the set was changed."""
        step = max(1, self.length // 1000)
        names = [self.samples.id(position) for position in range(0, self.length, step)]
        return hashlib.blake2b(repr((self.length, names, tuple(self.classes))).encode(), digest_size=16).hexdigest()

    def updates_per_epoch(self, batch_size: int) -> int:
        """Full batches in the set.

        Raises:
            ValueError: there is none.
        """
        return self._sampling(batch_size).updates_per_epoch

    def batches(
        self,
        batch_size: int,
        *,
        epochs: int,
        start_update: int = 0,
        rank: int = 0,
        world: int = 1,
        accumulate: int = 1,
        mixing: bool = True,
    ) -> Generator[list[Batch], None, None]:
        """For each update from `start_update` on, the micro-batches of this process. Closing it ends threads and workers.

        Args:
            batch_size: images an update, over all processes and micro-batches.
            epochs: after which it ends, counted from the first of the run.
            start_update: counted over all epochs; what comes before it is not read.
            rank, world: this process and the number of them.
            accumulate: micro-batches of an update.
            mixing: False for images that will not be mixed, whatever the run does with its own.

        Raises:
            ValueError: the batch is larger than the set, or cannot be dealt out evenly.
        """
        sampling = self._sampling(batch_size)
        own = range(rank * accumulate, (rank + 1) * accumulate)
        shards = sampling.shards(
            own,
            shards=world * accumulate,
            groups=count_groups(self.augment, batch_size) if mixing else 0,
            start=start_update,
            stop=epochs * sampling.updates_per_epoch,
        )
        return _in_groups(self._made(shards), accumulate)

    def _sampling(self, batch_size: int) -> Sampling:
        return Sampling(self.length, batch_size, seed=self.seed, repeats=self.config.repeats)

    def _made(self, shards: Iterator[Shard]) -> Generator[Batch, None, None]:
        return _from_workers(self.maker, shards, self.workers) if self.workers else _from_thread(self.maker, shards)


def _in_groups(batches: Generator[Batch, None, None], size: int) -> Generator[list[Batch], None, None]:
    try:
        while group := list(islice(batches, size)):
            yield group
    finally:
        batches.close()


def _from_thread(maker: ShardMaker, shards: Iterator[Shard]) -> Generator[Batch, None, None]:
    with Prefetch(map(maker.__getitem__, shards)) as batches:
        yield from batches


def _from_workers(maker: ShardMaker, shards: Iterable[Shard], workers: int) -> Generator[Batch, None, None]:
    """Workers are forked where that is possible: they share the memory of images, and start at once."""
    end = WorkersEnd()
    loader = DataLoader(
        maker,
        batch_size=None,
        sampler=shards,
        num_workers=workers,
        collate_fn=_as_it_is,
        worker_init_fn=functools.partial(_start_worker, end),
        multiprocessing_context="fork" if "fork" in multiprocessing.get_all_start_methods() else None,
        generator=torch.Generator(),  # else it would draw from the one that all share
    )
    with starting_workers():
        batches = iter(loader)
    try:
        yield from batches
    finally:
        try:
            del batches, loader  # ends the workers
        finally:
            end.tell()


def _as_it_is(batch: Any) -> Any:
    return batch


def _start_worker(end: WorkersEnd, _: int) -> None:
    leave_signals_to_parent(end)
    info = torch.utils.data.get_worker_info()
    if info is not None and isinstance(info.dataset, ShardMaker):
        info.dataset.samples.reopen_files()
