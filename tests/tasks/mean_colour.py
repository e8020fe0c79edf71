"""A toy task, as an outside package would add one: a network answers with the mean colour of what it sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustvit.corruptions.conditions import Condition
from robustvit.data.layouts import open_samples
from robustvit.data.samples import Sample, SampleSet
from robustvit.metrics.measures import Measure, register
from robustvit.tasks.base import Answer, SummaryMeasures, Task
from robustvit.tasks.per_class import ClassResult, class_result
from robustvit.tasks.tallies import Tallies, Tally
from robustvit.training.augment.placement import Placement

LIKENESS = register(Measure("colour_likeness", "Colour likeness", "One less the mean distance of the channels."))
CHANNEL = register(Measure("channel_likeness", "Channel likeness", "One less the distance of one channel."))


class Coloured:
    """Samples whose targets are their own pixels, H x W x 3."""

    classes = ()

    def __init__(self, samples: Any) -> None:
        self.samples, self.name = samples, samples.name

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        return map(self.at, range(len(self)))

    def at(self, i: int) -> Sample:
        sample = self.samples.at(i)
        return Sample(sample.id, sample.open, lambda: np.asarray(sample.open()))

    def at_size(self, size: tuple[int, int]) -> Coloured:
        return Coloured(self.samples.at_size(size))


class MeanColour(Task):
    name = "mean_colour"
    primary = LIKENESS
    summary = SummaryMeasures.of(LIKENESS)

    def open(self, data: str | Path, **options: Any) -> SampleSet:
        return Coloured(open_samples(data, **options))

    def outputs(self, samples: SampleSet) -> int:
        return 3

    def place(self, target: np.ndarray, placement: Placement) -> np.ndarray:
        return placement.map(target, fill=128)

    def collate(self, targets: Sequence[np.ndarray]) -> Tensor:
        return torch.stack([mean_colour(target) for target in targets])

    def loss(self, answer: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"colour": F.mse_loss(answer, targets)}

    def predict(self, network: nn.Module, inputs: Tensor) -> list[Tensor]:
        return list(network(inputs).cpu())

    def tally(self, prediction: Tensor, target: np.ndarray) -> Tally:
        distances = (prediction - mean_colour(target)).abs()
        return {"likeness": max(0.0, 1 - float(distances.mean())), "channels": 1 - distances.clamp(max=1).numpy()}

    def score(self, tallies: Tallies, counts: np.ndarray) -> dict[str, np.ndarray]:
        return {LIKENESS.key: counts @ tallies["likeness"] / counts.sum(-1)}

    def per_class(self, conditions: Sequence[Condition], rows: Sequence[Tallies]) -> tuple[ClassResult, ...]:
        """The channels."""
        means = np.stack([row["channels"].mean(0) for row in rows], axis=1)  # 3 conditions
        names = ("red", "green", "blue")
        return tuple(
            class_result(name, len(rows[0]), conditions, {CHANNEL.key: own.tolist()})
            for name, own in zip(names, means, strict=True)
        )

    def answer(self, prediction: Tensor, target: np.ndarray) -> Answer:
        return Answer(" ".join(f"{255 * value:.0f}" for value in prediction.tolist()))

    def target_text(self, target: np.ndarray) -> str:
        return " ".join(f"{255 * value:.0f}" for value in mean_colour(target).tolist())


def mean_colour(pixels: np.ndarray) -> Tensor:
    """[3] in 0 .. 1."""
    return torch.as_tensor(pixels.mean((0, 1)) / 255, dtype=torch.float32)
