"""What happens to a training scene on its own: a crop (`scene_crop`, `multiscale_crop`), then photometric distortion.

Drawn from its seed. Images of a batch share one canvas, the smallest that all of them fit on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robustvit.training.augment.augmentation import Augmented, distorted
from robustvit.training.augment.multiscale_crop import MultiscaleCrop, MultiscalePlacement
from robustvit.training.augment.scene_crop import SceneCrop, ScenePlacement
from robustvit.training.config import AugmentConfig

__all__ = ["SceneAugmentation"]

Pixels = NDArray[np.uint8]
AnyPlacement = ScenePlacement | MultiscalePlacement


class SceneAugmentation:
    """Turns whole scenes into training images.

    Args:
        config: what to do.
        size: (H, W) of the result of crop="scene"; that of "multiscale" is another one in each batch.
        mean: of the normalisation, whose colour, rounded, fills the padding. `inputs.prepare` sets that to 0 after
            normalising, as published recipes pad: no 8-bit colour becomes 0 exactly.
        with_view: make the spatial view too: without photometric distortion.
    """

    def __init__(
        self, config: AugmentConfig, size: tuple[int, int], *, mean: Sequence[float], with_view: bool = False
    ) -> None:
        self.with_view, self.is_distorted = with_view, config.photometric
        self.crop: SceneCrop | MultiscaleCrop
        if config.crop == "multiscale":
            sides = (config.short_sides, config.long_side, config.first_short_sides)
            self.crop, self.cat_max_ratio = MultiscaleCrop(*sides, config.crop_range, config.flip), 1.0
        else:
            self.crop = SceneCrop(size, config.ratio_range, config.base_size, config.cat_max_ratio, config.flip)
            self.cat_max_ratio = config.cat_max_ratio
        self.fill = tuple(min(255, round(255 * value)) for value in mean)

    def base(self, image: Image.Image | Pixels, name: str) -> tuple[Pixels, None]:
        """An RGB image or uint8 h x w x 3 -> uint8 [3, h, w], at its own size."""
        return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)), None

    def __call__(self, bases: Sequence[Pixels], seeds: Sequence[int], targets: Sequence[Any]) -> Augmented:
        """The training images of b bases, from the seeds of their samples.

        Args:
            bases: uint8 [3, h, w], each of its own size.
            seeds: of the samples.
            targets: label maps uint8 [h, w], which say where a crop is varied; or records, such as the objects in an image.

        Raises:
            ValueError: `cat_max_ratio` is asked for, and a target is an array or a number, but not a label map.
        """
        placements = self._placements(bases, seeds, targets)
        images = np.empty((len(bases), 3, *placements[0].size), np.uint8)
        images[:] = np.array(self.fill, np.uint8)[:, None, None]
        for image, base, placement in zip(images, bases, placements, strict=True):
            placement.paste(base, image)
        view = images if self.with_view else None
        return Augmented(distorted(images, seeds) if self.is_distorted else images, view, placements)

    def _placements(self, bases: Sequence[Pixels], seeds: Sequence[int], targets: Sequence[Any]) -> list[AnyPlacement]:
        """Those of the samples, on the canvas that they share."""
        drawn: list[AnyPlacement] = [
            self.crop.draw(base.shape[1:], seed, self._labels(target, base.shape[1:]))
            for base, seed, target in zip(bases, seeds, targets, strict=True)
        ]
        height, width = (max(sides) for sides in zip(*(placement.size for placement in drawn), strict=True))
        return [placement._replace(size=(height, width)) for placement in drawn]

    def _labels(self, target: Any, size: tuple[int, int]) -> Pixels | None:
        if self.cat_max_ratio >= 1 or isinstance(target, tuple | Mapping):
            return None
        if not isinstance(target, np.ndarray) or target.shape != size or target.dtype != np.uint8:
            shape = getattr(target, "shape", type(target).__name__)
            raise ValueError(
                f"augment.cat_max_ratio={self.cat_max_ratio} looks at label maps, and a target is {shape}; expected "
                f"uint8 {list(size)}, the size of its image; or set it to 1"
            )
        return target
