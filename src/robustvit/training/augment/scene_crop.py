"""Crops of scenes for segmenters and detectors: scaled by a random factor, cut where it is varied, flipped, padded.

One `ScenePlacement` is drawn per sample, and its image, its label map and its boxes are placed by it. The order is that of the
published recipes: resize, crop, flip, and padding last, so that what is missing lies to the right and below, flipped or not.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robustvit.data.label_maps import IGNORED
from robustvit.data.resizing import Size, Window, fitted_size, resize_image, resize_map
from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.placement import each_mapped

__all__ = ["SceneCrop", "ScenePlacement", "is_varied"]

Pixels = NDArray[np.uint8]
_REDRAWS = 10


class ScenePlacement(NamedTuple):
    """A window of a resized image, mirrored or not, in the upper left corner of a canvas.

    Attributes:
        original: (h, w) of the image.
        scaled: (h', w') that it is resized to.
        window: what is cut out, in pixels of the resized image.
        size: (H, W) of the canvas.
        is_flipped: left and right of the window are exchanged.
    """

    original: Size
    scaled: Size
    window: Window
    size: Size
    is_flipped: bool = False

    @property
    def shown(self) -> Size:
        """(height, width) of the canvas that shows the image; the rest is padding."""
        return self.window.height, self.window.width

    def paste(self, pixels: Pixels, into: Pixels) -> None:
        """Writes what the window sees of `pixels` [3, h, w] into an image [3, H, W] of the fill colour."""
        seen = resize_image(pixels, self.scaled, self.window)
        height, width = self.shown
        into[:, :height, :width] = seen[:, :, ::-1] if self.is_flipped else seen

    def map(self, values: NDArray[Any], fill: float) -> NDArray[Any]:
        """A map [h, w] or [h, w, C] of the image, such as the class of each pixel, by nearest pixels.

        Args:
            values: one value, or several, per pixel of the image.
            fill: of the padding.

        Returns:
            [H, W] or [H, W, C].
        """
        seen = resize_map(values, self.scaled, self.window)
        height, width = self.shown
        placed = np.full((*self.size, *values.shape[2:]), fill, values.dtype)
        placed[:height, :width] = seen[:, ::-1] if self.is_flipped else seen
        return placed

    def boxes(self, boxes: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Boxes [n, 4] of the image (x1, y1, x2, y2 in pixels), cut off at the window; those outside have no area left."""
        (h, w), (scaled_h, scaled_w), (height, width) = self.original, self.scaled, self.shown
        x = (boxes[:, 0::2] * (scaled_w / w) - self.window.left).clip(0, width)
        y = (boxes[:, 1::2] * (scaled_h / h) - self.window.top).clip(0, height)
        if self.is_flipped:
            x = width - x[:, ::-1]
        return np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1).astype(boxes.dtype)

    def masks(self, masks: NDArray[Any]) -> NDArray[Any]:
        """Masks [n, h, w] of objects in the image -> [n, H, W], by nearest pixels; 0 in the padding."""
        return each_mapped(self.map, masks, self.size)


class SceneCrop(NamedTuple):
    """Draws placements.

    Attributes:
        size: (H, W) of the result.
        ratio_range: the image is scaled by U(low, high) relative to `base_size`.
        base_size: (longer side, shorter side) that an image fits into at the factor 1; None takes that of each image.
        cat_max_ratio: a window is varied if no class has this share of its counted pixels; 1 for any window.
        flip: probability.
    """

    size: Size
    ratio_range: tuple[float, float]
    base_size: Size | None = None
    cat_max_ratio: float = 1.0
    flip: float = 0.5

    def draw(self, original: Size, seed: int, labels: Pixels | None = None) -> ScenePlacement:
        """The placement of the sample with this seed.

        A window that is not varied is drawn again, up to ten times. The tenth is taken as it is: a share q of bad positions
        leaves q^11 of bad crops.

        Args:
            original: (h, w) of the image.
            seed: of the sample.
            labels: [h, w], its label map; None takes the first window.
        """
        draw = Random(keyed_seed(seed, "scene"))
        low, high = self.ratio_range
        factor = low + draw.random() * (high - low)
        is_flipped = draw.random() < self.flip
        base = self.base_size or original
        limits = (max(1, int(max(base) * factor)), max(1, int(min(base) * factor)))
        scaled = fitted_size(original, limits)
        window = self._window(scaled, draw)
        if labels is not None and self.cat_max_ratio < 1 and window[2:] != scaled:
            for _ in range(_REDRAWS):
                if is_varied(resize_map(labels, scaled, window), self.cat_max_ratio):
                    break
                window = self._window(scaled, draw)
        return ScenePlacement(original, scaled, window, self.size, is_flipped)

    def _window(self, scaled: Size, draw: Random) -> Window:
        height, width = (min(side, limit) for side, limit in zip(scaled, self.size, strict=True))
        top, left = (int(draw.random() * (scaled[i] - side + 1)) for i, side in enumerate((height, width)))
        return Window(top, left, height, width)


def is_varied(labels: Pixels, most: float) -> bool:
    """Whether a label map has several classes, none of which has the share `most` of the pixels that count."""
    counts = np.array(Image.fromarray(labels).histogram()[:IGNORED])
    return bool(np.count_nonzero(counts) > 1 and counts.max() < most * counts.sum())
