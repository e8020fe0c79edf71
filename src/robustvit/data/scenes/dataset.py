"""`scenes`, the embedded dataset: textured shapes on cluttered grounds, in ten classes, at any size, without any file.

A scene is a function of (seed, index): image, label, semantic map, instance masks and boxes. It is the same scene at every
size, drawn with more detail on more pixels, and does not depend on what else is drawn with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from robustvit.data.scenes.layout import MOST_OBJECTS, Hints
from robustvit.data.scenes.paint import paint
from robustvit.data.scenes.shapes import CLASS_NAMES
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.randomness import keyed_seed

__all__ = ["CLASS_NAMES", "SEMANTIC_NAMES", "Hints", "Scene", "SceneBatch", "Scenes", "scene", "scenes_batch"]

SEMANTIC_NAMES: tuple[str, ...] = ("background", *CLASS_NAMES)
DEFAULT_HINTS = Hints()
SMALLEST_SIDE = 16
SMALLEST_INSTANCE = 12
"""Pixels that must be visible of an object to count as an instance."""
_PIXELS_AT_ONCE = 64 * 32 * 32  # what stays in the processor's cache

Size = int | tuple[int, int]


@dataclass(frozen=True)
class Scene:
    """One image and all that is known about it.

    Attributes:
        image: uint8 [3, H, W].
        label: the class, 0..9, of which an instance covers the most pixels.
        semantic: uint8 [H, W]: 0 is background, 1 + class elsewhere.
        masks: bool [n, H, W], the visible pixels of each instance; largest first.
        boxes: float32 [n, 4], x1, y1, x2, y2 tight around the visible pixels; right and bottom edges are exclusive.
        classes: int64 [n], 0..9.
    """

    image: Tensor
    label: int
    semantic: Tensor
    masks: Tensor
    boxes: Tensor
    classes: Tensor


@dataclass(frozen=True)
class SceneBatch:
    """B scenes; `batch[i]` is a `Scene`.

    Attributes:
        images: uint8 [B, 3, H, W].
        labels: int64 [B].
        semantic: uint8 [B, H, W].
        owners: uint8 [B, H, W]: 0 where the ground is seen, k where the k-th object is.
        object_classes: int64 [B, 4], of the objects.
    """

    images: Tensor
    labels: Tensor
    semantic: Tensor
    owners: Tensor
    object_classes: Tensor

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> Scene:
        masks = self.owners[i] == torch.arange(1, MOST_OBJECTS + 1, dtype=torch.uint8)[:, None, None]
        areas = masks.sum((1, 2))
        order = areas.argsort(descending=True, stable=True)
        order = order[areas[order] >= SMALLEST_INSTANCE]
        masks = masks[order]
        return Scene(
            self.images[i], int(self.labels[i]), self.semantic[i], masks, _boxes(masks), self.object_classes[i][order]
        )

    def __iter__(self) -> Iterator[Scene]:
        return (self[i] for i in range(len(self)))


def scene(seed: int, index: int, size: Size = 32, *, hints: Hints = DEFAULT_HINTS) -> Scene:
    """The scene with this seed and index; arguments as for `scenes_batch`."""
    return scenes_batch(seed, [index], size, hints=hints)[0]


def scenes_batch(seed: int, indices: Sequence[int], size: Size = 32, *, hints: Hints = DEFAULT_HINTS) -> SceneBatch:
    """Scenes drawn together, which is faster; each is what `scene` gives for it alone.

    Args:
        seed: of all of them.
        indices: any integers.
        size: side or (height, width) in pixels, 16 or more.
        hints: the shares of objects whose colour and texture tell their class, besides the shape. `Hints(0, 0)` leaves the
            shape alone; with `Hints(1, 1)` a network learns within seconds.
    """
    H, W = _height_width(size)
    if not all(0 <= share <= 1 for share in hints):
        raise ValueError(f"{hints} is not possible; give fractions from 0 (only the shape tells the class) to 1")
    B = len(indices)
    images, owners = np.empty((B, 3, H, W), dtype=np.uint8), np.empty((B, H, W), dtype=np.uint8)
    classes = np.empty((B, MOST_OBJECTS), dtype=np.int64)
    step = max(1, _PIXELS_AT_ONCE // (H * W))
    for start in range(0, B, step):
        part = slice(start, start + step)
        images[part], owners[part], objects = paint(seed, indices[part], (H, W), hints)
        classes[part] = objects.classes
    semantic, labels = _semantic(owners, classes)
    return SceneBatch(*(torch.from_numpy(array) for array in (images, labels, semantic, owners, classes)))


class Scenes(Dataset[tuple[Any, int]]):
    """`length` scenes as pairs (image, label); `scenes.scene(i)` has the dense annotations of the same image.

    Args:
        split: "train", "val", "test" or any other name; splits share no image.
        length: number of images.
        size: side or (height, width) in pixels.
        seed: another seed gives other images in every split.
        hints: see `scenes_batch`.
        transform: what happens to the uint8 [3, H, W] tensor of an image.
    """

    classes = CLASS_NAMES

    def __init__(
        self,
        split: str = "train",
        length: int = 10_000,
        size: Size = 32,
        *,
        seed: int = 0,
        hints: Hints = DEFAULT_HINTS,
        transform: Callable[[Tensor], Any] | None = None,
    ) -> None:
        if length < 1:
            raise ValueError(f"length={length} is not possible; give the number of images, at least 1")
        self.split, self.length, self.size = split, length, _height_width(size)
        self.seed, self.hints, self.transform = seed, hints, transform
        self.split_seed = keyed_seed(seed, split, "scenes split")

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, int]]:
        """What a `DataLoader` asks for: a batch is drawn at once."""
        batch = self.batch(indices)
        images = batch.images if self.transform is None else [self.transform(image) for image in batch.images]
        return list(zip(images, batch.labels.tolist(), strict=True))

    def scene(self, index: int) -> Scene:
        """Image `index` with its semantic map, masks and boxes; `transform` is not applied."""
        return self.batch([index])[0]

    def batch(self, indices: Sequence[int]) -> SceneBatch:
        """Some images with all annotations, drawn together; `transform` is not applied."""
        known = [self._checked(int(index)) for index in indices]
        return scenes_batch(self.split_seed, known, self.size, hints=self.hints)

    def tensors(self) -> tuple[Tensor, Tensor]:
        """The whole set in memory: images uint8 [length, 3, H, W] and labels [length]."""
        batch = self.batch(range(self.length))
        return batch.images, batch.labels

    def at_size(self, size: Size) -> Scenes:
        """The same scenes on other pixels."""
        return Scenes(self.split, self.length, size, seed=self.seed, hints=self.hints, transform=self.transform)

    def add_to(self, digest: Digest) -> None:
        """What the images are a function of."""
        digest.add(self.split, self.seed, self.length, self.size, self.hints, self.transform)

    def _checked(self, index: int) -> int:
        if not -self.length <= index < self.length:
            raise IndexError(f"image {index} of {self.length}; give an index from 0 to {self.length - 1}")
        return index % self.length


def _semantic(owners: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Semantic maps [B, H, W] and labels [B]."""
    B = len(owners)
    meaning = np.concatenate([np.zeros((B, 1), dtype=np.uint8), classes.astype(np.uint8) + 1], axis=1)
    semantic = meaning[np.arange(B)[:, None, None], owners]
    areas = np.stack([(owners == k + 1).sum((1, 2)) for k in range(MOST_OBJECTS)], axis=1)
    labels = np.take_along_axis(classes, areas.argmax(axis=1)[:, None], axis=1)[:, 0]
    return semantic, labels


def _boxes(masks: Tensor) -> Tensor:
    """[n, 4]: the tight box around each mask [n, H, W], which has at least one pixel."""
    edges = []
    for axis in (1, 2):  # columns that have a pixel, then rows
        seen = masks.any(axis).to(torch.uint8)
        first, last = seen.argmax(1), seen.shape[1] - seen.flip(1).argmax(1)
        edges.append((first, last))
    (left, right), (top, bottom) = edges
    return torch.stack([left, top, right, bottom], dim=1).float()


def _height_width(size: Size) -> tuple[int, int]:
    H, W = (size, size) if isinstance(size, int) else size
    if min(H, W) < SMALLEST_SIDE:
        raise ValueError(f"scenes of {H}x{W} pixels cannot be drawn; give at least {SMALLEST_SIDE}x{SMALLEST_SIDE}")
    return int(H), int(W)
