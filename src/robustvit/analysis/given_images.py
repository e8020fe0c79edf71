"""The images that somebody gave: a file, a folder, or whatever `Task.open` takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robustvit.data.layouts import SCENES, LayoutError, open_samples
from robustvit.data.readers.loose_images import loose_images
from robustvit.data.sample_digest import add_samples
from robustvit.data.samples import IMAGE_SUFFIXES, Sample, SampleSet, SomeSamples
from robustvit.runtime.fingerprint import Digest
from robustvit.tasks.base import Task

__all__ = ["MixedSamples", "images_at"]


class MixedSamples:
    """The images of a set in an order drawn by the seed, so that the first ones are of many classes.

    Args:
        pictures: a set with `at`.
        seed: of the order.
    """

    def __init__(self, pictures: Any, seed: int) -> None:
        self.pictures, self.name, self.classes = pictures, pictures.name, pictures.classes
        self.order = np.random.default_rng(seed).permutation(len(pictures)).tolist()

    def __len__(self) -> int:
        return len(self.pictures)

    def __iter__(self) -> Iterator[Sample]:
        yield from map(self.at, range(len(self)))

    def at(self, i: int) -> Sample:
        return self.pictures.at(self.order[i])

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """The images in their order."""
        places = self.order if positions is None else [self.order[i] for i in positions]
        digest.add_array(np.asarray(places, np.int64))
        add_samples(digest, self.pictures, places)


def images_at(
    images: Any,
    size: tuple[int, int],
    limit: int | None = None,
    seed: int = 0,
    *,
    ignore_orientation: bool = False,
    task: Task | None = None,
) -> SampleSet:
    """The images of a file, of a folder, or of whatever `open_samples` takes; the first `limit` of them.

    Files without labels and generated images keep their order; those of class folders and archives are mixed.

    Args:
        images: an image, a folder of images, or what `open_samples` takes; a set of images is taken as it is.
        size: (H, W) of the images of the embedded dataset.
        limit: how many.
        seed: of the mixing.
        ignore_orientation: see `read_image`.
        task: whose datasets are opened, where they are not images alone; None for classification.
    """
    found: SampleSet | None = images
    if isinstance(images, str | Path):
        found = loose_images(Path(images), ignore_orientation=ignore_orientation)
        if found is None:
            try:
                opened = open_samples if task is None else task.open
                found = opened(images, scene_size=size, ignore_orientation=ignore_orientation)
            except LayoutError:
                _check_folder(Path(images))
                raise
            keeps_order = str(images).partition(":")[0] in SCENES or not hasattr(found, "at")
            found = found if keeps_order else MixedSamples(found, seed)
    assert found is not None
    if len(found) == 0:
        raise LayoutError(f"{found.name} has no images")
    return found if limit is None or limit >= len(found) else SomeSamples(found, range(limit))


def _check_folder(path: Path) -> None:
    if path.is_dir() and not any(file.suffix.lower() in IMAGE_SUFFIXES for file in path.rglob("*")):
        kinds = ", ".join(sorted(IMAGE_SUFFIXES))
        raise LayoutError(f"{path} has no images ({kinds}); give an image, a folder of images or one of class folders")
