"""What happens to a training image on its own: crop, flip, RandAugment or colour jitter. Each draw comes from its seed.

An image is first brought to a *base* that can be kept in memory: scaled to the final size, or, where a crop of random area
is to be taken, as it was decoded. Crop and flip of a base at the final size are copies of rows and columns, for a whole batch
in one go: this is the path of 32-pixel images, where every microsecond counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.keyed_timm import keyed_copy, reseed
from robustvit.training.augment.multiscale_crop import MultiscalePlacement
from robustvit.training.augment.photometric import Photometric
from robustvit.training.augment.placement import Placement
from robustvit.training.augment.scene_crop import ScenePlacement
from robustvit.training.augment.views import RandAugmentPair, jitter_colors
from robustvit.training.config import AugmentConfig

__all__ = ["Augmentation", "Augmented", "distorted"]

Pixels = NDArray[np.uint8]
_PADDING = 8  # the padding is the size over this


class Augmented(NamedTuple):
    """b training images.

    Attributes:
        images: uint8 [b, 3, H, W].
        view: the same with the spatial augmentations alone; None where nobody asked for it.
        placements: how the bases were cropped, resized and flipped. RandAugment's own rotations, shears and shifts come after
            these, and no target can follow them.
    """

    images: Pixels
    view: Pixels | None
    placements: Sequence[Placement | ScenePlacement | MultiscalePlacement]


class Augmentation:
    """Turns bases into training images.

    Args:
        config: what to do.
        size: (H, W) of the result.
        seed: of the run; draws the filter that scales an image once for all epochs.
        mean: of the normalisation, whose colour fills what lies outside an image.
        with_view: make the spatial view too.

    Raises:
        ValueError: a setting that is not possible.
    """

    def __init__(
        self, config: AugmentConfig, size: tuple[int, int], *, seed: int, mean: Sequence[float], with_view: bool = False
    ) -> None:
        self.config, self.size, self.seed, self.with_view = config, size, seed, with_view
        self.fill = tuple(min(255, round(255 * value)) for value in mean)
        self.rand_augment = (
            RandAugmentPair(config.rand_augment, fill=self.fill, size=size, interpolation=config.interpolation)
            if config.rand_augment
            else None
        )
        self.pads = (size[0] // _PADDING, size[1] // _PADDING) if config.crop == "padded" else (0, 0)
        self.has_colors = self.rand_augment is not None or config.color_jitter > 0

    def base(self, image: Image.Image | Pixels, name: str) -> tuple[Pixels, Placement | None]:
        """An RGB image or uint8 H x W x 3 -> what the epochs start from.

        Returns:
            uint8 [3, H, W] at the final size; for crop="resized" [h, w, 3] as it came. And how it was scaled, None for not.
        """
        if self.config.crop == "resized":
            return np.asarray(image), None
        height, width = image.shape[:2] if isinstance(image, np.ndarray) else image.size[::-1]
        placement = None
        if (height, width) != self.size:
            placement = Placement(0, 0, height, width, self.size, False, self._filter(keyed_seed(self.seed, name, "filter")))
            image = placement.image(Image.fromarray(image) if isinstance(image, np.ndarray) else image)
        return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)), placement  # H W 3 -> 3 H W

    def __call__(self, bases: Sequence[Pixels], seeds: Sequence[int], targets: Sequence[Any] = ()) -> Augmented:
        """The training images of b bases, from the seeds of their samples; targets have no say in it."""
        made = self._placed(bases, seeds)
        return made._replace(images=distorted(made.images, seeds)) if self.config.photometric else made

    def _placed(self, bases: Sequence[Pixels], seeds: Sequence[int]) -> Augmented:
        if self.config.crop == "resized":
            placements = [self._resized_crop(base, seed) for base, seed in zip(bases, seeds, strict=True)]
            pairs = zip(bases, placements, strict=True)
            cropped = [placement.image(Image.fromarray(base)) for base, placement in pairs]
            return Augmented(*self._colored(cropped, seeds), placements)
        placements = self._windows(seeds)
        images = self._cut(bases, placements)
        if self.has_colors:
            colored = self._colored([Image.fromarray(image) for image in _channels_last(images)], seeds)
            return Augmented(*colored, placements)
        return Augmented(images, images if self.with_view else None, placements)

    def _filter(self, key: int) -> Image.Resampling:
        name = self.config.interpolation
        if name == "random":
            name = "bicubic" if key & 1 else "bilinear"
        return Image.Resampling[name.upper()]

    def _is_flipped(self, seeds: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return _sixteen_bits(seeds, 0) < self.config.flip * 2**16

    def _windows(self, seeds: Sequence[int]) -> list[Placement]:
        """Windows of the final size, which a padded image reaches beyond."""
        keys, (H, W) = np.array(seeds, dtype=np.uint64), self.size
        tops, lefts = (
            (_sixteen_bits(keys, shift) * (2 * pad + 1) >> 16) - pad for shift, pad in zip((16, 32), self.pads, strict=True)
        )
        places = zip(tops.tolist(), lefts.tolist(), self._is_flipped(keys).tolist(), strict=True)
        return [Placement(top, left, H, W, self.size, is_flipped) for top, left, is_flipped in places]

    def _cut(self, bases: Sequence[Pixels], windows: Sequence[Placement]) -> Pixels:
        """Pads by copying what a window sees of its image into an image of the fill colour."""
        images = np.empty((len(bases), 3, *self.size), np.uint8)
        if any(self.pads):
            images[:] = np.array(self.fill, np.uint8)[:, None, None]
        for image, base, window in zip(images, bases, windows, strict=True):
            window.paste(base, image)
        return images

    def _resized_crop(self, base: Pixels, seed: int) -> Placement:
        image = Image.fromarray(base)
        reseed(keyed_seed(seed, "crop"))
        crop = keyed_copy("transforms").RandomResizedCropAndInterpolation
        top, left, height, width = crop.get_params(image, self.config.scale, self.config.ratio)
        height, width = max(1, height), max(1, width)  # timm's rounding may leave nothing of a tiny image
        top, left = min(top, image.height - height), min(left, image.width - width)
        is_flipped = bool(self._is_flipped(np.array([seed], np.uint64))[0])
        return Placement(top, left, height, width, self.size, is_flipped, self._filter(keyed_seed(seed, "filter")))

    def _colored(self, images: Sequence[Image.Image], seeds: Sequence[int]) -> tuple[Pixels, Pixels | None]:
        pairs = [self._colored_pair(image, seed) for image, seed in zip(images, seeds, strict=True)]
        students = _stacked([student for student, _ in pairs])
        return students, _stacked([view for _, view in pairs if view is not None]) if self.with_view else None

    def _colored_pair(self, image: Image.Image, seed: int) -> tuple[Image.Image, Image.Image | None]:
        if self.rand_augment is not None:
            return self.rand_augment(image, seed, with_view=self.with_view)
        strength = self.config.color_jitter
        return jitter_colors(image, seed, strength) if strength else image, image if self.with_view else None


def distorted(images: Pixels, seeds: Sequence[int]) -> Pixels:
    """Photometric distortion of uint8 [b, 3, H, W]; see `Photometric`."""
    return np.stack([Photometric.draw(seed)(image) for image, seed in zip(images, seeds, strict=True)])


def _sixteen_bits(keys: NDArray[np.uint64], shift: int) -> NDArray[np.int64]:
    """[b] of 0 .. 65535. A seed is a hash already, so its bits serve as draws."""
    return (keys >> np.uint64(shift) & np.uint64(0xFFFF)).astype(np.int64)


def _channels_last(images: Pixels) -> Pixels:
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1))


def _stacked(images: Sequence[Image.Image]) -> Pixels:
    return np.ascontiguousarray(np.stack([np.asarray(image) for image in images]).transpose(0, 3, 1, 2))
