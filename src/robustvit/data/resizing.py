"""Resizing as dense prediction does it: images bilinearly without anti-aliasing, label maps by the nearest pixel.

The centres of pixels lie at + 0.5. Where an image shrinks, most other programs blur it first (Pillow, torchvision by default);
the published segmenters and detectors are trained and measured without. A window of the resized image is computed from the
pixels that it shows alone, and is equal, byte by byte, to what one would cut from the whole.

Every operation is a sum, a product or a rounding of its own, so the bytes are the same on every processor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Window", "fitted_size", "resize_image", "resize_map"]

Size = tuple[int, int]
_ROWS_AT_A_TIME = 32
"""Few enough for the cache of the processor."""


class Window(NamedTuple):
    """A part of an image, within it, in pixels."""

    top: int
    left: int
    height: int
    width: int


def fitted_size(size: Size, limits: Size) -> Size:
    """The largest size of the same ratio that fits.

    Args:
        size: (h, w) of an image, upright or not.
        limits: (of its longer side, of its shorter side).

    Returns:
        (h, w), each at least 1: the side times one factor, rounded.
    """
    factor = min(max(limits) / max(size), min(limits) / min(size))
    height, width = (max(1, int(side * factor + 0.5)) for side in size)
    return height, width


def resize_image(pixels: NDArray[np.uint8], size: Size, window: Window | None = None) -> NDArray[np.uint8]:
    """An image, or a window of it, at another size; bilinear, without anti-aliasing.

    Args:
        pixels: [C, h, w].
        size: (h', w') of the whole image.
        window: what to compute of the resized image; None for all.

    Returns:
        [C, H, W], of the window.
    """
    top, left, H, W = window or Window(0, 0, *size)
    if pixels.shape[1:] == size:
        return pixels[:, top : top + H, left : left + W].copy()
    rows, columns = _taps(pixels.shape[1], size[0], top, H), _taps(pixels.shape[2], size[1], left, W)
    result = np.empty((len(pixels), H, W), np.uint8)
    for start in range(0, H, _ROWS_AT_A_TIME):
        part = slice(start, start + _ROWS_AT_A_TIME)
        first, second = rows.first[part], rows.second[part]
        origin = first[0]
        wide = _mixed(pixels[:, origin : second[-1] + 1], columns, axis=2)
        tall = _mixed(wide, _Taps(first - origin, second - origin, rows.share[part]), axis=1)
        result[:, part] = np.rint(tall)
    return result


def resize_map(values: NDArray[Any], size: Size, window: Window | None = None) -> NDArray[Any]:
    """A map, or a window of it, at another size; each pixel takes the value at floor(index * h / h'), and w likewise.

    Args:
        values: [h, w] or [h, w, C], of any type.
        size: (h', w') of the whole map.
        window: what to compute of the resized map; None for all.

    Returns:
        [H, W] or [H, W, C], of the window.
    """
    top, left, H, W = window or Window(0, 0, *size)
    rows = np.arange(top, top + H) * values.shape[0] // size[0]  # whole numbers: no quotient is a little too small
    columns = np.arange(left, left + W) * values.shape[1] // size[1]
    return values[rows].take(columns, axis=1)


class _Taps(NamedTuple):
    """Each of n values is (1 - share) * first + share * second; all [n]."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    share: NDArray[np.float32]


def _taps(length: int, resized: int, start: int, count: int) -> _Taps:
    """Of the pixels start .. start + count of a side that is brought from `length` to `resized`."""
    at = ((np.arange(start, start + count) + 0.5) * (length / resized) - 0.5).clip(0, length - 1)
    first = np.floor(at).astype(np.int64)
    return _Taps(first, np.minimum(first + 1, length - 1), (at - first).astype(np.float32))


def _mixed(values: NDArray[Any], taps: _Taps, axis: int) -> NDArray[np.float32]:
    first = values.take(taps.first, axis=axis).astype(np.float32)
    second = values.take(taps.second, axis=axis).astype(np.float32)
    second -= first
    second *= taps.share if axis == 2 else taps.share[:, None]
    first += second
    return first
