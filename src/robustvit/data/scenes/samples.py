"""The embedded dataset as samples with labels, which can be drawn many at a time and at any size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robustvit.data.samples import DatasetSamples
from robustvit.data.scenes.dataset import Scenes

__all__ = ["SceneSamples"]


class SceneSamples(DatasetSamples):
    """Scenes with the class of the largest object."""

    dataset: Scenes

    def at_size(self, size: tuple[int, int]) -> SceneSamples:
        """The same scenes on (H, W) pixels."""
        return SceneSamples(self.dataset.at_size(size), self.name)

    def read_many(self, positions: Sequence[int]) -> list[tuple[NDArray[np.uint8], int]]:
        """(image uint8 H x W x 3, label) of some positions, drawn together, which is faster."""
        batch = self.dataset.batch(positions)
        images = batch.images.permute(0, 2, 3, 1).numpy()  # B 3 H W -> B H W 3
        return list(zip(images, batch.labels.tolist(), strict=True))
