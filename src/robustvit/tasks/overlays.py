"""Label maps as colours: alone, and laid over their image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from robustvit.metrics.iou import IGNORED

__all__ = ["OPACITY", "colour_map", "label_image", "overlay"]

OPACITY = 0.55
"""Of the colours over the image."""
_UNKNOWN = (0, 0, 0)


def colour_map(labels: np.ndarray, palette: Sequence[tuple[int, int, int]]) -> Image.Image:
    """Label map [H, W] -> its colours; black for ignored pixels and values without a colour."""
    return Image.fromarray(_table(palette)[labels.astype(np.uint8)])


def overlay(image: Image.Image, labels: np.ndarray, palette: Sequence[tuple[int, int, int]]) -> Image.Image:
    """The image under the colours of a label map of its size; ignored pixels stay as they are."""
    mixed = Image.blend(image, colour_map(labels, palette), OPACITY)
    mixed.paste(image, mask=Image.fromarray((labels == IGNORED).astype(np.uint8) * 255))
    return mixed


def label_image(labels: np.ndarray, palette: Sequence[tuple[int, int, int]]) -> Image.Image:
    """Label map uint8 [H, W] -> an image of 8 bits whose values are the labels, and whose palette has their colours."""
    image = Image.fromarray(labels)
    image.putpalette(_table(palette).tobytes())
    return image


def _table(palette: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """uint8 [256, 3]: the colour of every label."""
    table = np.full((256, 3), _UNKNOWN, np.uint8)
    table[: len(palette)] = np.asarray(palette, np.uint8).reshape(-1, 3)
    return table
