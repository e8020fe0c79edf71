"""The embedded dataset with boxes and masks: ten classes, which can be drawn many at a time and at any size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robustvit.data.object_samples import ObjectSamples
from robustvit.data.palettes import distinct_colours
from robustvit.data.samples import Sample
from robustvit.data.scenes.dataset import CLASS_NAMES, Scene, Scenes
from robustvit.metrics.box_matching import Labelled
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.run_lengths import RunLengths

__all__ = ["SceneObjects"]


class SceneObjects(ObjectSamples):
    """Scenes with their objects; ids are those of `SceneSamples`, so that a scene is corrupted as there."""

    classes = CLASS_NAMES
    palette = distinct_colours(len(CLASS_NAMES), [(64, 64, 64)])  # those of `SceneMaps`
    category_ids = None
    image_ids = None
    has_targets = True
    has_masks = True
    problems = ()

    def __init__(self, dataset: Scenes, name: str) -> None:
        self.dataset, self.name = dataset, name

    def __len__(self) -> int:
        return len(self.dataset)

    def at(self, i: int) -> Sample:
        scene = _Scene(self, i)
        return Sample(str(i), scene.open, scene.target)

    def at_size(self, size: tuple[int, int]) -> SceneObjects:
        """The same scenes on (H, W) pixels."""
        return SceneObjects(self.dataset.at_size(size), self.name)

    def read_many(self, positions: Sequence[int]) -> list[tuple[NDArray[np.uint8], Labelled]]:
        """(image uint8 H x W x 3, objects) of some positions, drawn together, which is faster."""
        batch = self.dataset.batch(positions)
        images = batch.images.permute(0, 2, 3, 1).numpy()  # B 3 H W -> B H W 3
        return [(image, _objects(scene)) for image, scene in zip(images, batch, strict=True)]

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """What the scenes are a function of."""
        self.dataset.add_to(digest)
        digest.add(None if positions is None else list(positions))


def _objects(scene: Scene) -> Labelled:
    masks = RunLengths.from_dense(scene.masks.numpy())
    n = len(masks)
    return Labelled(
        boxes=scene.boxes.numpy().astype(np.float64),
        classes=scene.classes.numpy(),
        areas=masks.areas().astype(np.float64),
        is_crowd=np.zeros(n, bool),
        masks=masks,
    )


class _Scene:
    """Scene i of a set: drawing its image draws its objects as well, which are kept."""

    def __init__(self, samples: SceneObjects, i: int) -> None:
        self.samples, self.position = samples, i
        self.objects: Labelled | None = None

    def open(self) -> Image.Image:
        image, self.objects = self.samples.read_many([self.position])[0]
        return Image.fromarray(image)

    def target(self) -> Labelled:
        if self.objects is None:
            self.objects = self.samples.read_many([self.position])[0][1]
        return self.objects
