"""What happens to a training picture on its own: crop, flip, RandAugment or colour jitter. Each draw comes from its seed.

A picture is first brought to a *base* that can be kept in memory: scaled to the final size, or, where a crop of random area
is to be taken, as it was decoded. Crop and flip of a base at the final size are copies of rows and columns, for a whole batch
in one go: this is the path of 32-pixel pictures, where every microsecond counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.keyed_timm import keyed_copy, reseed
from robustvit.training.augment.views import RandAugmentPair, jitter_colors
from robustvit.training.config import AugmentConfig

__all__ = ["Augmentation"]

Pixels = NDArray[np.uint8]
_PADDING = 8  # the padding is the size over this


@dataclass(frozen=True)
class _Windows:
    """Where b padded pictures are cut, and which are flipped: [b] each."""

    tops: NDArray[np.int64]
    lefts: NDArray[np.int64]
    flips: NDArray[np.bool_]


class Augmentation:
    """Turns bases into training pictures.

    Args:
        config: what to do.
        size: (H, W) of the result.
        seed: of the run; draws the filter that scales a picture once for all epochs.
        mean: of the normalisation, whose colour fills what lies outside a picture.
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

    def base(self, image: Image.Image | Pixels, name: str) -> Pixels:
        """An RGB image or uint8 H x W x 3 -> what the epochs start from.

        Returns:
            uint8 [3, H, W] at the final size; for crop="resized" [h, w, 3] as it came.
        """
        if self.config.crop == "resized":
            return np.asarray(image)
        H, W = self.size
        height, width = image.shape[:2] if isinstance(image, np.ndarray) else image.size[::-1]
        if (height, width) != (H, W):
            image = Image.fromarray(image) if isinstance(image, np.ndarray) else image
            image = image.resize((W, H), self._filter(keyed_seed(self.seed, name, "filter")))
        return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))  # H W 3 -> 3 H W

    def __call__(self, bases: Sequence[Pixels], seeds: Sequence[int]) -> tuple[Pixels, Pixels | None]:
        """(training pictures uint8 [b, 3, H, W], their spatial views or None) of b bases and the seeds of their samples."""
        if self.config.crop == "resized":
            cropped = [self._resized_crop(base, seed) for base, seed in zip(bases, seeds, strict=True)]
            return self._colored(cropped, seeds)
        images = self._cut(bases, self._windows(seeds))
        if self.has_colors:
            return self._colored([Image.fromarray(image) for image in _channels_last(images)], seeds)
        return images, images if self.with_view else None

    def _filter(self, key: int) -> Image.Resampling:
        name = self.config.interpolation
        if name == "random":
            name = "bicubic" if key & 1 else "bilinear"
        return Image.Resampling[name.upper()]

    def _is_flipped(self, seeds: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return _sixteen_bits(seeds, 0) < self.config.flip * 2**16

    def _windows(self, seeds: Sequence[int]) -> _Windows:
        keys = np.array(seeds, dtype=np.uint64)
        tops, lefts = (
            _sixteen_bits(keys, shift) * (2 * pad + 1) >> 16 for shift, pad in zip((16, 32), self.pads, strict=True)
        )
        return _Windows(tops, lefts, self._is_flipped(keys))

    def _cut(self, bases: Sequence[Pixels], windows: _Windows) -> Pixels:
        """Pads by copying what a window sees of its picture into a picture of the fill colour."""
        (H, W), (pad_y, pad_x) = self.size, self.pads
        images = np.empty((len(bases), 3, H, W), np.uint8)
        if pad_y or pad_x:
            images[:] = np.array(self.fill, np.uint8)[:, None, None]
        places = zip((windows.tops - pad_y).tolist(), (windows.lefts - pad_x).tolist(), windows.flips.tolist(), strict=True)
        for image, base, (y, x, is_flipped) in zip(images, bases, places, strict=True):
            target = image[:, :, ::-1] if is_flipped else image
            seen = base[:, max(y, 0) : H + y, max(x, 0) : W + x]
            top, left = max(-y, 0), max(-x, 0)
            target[:, top : top + seen.shape[1], left : left + seen.shape[2]] = seen
        return images

    def _resized_crop(self, base: Pixels, seed: int) -> Image.Image:
        H, W = self.size
        image = Image.fromarray(base)
        reseed(keyed_seed(seed, "crop"))
        crop = keyed_copy("transforms").RandomResizedCropAndInterpolation
        top, left, height, width = crop.get_params(image, self.config.scale, self.config.ratio)
        height, width = max(1, height), max(1, width)  # timm's rounding may leave nothing of a tiny picture
        top, left = min(top, image.height - height), min(left, image.width - width)
        image = image.crop((left, top, left + width, top + height)).resize((W, H), self._filter(keyed_seed(seed, "filter")))
        is_flipped = self._is_flipped(np.array([seed], np.uint64))[0]
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if is_flipped else image

    def _colored(self, images: Sequence[Image.Image], seeds: Sequence[int]) -> tuple[Pixels, Pixels | None]:
        pairs = [self._colored_pair(image, seed) for image, seed in zip(images, seeds, strict=True)]
        students = _stacked([student for student, _ in pairs])
        return students, _stacked([view for _, view in pairs if view is not None]) if self.with_view else None

    def _colored_pair(self, image: Image.Image, seed: int) -> tuple[Image.Image, Image.Image | None]:
        if self.rand_augment is not None:
            return self.rand_augment(image, seed, with_view=self.with_view)
        strength = self.config.color_jitter
        return jitter_colors(image, seed, strength) if strength else image, image if self.with_view else None


def _sixteen_bits(keys: NDArray[np.uint64], shift: int) -> NDArray[np.int64]:
    """[b] of 0 .. 65535. A seed is a hash already, so its bits serve as draws."""
    return (keys >> np.uint64(shift) & np.uint64(0xFFFF)).astype(np.int64)


def _channels_last(images: Pixels) -> Pixels:
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1))


def _stacked(images: Sequence[Image.Image]) -> Pixels:
    return np.ascontiguousarray(np.stack([np.asarray(image) for image in images]).transpose(0, 3, 1, 2))
