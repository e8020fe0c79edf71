"""The embedded dataset with label maps: background and ten classes, which can be drawn many at a time and at any size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robustvit.data.map_samples import MapSamples
from robustvit.data.palettes import distinct_colours
from robustvit.data.samples import Sample
from robustvit.data.scenes.dataset import SEMANTIC_NAMES, Scenes
from robustvit.runtime.fingerprint import Digest

__all__ = ["SceneMaps"]


class SceneMaps(MapSamples):
    """Scenes with the class of every pixel; ids are those of `SceneSamples`, so that a scene is corrupted as there."""

    classes = SEMANTIC_NAMES
    palette = ((64, 64, 64), *distinct_colours(len(SEMANTIC_NAMES) - 1, [(64, 64, 64)]))
    label_ids = None
    has_targets = True

    def __init__(self, dataset: Scenes, name: str) -> None:
        self.dataset, self.name = dataset, name

    def __len__(self) -> int:
        return len(self.dataset)

    def at(self, i: int) -> Sample:
        scene = _Scene(self, i)
        return Sample(str(i), scene.open, scene.target)

    def at_size(self, size: tuple[int, int]) -> SceneMaps:
        """The same scenes on (H, W) pixels."""
        return SceneMaps(self.dataset.at_size(size), self.name)

    def read_many(self, positions: Sequence[int]) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
        """(image uint8 H x W x 3, label map uint8 H x W) of some positions, drawn together, which is faster."""
        batch = self.dataset.batch(positions)
        images = batch.images.permute(0, 2, 3, 1).numpy()  # B 3 H W -> B H W 3
        return list(zip(images, batch.semantic.numpy(), strict=True))

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """What the scenes are a function of."""
        self.dataset.add_to(digest)
        digest.add(None if positions is None else list(positions))


class _Scene:
    """Scene i of a set: drawing its image draws its label map as well, which is kept."""

    def __init__(self, samples: SceneMaps, i: int) -> None:
        self.samples, self.position = samples, i
        self.label_map: NDArray[np.uint8] | None = None

    def open(self) -> Image.Image:
        image, self.label_map = self.samples.read_many([self.position])[0]
        return Image.fromarray(image)

    def target(self) -> NDArray[np.uint8]:
        if self.label_map is None:
            self.label_map = self.samples.read_many([self.position])[0][1]
        return self.label_map
