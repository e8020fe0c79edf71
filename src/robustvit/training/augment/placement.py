"""Where an image lands when it is cropped, resized and flipped: drawn once per sample, applied to its image and its target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["Placement", "each_mapped"]

PlaceMap = Callable[[NDArray[Any], float], NDArray[Any]]


class Placement(NamedTuple):
    """A window of an image, scaled to a size, mirrored or not.

    Attributes:
        top, left, height, width: the window in pixels of the image; it may reach beyond the image.
        size: (H, W) of the result.
        is_flipped: left and right are exchanged, last of all.
        filter: that scales images. Maps take the nearest pixel.
    """

    top: int
    left: int
    height: int
    width: int
    size: tuple[int, int]
    is_flipped: bool = False
    filter: Image.Resampling = Image.Resampling.BILINEAR

    @property
    def shown(self) -> tuple[int, int]:
        """(height, width) of the result that is no padding: all of it, margins of the mean colour included."""
        return self.size

    def image(self, image: Image.Image) -> Image.Image:
        """The image in the window, which lies within it."""
        H, W = self.size
        if (self.top, self.left, self.width, self.height) != (0, 0, *image.size):
            image = image.crop((self.left, self.top, self.left + self.width, self.top + self.height))
        image = image.resize((W, H), self.filter)
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if self.is_flipped else image

    def paste(self, pixels: NDArray[np.uint8], into: NDArray[np.uint8]) -> None:
        """Copies what the window sees of `pixels` [3, h, w], without scaling, into an image [3, H, W] of the fill colour."""
        y, x = self.top, self.left
        H, W = self.size
        target = into[:, :, ::-1] if self.is_flipped else into
        seen = pixels[:, max(y, 0) : H + y, max(x, 0) : W + x]
        top, left = max(-y, 0), max(-x, 0)
        target[:, top : top + seen.shape[1], left : left + seen.shape[2]] = seen

    def map(self, values: NDArray[Any], fill: float) -> NDArray[Any]:
        """A map [h, w] or [h, w, C] of the image, such as the class of each pixel, by nearest pixels.

        Args:
            values: one value, or several, per pixel of the image.
            fill: what lies beyond the image.

        Returns:
            [H, W] or [H, W, C].
        """
        (H, W), (h, w) = self.size, values.shape[:2]
        rows, columns = _nearest(self.top, self.height, H), _nearest(self.left, self.width, W)
        columns = columns[::-1] if self.is_flipped else columns
        is_row, is_column = (rows >= 0) & (rows < h), (columns >= 0) & (columns < w)
        placed = np.full((H, W, *values.shape[2:]), fill, values.dtype)
        placed[np.ix_(is_row, is_column)] = values[np.ix_(rows[is_row], columns[is_column])]
        return placed

    def boxes(self, boxes: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Boxes [n, 4] of the image (x1, y1, x2, y2 in pixels), cut off at the edges; those outside have no area left."""
        H, W = self.size
        x = (boxes[:, 0::2] - self.left) * (W / self.width)
        y = (boxes[:, 1::2] - self.top) * (H / self.height)
        if self.is_flipped:
            x = W - x[:, ::-1]
        x, y = x.clip(0, W), y.clip(0, H)
        return np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1).astype(boxes.dtype)

    def masks(self, masks: NDArray[Any]) -> NDArray[Any]:
        """Masks [n, h, w] of objects in the image -> [n, H, W], by nearest pixels; 0 beyond the image."""
        return each_mapped(self.map, masks, self.size)


def each_mapped(place: PlaceMap, masks: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """Masks [n, h, w], each placed as a map on a canvas of 0 -> [n, H, W]."""
    placed = np.empty((len(masks), *size), masks.dtype)
    for i, mask in enumerate(masks):
        placed[i] = place(mask, 0)
    return placed


def _nearest(start: int, length: int, count: int) -> NDArray[np.int64]:
    """The pixels under the centres of `count` equal parts of start .. start + length."""
    return np.floor(start + (np.arange(count) + 0.5) * length / count).astype(np.int64)
