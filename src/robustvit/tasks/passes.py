"""A pass of a network over samples: decode, predict, tally. Evaluation and validation in training both consist of these.

Batches have numbers, so that they can be dealt out to the processes of a distributed run as wholes, stored, and left out when
an interrupted run goes on. What cannot be read is skipped and named.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import Protocol
from robustvit.data.samples import Sample, SampleSet, UnreadablePictureError
from robustvit.tasks.base import Task
from robustvit.tasks.tallies import Tallies

__all__ = ["DecodedBatch", "batch_sizes", "decoded_batches", "predict_images", "tally_images"]

THREADS = 2
"""That decode."""


@dataclass(frozen=True)
class DecodedBatch:
    """A batch of samples, decoded.

    Attributes:
        number: of the batch, from 0.
        ids: of the B samples that could be read.
        images: uint8 [B, 3, H, W].
        targets: of the samples, as the task takes them.
        skipped: (id, reason) of those that could not be read.
    """

    number: int
    ids: list[str]
    images: Tensor
    targets: list[Any]
    skipped: list[tuple[str, str]]


def decoded_batches(
    task: Task,
    samples: SampleSet,
    protocol: Protocol,
    batch_size: int,
    is_wanted: Callable[[int], bool] = lambda number: True,
) -> Iterator[DecodedBatch]:
    """The wanted batches of a dataset, each decoded when it is asked for; others are not decoded.

    Args:
        task: bound to the samples.
        samples: in their order.
        protocol: how an image becomes the input.
        batch_size: samples in a batch.
        is_wanted: asked for every number of a batch.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        for number, batch in _numbered(samples, batch_size, is_wanted):
            yield _decode(number, batch, task, samples, protocol, pool)


def batch_sizes(samples: SampleSet, batch_size: int, rank: int = 0, world: int = 1) -> list[int]:
    """How many samples the batches of one process have."""
    count = len(samples)
    return [min(batch_size, count - k * batch_size) for k in range(rank, math.ceil(count / batch_size), world)]


def _numbered(samples: SampleSet, size: int, is_wanted: Callable[[int], bool]) -> Iterator[tuple[int, list[Sample]]]:
    at = getattr(samples, "at", None)
    if at is not None:
        for k in filter(is_wanted, range(math.ceil(len(samples) / size))):
            yield k, [at(i) for i in range(k * size, min((k + 1) * size, len(samples)))]
        return
    stream = iter(samples)  # what is not wanted must pass by
    for k in itertools.count():
        batch = list(itertools.islice(stream, size))
        if not batch:
            return
        if is_wanted(k):
            yield k, batch


def _decode(
    number: int, batch: list[Sample], task: Task, samples: SampleSet, protocol: Protocol, pool: ThreadPoolExecutor
) -> DecodedBatch:
    def read(sample: Sample) -> Tensor | str:
        try:
            return protocol.apply(sample.open())
        except (UnreadablePictureError, ValueError) as error:
            return str(error)

    results = list(pool.map(read, batch))
    pairs = list(zip(batch, results, strict=True))
    kept = [(sample, image) for sample, image in pairs if isinstance(image, Tensor)]
    H, W = protocol.size
    images = torch.stack([image for _, image in kept]) if kept else torch.empty(0, 3, H, W, dtype=torch.uint8)
    return DecodedBatch(
        number=number,
        ids=[sample.id for sample, _ in kept],
        images=images,
        targets=[task.target(sample, samples) for sample, _ in kept],
        skipped=[(sample.id, reason) for sample, reason in pairs if isinstance(reason, str)],
    )


def predict_images(task: Task, network: nn.Module, images: Tensor, normalisation: Normalisation) -> list[Any]:
    """One prediction per image.

    Args:
        task: what to predict.
        network: in evaluation mode, on its device.
        images: uint8 [B, 3, H, W], or floating point in 0 .. 1.
        normalisation: of the network.
    """
    parameter = next(network.parameters(), torch.zeros(()))
    with torch.inference_mode():
        inputs = normalisation(images.to(parameter.device)).to(parameter.dtype)
        return task.predict(network, inputs)


def tally_images(
    task: Task, network: nn.Module, images: Tensor, targets: Sequence[Any], normalisation: Normalisation
) -> Tallies:
    """What these images contribute; see `predict_images`."""
    predictions = predict_images(task, network, images, normalisation)
    return Tallies.stack([task.tally(*pair) for pair in zip(predictions, targets, strict=True)])
