"""Lines of text below an image."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

__all__ = ["captioned", "enlarged"]

SMALLEST = 224
"""Narrower images are enlarged by a whole factor, so that a line has room."""
_PAPER, _INK = (255, 255, 255), (24, 24, 24)


def captioned(image: Image.Image, texts: Sequence[str], lines: int | None = None) -> Image.Image:
    """The image above its caption.

    Args:
        image: RGB.
        texts: one per line; what is too long is cut off.
        lines: that the caption has room for; by default as many as texts. Frames of a film need equal ones.
    """
    large = enlarged(image)
    size = max(11, large.width // 20)
    font, height = ImageFont.load_default(size), round(1.35 * size)
    count = len(texts) if lines is None else lines
    page = Image.new("RGB", (large.width, large.height + count * height + size // 2), _PAPER)
    page.paste(large, (0, 0))
    draw = ImageDraw.Draw(page)
    for i, text in enumerate(texts[:count]):
        draw.text((size // 3, large.height + size // 4 + i * height), _fitting(text, font, large.width), _INK, font)
    return page


def enlarged(image: Image.Image) -> Image.Image:
    """The image, by a whole factor, at least `SMALLEST` pixels wide."""
    factor = -(-SMALLEST // image.width)
    return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST) if factor > 1 else image


def _fitting(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> str:
    shown = text
    while shown and font.getlength(shown) > 0.97 * width:
        shown = f"{shown.rstrip('.')[:-1]}..." if len(shown) > 4 else ""
    return shown
