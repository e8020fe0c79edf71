"""Accuracy on the validation pictures between epochs: plain, clean, and the same in any number of processes.

The suites of `robustvit eval` are for what comes after; this only says how the run is doing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from robustvit.data.protocols import Protocol
from robustvit.data.samples import Sample, SampleSet, UnreadablePictureError
from robustvit.training.distributed import Workers

__all__ = ["Validation"]

CACHE_BYTES = 2**30
"""Decoded pictures are kept if all of them take less."""


class Validation:
    """A set of pictures to validate on.

    Args:
        pictures: with the classes of the training set.
        protocol: how a picture becomes the network's input.
        mean, std: of the normalisation.
        batch_size: pictures at once.
        workers: each takes every world-th batch.
    """

    def __init__(
        self,
        pictures: SampleSet,
        protocol: Protocol,
        mean: Sequence[float],
        std: Sequence[float],
        batch_size: int,
        workers: Workers,
    ) -> None:
        self.pictures, self.protocol, self.batch_size, self.workers = pictures, protocol, batch_size, workers
        self.mean, self.std = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None]
        self.batches: list[tuple[Tensor, Tensor]] | None = None
        self.unreadable: list[tuple[str, str]] = []

    @torch.no_grad()
    def accuracy(self, network: nn.Module, device: torch.device, stop: Callable[[], bool] | None = None) -> float | None:
        """The share of pictures whose class gets the largest logit. The network's training mode is restored.

        Args:
            network: to measure.
            device: of the network.
            stop: asked after every batch whether to leave off; the result is None then, in all processes.
        """
        was_training = network.training
        network.eval()
        mean, std = self.mean.to(device), self.std.to(device)
        counts = torch.zeros(3, dtype=torch.float64)  # right, all, processes that left off
        try:
            for images, labels in self._batches():
                if not len(images):  # a process without a batch left still takes part in a sharded network's exchange
                    network(torch.zeros(1, 3, *self.protocol.size, device=device))
                    continue
                logits = network((images.to(device).float() / 255 - mean) / std)
                right = (logits.argmax(1).cpu() == labels).sum()
                counts += torch.tensor([right, len(labels), 0], dtype=torch.float64)
                if stop is not None and not self.workers.is_sharded and stop():  # the parts of a sharded network need all
                    counts[2] += 1
                    break
        finally:
            network.train(was_training)
        self.workers.sum([counts])
        if counts[2]:
            return None
        if not counts[1]:
            raise ValueError(f"no picture of {self.pictures.name} could be read, so there is nothing to validate on")
        return float(counts[0] / counts[1])

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """This process's batches: uint8 [B, 3, H, W] and labels [B]; the same number in every process."""
        if self.batches is not None:
            yield from self.batches
            return
        H, W = self.protocol.size
        made = []
        for batch in self._decoded():
            yield batch
            made.append(batch)
            if len(self.pictures) * 3 * H * W > CACHE_BYTES:
                made.clear()
        if made:
            self.batches = made

    def _decoded(self) -> Iterator[tuple[Tensor, Tensor]]:
        self.unreadable = []
        world, rank = self.workers.world, self.workers.rank
        starts = range(0, len(self.pictures), self.batch_size)
        rounds = -(-len(starts) // world)
        at = getattr(self.pictures, "at", None)
        everything = None if at is not None else list(self.pictures)
        with ThreadPoolExecutor(4) as pool:
            for i in range(rounds):
                number = i * world + rank
                positions = range(number * self.batch_size, min((number + 1) * self.batch_size, len(self.pictures)))
                batch = [at(p) if at is not None else everything[p] for p in positions]  # type: ignore[index]
                decoded = [pair for pair in pool.map(self._decode, batch) if pair is not None]
                if decoded:
                    yield torch.stack([image for image, _ in decoded]), torch.tensor([label for _, label in decoded])
                else:
                    yield torch.empty(0, 3, *self.protocol.size, dtype=torch.uint8), torch.empty(0, dtype=torch.long)

    def _decode(self, picture: Sample) -> tuple[Tensor, int] | None:
        try:
            return self.protocol.apply(picture.open()), picture.target()
        except (UnreadablePictureError, ValueError) as error:
            self.unreadable.append((picture.id, str(error)))
            return None
