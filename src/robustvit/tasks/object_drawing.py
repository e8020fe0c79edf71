"""Objects drawn on their image: boxes and masks in the colours of their classes; what was missed and what was invented marked.

An object counts as found where a detection of its class overlaps it by one half or more, as COCO matches them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from robustvit.metrics.box_matching import Found, Labelled, box_overlaps, match
from robustvit.runtime.run_lengths import RunLengths

__all__ = ["INVENTED", "LEAST_SCORE", "MISSED", "draw_found", "draw_labelled"]

Colour = tuple[int, int, int]
LEAST_SCORE = 0.3
"""Of detections that are drawn; AP counts the others, too."""
MISSED, INVENTED = (255, 255, 255), (255, 40, 40)
"""Colours of the dashed boxes of objects that were not found, and of the crosses in detections of nothing."""
_OPACITY = 0.45
_DASH = 5


def draw_found(
    image: Image.Image,
    found: Found,
    labelled: Labelled | None,
    classes: Sequence[str],
    palette: Sequence[Colour],
    *,
    least_score: float = LEAST_SCORE,
) -> Image.Image:
    """Detections with their scores; where the objects are known, those that are missed are dashed, inventions are crossed.

    Args:
        image: as the network saw it.
        found: in its pixels.
        labelled: what is there; None where nobody knows.
        classes: their names.
        palette: their colours.
        least_score: of detections that are drawn.
    """
    shown = np.flatnonzero(found.scores >= least_score)
    shown = shown[np.argsort(found.scores[shown], kind="stable")]  # the best on top
    masks = None if found.masks is None else found.masks.of(shown)
    kept = Found(found.boxes[shown], found.scores[shown], found.classes[shown], masks)
    canvas = _with_masks(image, kept.masks, kept.classes, palette)
    draw, width = ImageDraw.Draw(canvas), _line_width(image)
    is_right, is_missed = _judged(kept, labelled, len(classes))
    for box, score, kind, right in zip(*kept[:3], is_right, strict=True):
        _box(draw, box, palette[kind], width, f"{classes[kind]} {score:.2f}")
        if not right:
            _cross(draw, box, width)
    if labelled is not None:
        for box in labelled.boxes[is_missed]:
            _dashed(draw, box, MISSED, width)
    return canvas


def draw_labelled(image: Image.Image, labelled: Labelled, classes: Sequence[str], palette: Sequence[Colour]) -> Image.Image:
    """The labelled objects."""
    canvas = _with_masks(image, labelled.masks, labelled.classes, palette)
    draw, width = ImageDraw.Draw(canvas), _line_width(image)
    for box, kind, is_crowd in zip(labelled.boxes, labelled.classes, labelled.is_crowd, strict=True):
        (_dashed if is_crowd else _plain)(draw, box, palette[kind], width)
    return canvas


def _judged(found: Found, labelled: Labelled | None, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Which detections find something, bool [n], and which objects are missed, bool [m], at an overlap of one half."""
    if labelled is None:
        return np.ones(len(found.scores), bool), np.zeros(0, bool)
    best = np.argsort(-found.scores, kind="stable")
    tally = match(found._replace(masks=None), labelled._replace(masks=None), classes, "boxes")
    is_right = np.zeros(len(found.scores), bool)
    is_right[best] = ((tally["matched"][:, 0] | tally["ignored"][:, 0]) & 1).astype(bool)
    return is_right, ~_are_found(found, labelled, is_right)


def _are_found(found: Found, labelled: Labelled, is_right: np.ndarray) -> np.ndarray:
    """bool [m]: objects whose box a right detection of their class overlaps by one half; crowds are never missed."""
    overlap = box_overlaps(found.boxes, labelled.boxes, labelled.is_crowd)
    same = found.classes[:, None] == labelled.classes
    return ((overlap >= 0.5) & same & is_right[:, None]).any(0) | labelled.is_crowd


def _with_masks(image: Image.Image, masks: RunLengths | None, kinds: np.ndarray, palette: Sequence[Colour]) -> Image.Image:
    if masks is None or not len(masks):
        return image.copy()
    pixels = np.asarray(image, np.float32).copy()
    for mask, kind in zip(masks.dense(), kinds, strict=True):
        pixels[mask] += _OPACITY * (np.array(palette[kind], np.float32) - pixels[mask])
    return Image.fromarray(pixels.round().astype(np.uint8))


def _line_width(image: Image.Image) -> int:
    return max(1, round(min(image.size) / 200))


def _corners(box: np.ndarray) -> tuple[int, int, int, int]:
    x1, y1, x2, y2 = (round(float(side)) for side in box)
    return x1, y1, max(x1, x2 - 1), max(y1, y2 - 1)


def _plain(draw: ImageDraw.ImageDraw, box: np.ndarray, colour: Colour, width: int) -> None:
    draw.rectangle(_corners(box), outline=colour, width=width)


def _box(draw: ImageDraw.ImageDraw, box: np.ndarray, colour: Colour, width: int, text: str) -> None:
    _plain(draw, box, colour, width)
    if min(draw.im.size) < 120:  # names would cover the image
        return
    font = ImageFont.load_default(max(10, 5 * width + 6))
    x, y = _corners(box)[:2]
    left, top, right, bottom = (round(edge) for edge in draw.textbbox((0, 0), text, font))
    y = max(0, y - (bottom - top) - 3)
    draw.rectangle((x, y, x + right - left + 3, y + bottom - top + 3), fill=colour)
    ink = (0, 0, 0) if sum(colour) > 380 else (255, 255, 255)
    draw.text((x + 1 - left, y + 1 - top), text, ink, font)


def _cross(draw: ImageDraw.ImageDraw, box: np.ndarray, width: int) -> None:
    x1, y1, x2, y2 = _corners(box)
    side = max(3, min(x2 - x1, y2 - y1, 12 * width) // 2)
    cx, cy = (x1 + x2) // 2, (y1 + y2) // 2
    for dx, dy in ((1, 1), (1, -1)):
        draw.line((cx - side * dx, cy - side * dy, cx + side * dx, cy + side * dy), fill=INVENTED, width=width + 1)


def _dashed(draw: ImageDraw.ImageDraw, box: np.ndarray, colour: Colour, width: int) -> None:
    x1, y1, x2, y2 = _corners(box)
    step = _DASH * width
    for x in range(x1, x2 + 1, 2 * step):
        for y in (y1, y2):
            draw.line((x, y, min(x + step, x2), y), fill=colour, width=width)
    for y in range(y1, y2 + 1, 2 * step):
        for x in (x1, x2):
            draw.line((x, y, x, min(y + step, y2)), fill=colour, width=width)
