"""Label maps as colours: alone, laid over their image, and explained by a legend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from robustvit.metrics.iou import IGNORED

__all__ = ["OPACITY", "colour_map", "label_image", "legend_image", "overlay"]

OPACITY = 0.55
"""Of the colours over the image."""
_UNKNOWN = (0, 0, 0)
_PAPER, _INK, _EDGE = (255, 255, 255), (24, 24, 24), (150, 150, 150)
LETTER = 18
"""Height in pixels of the names in a legend."""
MOST_ROWS = 20
"""Of a legend, before it gets another column."""


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


def legend_image(legend: Sequence[tuple[str, tuple[int, int, int]]]) -> Image.Image:
    """(name, colour) of classes as an image: a patch of its colour before each name, from top to bottom, then to the right."""
    font, row = ImageFont.load_default(LETTER), round(1.7 * LETTER)
    columns = [legend[start : start + MOST_ROWS] for start in range(0, len(legend), MOST_ROWS)]
    widths = [4 * LETTER + round(max(font.getlength(name) for name, _ in column)) for column in columns]
    page = Image.new("RGB", (sum(widths), row * len(columns[0]) + LETTER), _PAPER)
    draw, left = ImageDraw.Draw(page), LETTER // 2
    for column, width in zip(columns, widths, strict=True):
        for place, (name, colour) in enumerate(column):
            top = LETTER // 2 + place * row
            draw.rectangle((left, top, left + 2 * LETTER, top + row - LETTER // 3), colour, _EDGE)
            draw.text((left + round(2.5 * LETTER), top + LETTER // 6), name, _INK, font)
        left += width
    return page


def _table(palette: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """uint8 [256, 3]: the colour of every label."""
    table = np.full((256, 3), _UNKNOWN, np.uint8)
    table[: len(palette)] = np.asarray(palette, np.uint8).reshape(-1, 3)
    return table
