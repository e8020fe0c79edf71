"""A toy task whose targets are the objects of an image, and a set of such images in two sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from robustvit.data.samples import Sample, SampleSet
from robustvit.data.scenes.dataset import Scenes
from robustvit.metrics.box_matching import Labelled
from robustvit.metrics.measures import Measure, register
from robustvit.runtime.run_lengths import RunLengths
from robustvit.tasks.base import SummaryMeasures, Task

FOUND = register(Measure("found_objects", "Found objects", "The share of objects that are found."))


class SceneObjects:
    """Scenes with their objects; `asked` counts what was read of each."""

    name, classes = "toy objects", ("one", "other")

    def __init__(self, length: int, odd: Sequence[int] = (), size: tuple[int, int] = (40, 60)) -> None:
        self.length, self.odd, self.size = length, tuple(odd), size
        self.asked = {"image": 0, "target": 0}

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Sample]:
        return map(self.at, range(len(self)))

    def at(self, i: int) -> Sample:
        return Sample(str(i), lambda: self._image(i), lambda: self._target(i))

    def _scene(self, i: int) -> Any:
        return Scenes("train", self.length, (48, 32) if i in self.odd else self.size).scene(i)

    def _image(self, i: int) -> Image.Image:
        self.asked["image"] += 1
        return Image.fromarray(self._scene(i).image.permute(1, 2, 0).numpy())

    def _target(self, i: int) -> Labelled:
        self.asked["target"] += 1
        scene = self._scene(i)
        masks = RunLengths.from_dense(scene.masks.numpy())
        count = len(masks)
        return Labelled(masks.boxes(), np.arange(count) % 2, masks.areas().astype(float), np.zeros(count, bool), masks)


class ToyDetection(Task):
    name = "toy_detection"
    primary = FOUND
    summary = SummaryMeasures.of(FOUND)
    is_dense = True

    def open(self, data: str | Path, **options: Any) -> SampleSet:
        return SceneObjects(int(str(data).rpartition(":")[2]), odd=(1, 4))

    def place(self, target: Labelled, placement: Any) -> dict[str, np.ndarray]:
        boxes = placement.boxes(target.boxes)
        is_there = (boxes[:, 2:] - boxes[:, :2]).min(1) > 0
        assert target.masks is not None
        masks = placement.masks(target.masks.of(is_there).dense())
        return {
            "boxes": boxes[is_there].astype(np.float32),
            "labels": target.classes[is_there],
            "masks": masks,
            "size": np.array(placement.shown),
        }

    def collate(self, targets: Sequence[dict[str, np.ndarray]]) -> list[dict[str, Tensor]]:
        return [{name: torch.from_numpy(value) for name, value in target.items()} for target in targets]

    def predict(self, network: nn.Module, inputs: Tensor) -> list[Any]:
        return [None for _ in inputs]

    def tally(self, prediction: Any, target: Any) -> Any:
        return {}

    def score(self, tallies: Any, counts: np.ndarray) -> dict[str, np.ndarray]:
        return {}
