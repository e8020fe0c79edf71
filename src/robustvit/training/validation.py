"""The primary measure of the task on the validation samples between epochs, by the same pass over samples as an evaluation.

Clean images only, and the same number in any number of processes; the suites of `robustvit eval` are for what comes after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import Protocol
from robustvit.data.samples import SampleSet
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.runtime.prefetch import Prefetch
from robustvit.tasks.base import Task
from robustvit.tasks.passes import Decoded, batch_sizes, decoded_batches, predict_images, tally_images
from robustvit.tasks.tallies import Tallies
from robustvit.training.distributed import Workers

__all__ = ["Validation"]

CACHE_BYTES = 2**30
"""Decoded images are kept if all of them take less."""


class Validation:
    """Samples to validate on.

    Args:
        task: bound to the outputs of the network.
        samples: with the classes of the training set.
        protocol: how an image becomes the network's input.
        normalisation: of the input.
        batch_size: images at once.
        workers: each takes every world-th batch.
    """

    def __init__(
        self,
        task: Task,
        samples: SampleSet,
        protocol: Protocol,
        normalisation: Normalisation,
        batch_size: int,
        workers: Workers,
    ) -> None:
        self.task, self.samples, self.protocol, self.normalisation = task, samples, protocol, normalisation
        self.batch_size, self.workers = batch_size, workers
        self.batches: list[Decoded] | None = None
        self.unreadable: list[tuple[str, str]] = []

    def score(self, network: nn.Module, stop: Callable[[], bool] | None = None) -> float | None:
        """The primary measure of the task. The network's training mode is restored.

        Args:
            network: to measure.
            stop: asked after every batch whether to leave off; the result is None then, in all processes.

        Raises:
            ValueError: no sample can be read.
        """
        parts: list[tuple[int, Tallies]] = []
        is_stopped = False
        with evaluation_mode(network):
            for number, samples, images, _ in self._batches():
                if not samples:  # a process without a batch left still takes part in a sharded network's exchange
                    predict_images(self.task, network, self._empty(1), self.normalisation)
                    continue
                targets = [self.task.target(sample, self.samples) for sample in samples]
                parts.append((number, tally_images(self.task, network, images, targets, self.normalisation)))
                if stop is not None and not self.workers.is_sharded and stop():  # the parts of a sharded network need all
                    is_stopped = True
                    break
        gathered = self.workers.gather((is_stopped, parts))
        if any(was_stopped for was_stopped, _ in gathered):
            return None
        numbered = sorted((pair for _, own in gathered for pair in own), key=lambda pair: pair[0])
        return self._score(Tallies.join([tallies for _, tallies in numbered]))

    def _score(self, tallies: Tallies) -> float:
        if not len(tallies):
            raise ValueError(f"no image of {self.samples.name} could be read, so there is nothing to validate on")
        return float(self.task.score(tallies, np.ones((1, len(tallies))))[self.task.primary.key][0])

    def _batches(self) -> Iterator[Decoded]:
        """This process's batches, as many as every other has: the last may be empty."""
        if self.batches is not None:
            yield from self.batches
            return
        self.unreadable = []
        made: list[Decoded] = []
        with Prefetch(self._decoded()) as batches:
            for batch in batches:
                self.unreadable += batch[-1]
                yield batch
                made.append(batch)
                if len(self.samples) * self._empty(1).nbytes > CACHE_BYTES:
                    made.clear()
        if made:
            self.batches = made

    def _decoded(self) -> Iterator[Decoded]:
        rank, world = self.workers.rank, self.workers.world
        yield from decoded_batches(self.samples, self.protocol, self.batch_size, lambda number: number % world == rank)
        own, most = (len(batch_sizes(self.samples, self.batch_size, process, world)) for process in (rank, 0))
        if own < most:
            yield -1, [], self._empty(0), []

    def _empty(self, count: int) -> Tensor:
        return torch.zeros(count, 3, *self.protocol.size, dtype=torch.uint8)
