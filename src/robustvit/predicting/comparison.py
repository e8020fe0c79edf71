"""The same image under several conditions, side by side in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from robustvit.tasks.captions import enlarged

__all__ = ["Column", "side_by_side"]

GAP = 6
"""Pixels between pictures."""
_PAPER, _INK = (255, 255, 255), (24, 24, 24)


class Column(NamedTuple):
    """What is shown of one condition: its name, and pictures from top to bottom."""

    title: str
    panels: Sequence[Image.Image]


def side_by_side(columns: Sequence[Column]) -> Image.Image:
    """Columns with their titles above; all pictures are of one size, or of one size in each row."""
    rows = [[enlarged(panel) for panel in column.panels] for column in columns]
    widths = [max(panel.width for panel in panels) for panels in rows]
    size = max(12, widths[0] // 22)
    head, font = round(1.6 * size), ImageFont.load_default(size)
    height = head + max(sum(panel.height + GAP for panel in panels) for panels in rows) - GAP
    page = Image.new("RGB", (sum(widths) + GAP * (len(columns) - 1), height), _PAPER)
    draw, left = ImageDraw.Draw(page), 0
    for column, panels, width in zip(columns, rows, widths, strict=True):
        draw.text((left + size // 3, size // 4), column.title, _INK, font)
        top = head
        for panel in panels:
            page.paste(panel, (left, top))
            top += panel.height + GAP
        left += width + GAP
    return page
