"""The primary measure of the task on the validation samples between epochs: an evaluation of the clean images.

The suites of `robustvit eval` are for what comes after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from torch import nn

from robustvit.corruptions.conditions import CLEAN
from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import Protocol
from robustvit.data.samples import SampleSet, UnreadablePictureError, check_values
from robustvit.evaluation.passes import MemoryPass, PassStoppedError
from robustvit.evaluation.settings import Settings
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.tasks.base import Task
from robustvit.tasks.passes import Decoded, batch_sizes, decoded_batches
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

    Raises:
        ValueError: the targets cannot be right, see `check_values`.
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
        check_values(samples)  # not when the first epoch is over
        if workers.is_sharded and protocol.keeps_size:
            _check_one_size(samples)
        self.task, self.samples, self.workers = task, samples, workers
        settings = Settings(samples, task, suites=(), batch_size=batch_size)
        self.about = (task, samples, protocol, normalisation, settings)
        self.kept: list[Decoded] | None = None
        self.unreadable: list[tuple[str, str]] = []

    def score(self, network: nn.Module, stop: Callable[[], bool] | None = None) -> float | None:
        """The primary measure of the task, the same in any number of processes. The network's training mode is restored.

        Args:
            network: to measure.
            stop: asked after every batch whether to leave off; the result is None then, in all processes.

        Raises:
            ValueError: no sample can be read.
        """

        def report(*progress: object) -> None:
            if stop is not None and not self.workers.is_sharded and stop():  # the parts of a sharded network need all
                raise PassStoppedError

        clean = MemoryPass(network, (), (CLEAN,), ("",), *self.about, decode=self._batches)
        try:
            with evaluation_mode(network):
                tallied = clean.run(self.workers, None, report)
        except PassStoppedError:
            return None
        self.unreadable = tallied.skipped
        if not tallied.ids:
            raise ValueError(f"no image of {self.samples.name} could be read, so there is nothing to validate on")
        return self.task.scores(tallied.row(CLEAN))[self.task.primary.key]

    def _batches(
        self, samples: SampleSet, protocol: Protocol, size: int, is_wanted: Callable[[int], bool]
    ) -> Iterator[Decoded]:
        """See `decoded_batches`; the same ones in the next epoch without decoding them again, unless they are too many."""
        if self.kept is not None:
            yield from self.kept
            return
        made: list[Decoded] | None = []
        taken = 0
        for batch in self._even(decoded_batches(samples, protocol, size, is_wanted), samples, size):
            yield batch
            taken += sum(images.nbytes for _, images in batch.groups)
            made = [*made, batch] if made is not None and taken * self.workers.world <= CACHE_BYTES else None
        self.kept = made

    def _even(self, batches: Iterator[Decoded], samples: SampleSet, size: int) -> Iterator[Decoded]:
        """As many batches as every other process has: the last may be empty."""
        yield from batches
        own, most = (len(batch_sizes(samples, size, rank, self.workers.world)) for rank in (self.workers.rank, 0))
        if own < most:
            yield Decoded(-1, [], [])


def _check_one_size(samples: SampleSet) -> None:
    """Raises ValueError for images of several sizes: the parts of a sharded network work on one size, all together."""
    sizes: dict[tuple[int, int], str] = {}
    for sample in samples:
        with suppress(UnreadablePictureError):
            sizes.setdefault(sample.open().size, sample.id)
        if len(sizes) > 1:
            (first, second), (one, other) = sizes, sizes.values()
            raise ValueError(
                f"loop.parallel=fsdp validates on images of one size, and {one} has {first[0]}x{first[1]} pixels, {other} "
                f"{second[0]}x{second[1]}; take loop.parallel=ddp, or leave data.val empty"
            )
