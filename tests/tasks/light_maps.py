"""A toy dense task: every pixel of a scene is dark, medium or bright; the outermost pixels count for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustvit.data.layouts import open_samples
from robustvit.data.samples import Sample, SampleSet
from robustvit.metrics.measures import Measure, register
from robustvit.models.registry import create_model
from robustvit.tasks.base import SummaryMeasures, Task
from robustvit.tasks.pixel_loss import pixel_cross_entropy
from robustvit.tasks.tallies import Tallies, Tally

RIGHT = register(Measure("right_pixels", "Right pixels", "Share of the pixels that count."))
GRID = 4


class Lit:
    """Samples whose targets are label maps uint8 [H, W]."""

    classes = ("dark", "medium", "bright")

    def __init__(self, samples: Any) -> None:
        self.samples, self.name = samples, samples.name

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        return map(self.at, range(len(self)))

    def at(self, i: int) -> Sample:
        sample = self.samples.at(i)
        return Sample(sample.id, sample.open, lambda: light_map(np.asarray(sample.open())))

    def at_size(self, size: tuple[int, int]) -> Lit:
        return Lit(self.samples.at_size(size))


class LightMaps(Task):
    name = "light_maps"
    primary = RIGHT
    summary = SummaryMeasures.of(RIGHT)
    is_dense = True

    def open(self, data: str | Path, **options: Any) -> SampleSet:
        return Lit(open_samples(data, **options))

    def build(self, name: str, pretrained: bool, *, outputs: int, **options: Any) -> nn.Module:
        return create_model(name, pretrained, num_classes=outputs * GRID**2, **options)

    def place(self, target: np.ndarray, placement: Any) -> np.ndarray:
        return placement.map(target, fill=255)

    def collate(self, targets: Sequence[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(targets))

    def forward(self, network: nn.Module, images: Tensor, targets: Any) -> Tensor:
        coarse = network(images).unflatten(1, (-1, GRID, GRID))
        return F.interpolate(coarse, images.shape[2:], mode="bilinear", align_corners=False)

    def loss(self, answer: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"pixels": pixel_cross_entropy(answer, targets)}

    def predict(self, network: nn.Module, inputs: Tensor) -> list[Tensor]:
        return list(self.forward(network, inputs, None).argmax(1).cpu())

    def tally(self, prediction: Tensor, target: np.ndarray) -> Tally:
        counts = target != 255
        return {"right": float((prediction.numpy() == target)[counts].mean())}

    def score(self, tallies: Tallies, counts: np.ndarray) -> dict[str, np.ndarray]:
        return {RIGHT.key: counts @ tallies["right"] / counts.sum(-1)}


def light_map(pixels: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3] -> uint8 [H, W]."""
    labels = (pixels.mean(-1) // 86).astype(np.uint8)
    labels[[0, -1]] = labels[:, [0, -1]] = 255
    return labels
