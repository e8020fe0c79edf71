"""Photometric distortion of 8-bit images, as the published segmenters are trained with: brightness, contrast, saturation, hue.

Each of the four has a chance of one half. Brightness is added; contrast and saturation are factors; hue is turned by whole
steps of 2 degrees. The order is brightness, contrast, saturation, hue, with contrast moved to the end in one half of the
cases. After each of the first three, values are clipped to 0 .. 255 and truncated, so nothing but 8-bit images passes from
one to the next. torchvision's RandomPhotometricDistort is another thing: it multiplies brightness, turns hue half as far and
permutes channels.

Saturation and hue go through 8-bit HSV: hue in 0 .. 179, the other two in 0 .. 255, each rounded. All of it is whole numbers,
so the bytes are the same on every processor. The published programs compute the way back in floating point, and can differ by
one level.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robustvit.runtime.randomness import keyed_seed

__all__ = ["Photometric", "add_brightness", "multiply_contrast", "multiply_saturation", "turn_hue"]

Pixels = NDArray[np.uint8]
BRIGHTNESS = 32.0
"""Added: U(-32, 32)."""
FACTOR = (0.5, 1.5)
"""Of contrast and of saturation."""
HUE = 18
"""Steps of 2 degrees: -18 .. 17."""
_WAY = 30
"""Steps of the hue from one corner of the hexagon to the next."""
_AT_A_TIME = 2**14
"""Pixels that are converted together, few enough for the cache of the processor."""
_U8, _U16 = np.uint8, np.uint16


class Photometric(NamedTuple):
    """What is done to one image; None leaves a step out.

    Attributes:
        brightness: added to every value.
        contrast: factor of every value.
        saturation: factor of the saturation.
        hue: added to the hue, in steps of 2 degrees.
        is_contrast_last: after the hue, not after the brightness.
    """

    brightness: float | None = None
    contrast: float | None = None
    saturation: float | None = None
    hue: int | None = None
    is_contrast_last: bool = False

    @staticmethod
    def draw(seed: int) -> Photometric:
        """The distortion of the sample with this seed."""
        draw = Random(keyed_seed(seed, "photometric"))
        drawn = [(draw.random() < 0.5, draw.random()) for _ in range(4)]  # all of them, so that no step moves another's draw
        added, contrast, saturation, hue = (u if is_on else None for is_on, u in drawn)
        low, high = FACTOR
        return Photometric(
            brightness=None if added is None else (2 * added - 1) * BRIGHTNESS,
            contrast=None if contrast is None else low + contrast * (high - low),
            saturation=None if saturation is None else low + saturation * (high - low),
            hue=None if hue is None else int(hue * 2 * HUE) - HUE,
            is_contrast_last=draw.random() < 0.5,
        )

    def __call__(self, image: Pixels) -> Pixels:
        """uint8 [3, H, W], RGB -> the same, distorted."""
        if self.brightness is not None:
            image = add_brightness(image, self.brightness)
        if self.contrast is not None and not self.is_contrast_last:
            image = multiply_contrast(image, self.contrast)
        if self.saturation is not None:
            image = multiply_saturation(image, self.saturation)
        if self.hue is not None:
            image = turn_hue(image, self.hue)
        if self.contrast is not None and self.is_contrast_last:
            image = multiply_contrast(image, self.contrast)
        return image


def add_brightness(image: Pixels, amount: float) -> Pixels:
    """uint8 of any shape, `amount` added, clipped and truncated."""
    return _scaled(1.0, amount)[image]


def multiply_contrast(image: Pixels, factor: float) -> Pixels:
    """uint8 of any shape, times `factor`, clipped and truncated. Black stays: there is no mean that contrast turns about."""
    return _scaled(factor, 0.0)[image]


def multiply_saturation(image: Pixels, factor: float) -> Pixels:
    """uint8 [3, H, W], RGB, with the 8-bit saturation of HSV times `factor`, clipped and truncated."""
    return _through_hsv(image, hues=np.arange(181), saturations=_scaled(factor, 0.0))


def turn_hue(image: Pixels, steps: int) -> Pixels:
    """uint8 [3, H, W], RGB, with `steps` added to the 8-bit hue of HSV, of which 180 are a circle."""
    return _through_hsv(image, hues=(np.arange(181) + steps) % 180, saturations=np.arange(256, dtype=np.uint8))


def _scaled(factor: float, amount: float) -> Pixels:
    """uint8 [256]: what becomes of each value."""
    values = np.arange(256, dtype=np.float32) * np.float32(factor) + np.float32(amount)
    return values.clip(0, 255).astype(np.uint8)


def _through_hsv(image: Pixels, hues: NDArray[np.int64], saturations: Pixels) -> Pixels:
    """To HSV, through a table of hues [181] and one of saturations [256], and back."""
    flat = image.reshape(3, -1)
    result = np.empty_like(flat)
    roles, ways = _hexagon()
    roles, ways = roles[:, hues], ways[hues]
    for start in range(0, flat.shape[1], _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        hue, saturation, value = _hsv(flat[:, part])
        levels = _levels(ways[hue], saturations[saturation], value)
        for channel, role in enumerate(roles):
            result[channel, part] = _chosen(role[hue], *levels)
    return result.reshape(image.shape)


def _hsv(rgb: Pixels) -> tuple[NDArray[np.intp], Pixels, Pixels]:
    """[3, n] -> hue in 0 .. 180, where 180 is 0 again; saturation and value in 0 .. 255.

    H = 60 i + 30 (ahead - behind) / chroma, where i says which channel is the largest, and the other two are called ahead and
    behind by the direction in which each pulls the hue. One of these is the smallest channel, which leaves two bytes to look
    the quotient up by.
    """
    red, green, blue = rgb
    value = np.maximum(np.maximum(red, green), blue)
    is_red, is_green = value == red, value == green
    ahead = _either(is_red, green, _either(is_green, blue, red))
    behind = _either(is_red, blue, _either(is_green, red, green))
    least = np.minimum(ahead, behind)
    chroma, is_ahead = value - least, ahead >= behind
    steps = _pair(chroma, np.maximum(ahead, behind) - least)
    up, down, shares = _quotients()
    from_below = (_U8(120) - _U8(60) * is_green) * ~is_red
    from_above = from_below + _U8(180) * is_red
    hue = _either(is_ahead, from_below + up[steps], from_above - down[steps])
    return hue.astype(np.intp), shares[_pair(value, chroma)], value


def _levels(way: NDArray[np.uint16], saturation: Pixels, value: Pixels) -> tuple[Pixels, Pixels, Pixels]:
    """The highest, middle and lowest channel [n] of a colour: V, V (1 - S way) and V (1 - S), rounded.

    The divisions are of whole numbers below 2^24, which float32 holds; a quotient that is not whole is farther from the next
    whole number than float32 can err, so truncating it is exact.
    """
    v, s = value.astype(np.float32), saturation.astype(np.uint16)
    middle = v * (_U16(255 * _WAY) - s * way).astype(np.float32)
    lowest = v * (_U16(255) - s).astype(np.float32)
    return value, _rounded(middle, 255 * _WAY), _rounded(lowest, 255)


def _rounded(numerator: NDArray[np.float32], denominator: int) -> Pixels:
    numerator += np.float32(denominator // 2)
    numerator /= np.float32(denominator)
    return numerator.astype(np.uint8)


def _chosen(role: Pixels, highest: Pixels, middle: Pixels, lowest: Pixels) -> Pixels:
    return _either(role == 0, highest, _either(role == 1, middle, lowest))


def _either(is_first: NDArray[np.bool_], first: Pixels, second: Pixels) -> Pixels:
    """`np.where` for bytes, in vector instructions."""
    return second ^ ((first ^ second) & -is_first.view(np.uint8))


def _pair(first: Pixels, second: Pixels) -> NDArray[np.intp]:
    """256 * first + second."""
    return ((first.astype(np.uint16) << 8) | second).astype(np.intp)


@lru_cache(maxsize=1)
def _quotients() -> tuple[Pixels, Pixels, Pixels]:
    """Three tables [65536]: 30 b / a rounded, the same with halves rounded down, and 255 b / a rounded, at 256 a + b."""
    a, b = np.arange(256)[:, None], np.arange(256)[None]
    divisor = np.maximum(2 * a, 1)
    up, down, share = (2 * _WAY * b + a) // divisor, -((a - 2 * _WAY * b) // divisor), (510 * b + a) // divisor
    return tuple(np.where(b <= a, table, 0).astype(np.uint8).ravel() for table in (up, down, share))  # type: ignore[return-value]


@lru_cache(maxsize=1)
def _hexagon() -> tuple[Pixels, NDArray[np.uint16]]:
    """Of each hue 0 .. 180: whether red, green and blue [3, 181] are the highest (0), middle (1) or lowest (2) channel; and
    how far [181] the middle one is from the highest, in thirtieths of the way to the lowest."""
    orders = np.array([(0, 1, 2), (1, 0, 2), (2, 0, 1), (2, 1, 0), (1, 2, 0), (0, 2, 1)], np.uint8)
    sector, rest = np.divmod(np.arange(181) % 180, _WAY)
    return np.ascontiguousarray(orders[sector].T), np.where(sector % 2, rest, _WAY - rest).astype(np.uint16)
