"""Scenes at many sizes, as published detectors are trained: flip; then, for one half of the images, resize and crop; resize.

One `MultiscalePlacement` is drawn per sample, and its image, its maps, boxes and masks are placed by it, step by step in that
order, as published: an image that is cropped is resized twice, and its masks take the nearest pixel twice. One resizing in
their place would give slightly other pixels. A crop without any object is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robustvit.data.resizing import Size, Window, fitted_size, resize_image, resize_map
from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.placement import each_mapped

__all__ = ["MULTIPLE", "MultiscaleCrop", "MultiscalePlacement"]

Pixels = NDArray[np.uint8]
MULTIPLE = 32
"""Of the sides of a canvas: the stride of the coarsest map of a backbone."""


class MultiscalePlacement(NamedTuple):
    """An image that is mirrored or not, resized, cropped and resized again, in the upper left corner of a canvas.

    Attributes:
        original: (h, w) of the image.
        is_flipped: left and right of the image are exchanged, first of all.
        first: (h', w') that it is resized to before the crop; the original where nothing is cropped.
        window: what is cut out, in pixels of the resized image; all of it where nothing is cropped.
        shown: (h'', w'') that the window is resized to: what shows the image on the canvas. The rest is padding.
        size: (H, W) of the canvas.
    """

    original: Size
    is_flipped: bool
    first: Size
    window: Window
    shown: Size
    size: Size

    def paste(self, pixels: Pixels, into: Pixels) -> None:
        """Writes `pixels` [3, h, w] into an image [3, H, W] of the fill colour."""
        height, width = self.shown
        cut = resize_image(pixels[:, :, ::-1] if self.is_flipped else pixels, self.first, self.window)
        into[:, :height, :width] = resize_image(cut, self.shown)

    def map(self, values: NDArray[Any], fill: float) -> NDArray[Any]:
        """A map [h, w] or [h, w, C] of the image, such as the class of each pixel, by nearest pixels.

        Args:
            values: one value, or several, per pixel of the image.
            fill: of the padding.

        Returns:
            [H, W] or [H, W, C].
        """
        height, width = self.shown
        cut = resize_map(values[:, ::-1] if self.is_flipped else values, self.first, self.window)
        placed = np.full((*self.size, *values.shape[2:]), fill, values.dtype)
        placed[:height, :width] = resize_map(cut, self.shown)
        return placed

    def boxes(self, boxes: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Boxes [n, 4] of the image (x1, y1, x2, y2 in pixels), cut off at the window; those outside have no area left."""
        (h, w), (first_h, first_w), (height, width) = self.original, self.first, self.shown
        top, left, window_h, window_w = self.window
        x, y = boxes[:, 0::2], boxes[:, 1::2]
        if self.is_flipped:
            x = w - x[:, ::-1]
        x = (x * (first_w / w) - left).clip(0, window_w) * (width / window_w)
        y = (y * (first_h / h) - top).clip(0, window_h) * (height / window_h)
        return np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1).astype(boxes.dtype)

    def masks(self, masks: NDArray[Any]) -> NDArray[Any]:
        """Masks [n, h, w] of objects in the image -> [n, H, W], by nearest pixels; 0 in the padding."""
        return each_mapped(self.map, masks, self.size)


class MultiscaleCrop(NamedTuple):
    """Draws placements.

    Attributes:
        short_sides: of which one is drawn; the shorter side becomes that long,
        long_side: unless the longer side then is longer than this.
        first_short_sides: the same, before a crop; empty for no crops.
        crop_range: least and greatest height and width of a crop, each cut down to that of the image.
        flip: probability.
    """

    short_sides: Sequence[int]
    long_side: int
    first_short_sides: Sequence[int] = ()
    crop_range: tuple[int, int] = (384, 600)
    flip: float = 0.5

    def draw(self, original: Size, seed: int, labels: Pixels | None = None) -> MultiscalePlacement:
        """The placement of the sample with this seed, on a canvas of its own; labels have no say in it.

        Args:
            original: (h, w) of the image.
            seed: of the sample.
        """
        draw = Random(keyed_seed(seed, "multiscale"))
        is_flipped = draw.random() < self.flip
        is_cropped = draw.random() < 0.5 and len(self.first_short_sides) > 0
        first, window = original, Window(0, 0, *original)
        if is_cropped:
            first = self._resized(original, self.first_short_sides, draw)
            window = self._window(first, draw)
        shown = self._resized((window.height, window.width), self.short_sides, draw)
        height, width = (-(-side // MULTIPLE) * MULTIPLE for side in shown)
        return MultiscalePlacement(original, is_flipped, first, window, shown, (height, width))

    def _resized(self, size: Size, short_sides: Sequence[int], draw: Random) -> Size:
        return fitted_size(size, (self.long_side, short_sides[int(draw.random() * len(short_sides))]))

    def _window(self, size: Size, draw: Random) -> Window:
        low, high = self.crop_range
        height, width = (_whole(draw, min(side, low), min(side, high)) for side in size)
        return Window(_whole(draw, 0, size[0] - height), _whole(draw, 0, size[1] - width), height, width)


def _whole(draw: Random, low: int, high: int) -> int:
    """A whole number, `low` and `high` included."""
    return low + int(draw.random() * (high - low + 1))
