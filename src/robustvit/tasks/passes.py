"""A pass of a network over samples: decode, predict, tally. What passes of an evaluation consist of.

Batches have numbers, so that they can be dealt out to the processes of a distributed run as wholes, stored, and left out when
an interrupted run goes on. What cannot be read is skipped and named.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import Protocol
from robustvit.data.samples import Sample, SampleSet, UnreadablePictureError
from robustvit.runtime.side_by_side import free_cores
from robustvit.tasks.base import Task

__all__ = ["Decoded", "batch_sizes", "decoded_batches", "predict_images"]

THREADS = 2
"""That decode beside a network on the CPU."""


class Decoded(NamedTuple):
    """A batch.

    Attributes:
        number: from 0.
        groups: samples that could be read with their images uint8 [b, 3, H, W], those of one size together.
        skipped: (id, reason) of the rest.
    """

    number: int
    groups: list[tuple[list[Sample], Tensor]]
    skipped: list[tuple[str, str]]


def decoded_batches(
    samples: SampleSet,
    protocol: Protocol,
    batch_size: int,
    is_wanted: Callable[[int], bool] = lambda number: True,
    *,
    device: torch.device | str = "cpu",
) -> Iterator[Decoded]:
    """The wanted batches of a dataset, each decoded when it is asked for; others are not decoded.

    Args:
        samples: in their order.
        protocol: how an image becomes the input.
        batch_size: samples in a batch.
        is_wanted: asked for every number of a batch.
        device: of the network; one that leaves the cores free has its images decoded by all of them.
    """
    with ThreadPoolExecutor(max(THREADS, free_cores(device))) as pool:
        for number, batch in _numbered(samples, batch_size, is_wanted):
            yield _decode(number, batch, protocol, pool)


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


def _decode(number: int, batch: list[Sample], protocol: Protocol, pool: ThreadPoolExecutor) -> Decoded:
    def read(sample: Sample) -> Tensor | str:
        try:
            return protocol.apply(sample.open())
        except (UnreadablePictureError, ValueError) as error:
            return str(error)

    pairs = list(zip(batch, pool.map(read, batch), strict=True))
    sizes: dict[torch.Size, list[tuple[Sample, Tensor]]] = {}
    for sample, image in pairs:
        if isinstance(image, Tensor):
            sizes.setdefault(image.shape, []).append((sample, image))
    groups = [([sample for sample, _ in same], torch.stack([image for _, image in same])) for same in sizes.values()]
    return Decoded(number, groups, [(sample.id, reason) for sample, reason in pairs if isinstance(reason, str)])


def predict_images(task: Task, network: nn.Module, images: Tensor, normalisation: Normalisation) -> list[Any]:
    """One prediction per image.

    Args:
        task: what to predict.
        network: in evaluation mode, on its device.
        images: uint8 [B, 3, H, W], or floating point in 0 .. 1.
        normalisation: of the network.
    """
    return task.predict_images(network, images, normalisation)
