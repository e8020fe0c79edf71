"""Objects drawn on their image: boxes and masks in the colours of their classes; what was missed and what was invented marked.

An object counts as found where a detection of its class overlaps it by one half or more, as COCO matches them. Names and
scores stand where they fit: elsewhere the colours tell the classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from robustvit.metrics.box_matching import Found, Labelled, box_overlaps, match, ranked
from robustvit.runtime.run_lengths import RunLengths

__all__ = ["INVENTED", "LEAST_SCORE", "MISSED", "draw_found", "draw_labelled"]

Colour = tuple[int, int, int]
Corners = tuple[int, int, int, int]
LEAST_SCORE = 0.3
"""Of detections that are drawn; AP counts the others, too."""
MISSED, INVENTED = (255, 255, 255), (255, 40, 40)
"""Colours of the dashed boxes of objects that were not found, and of the crosses in detections of nothing."""
_CASING = (20, 20, 20)
"""Around marks, so that they are seen on any image."""
_OPACITY = 0.45
_DASH = 5
_SMALLEST_NAMED = 120
"""Pixels of the shorter side of drawings with names and scores; on smaller ones they would cover the objects."""
_MOST_NAMED = 8
"""Boxes that all have their names."""


def draw_found(
    image: Image.Image,
    found: Found,
    labelled: Labelled | None,
    classes: Sequence[str],
    palette: Sequence[Colour],
    *,
    least_score: float = LEAST_SCORE,
    side: int | None = None,
) -> Image.Image:
    """Detections with their scores; where the objects are known, those that are missed are dashed, inventions are crossed.

    Args:
        image: as the network saw it.
        found: in its pixels.
        labelled: what is there; None where nobody knows.
        classes: their names.
        palette: their colours.
        least_score: of detections that are drawn.
        side: pixels of the longer side of the drawing; None for those of the image.
    """
    shown = np.flatnonzero(found.scores >= least_score)
    shown = shown[np.argsort(found.scores[shown], kind="stable")]  # the best on top
    masks = None if found.masks is None else found.masks.of(shown)
    kept = Found(found.boxes[shown], found.scores[shown], found.classes[shown], masks)
    canvas = _Canvas.of(image, kept.masks, kept.classes, palette, side)
    is_right, is_missed = _judged(kept, labelled, len(classes))
    for box, kind, right in zip(kept.boxes, kept.classes, is_right, strict=True):
        canvas.box(box, palette[kind])
        if not right:
            canvas.cross(box, INVENTED)
    if labelled is not None:
        for box in labelled.boxes[is_missed]:
            canvas.dashed(box, MISSED, _CASING)
    for i in _named(kept.classes[::-1], ~is_right[::-1]):  # the best first, as later ones give way
        box, score, kind = kept.boxes[::-1][i], kept.scores[::-1][i], kept.classes[::-1][i]
        canvas.name(box, palette[kind], (f"{classes[kind]} {score:.2f}", f"{score:.2f}"))
    return canvas.image


def draw_labelled(
    image: Image.Image,
    labelled: Labelled,
    classes: Sequence[str],
    palette: Sequence[Colour],
    *,
    side: int | None = None,
) -> Image.Image:
    """The labelled objects, crowds dashed; arguments as for `draw_found`."""
    canvas = _Canvas.of(image, labelled.masks, labelled.classes, palette, side)
    for box, kind, is_crowd in zip(labelled.boxes, labelled.classes, labelled.is_crowd, strict=True):
        if is_crowd:
            canvas.dashed(box, palette[kind])
        else:
            canvas.box(box, palette[kind])
    for i in _named(labelled.classes, np.zeros(len(labelled.classes), bool)):
        kind = labelled.classes[i]
        canvas.name(labelled.boxes[i], palette[kind], (classes[kind],))
    return canvas.image


def _named(kinds: np.ndarray, is_wrong: np.ndarray) -> list[int]:
    """Which of some boxes have their names: all, or of many those that are wrong, and the first of each class."""
    if len(kinds) <= _MOST_NAMED:
        return list(range(len(kinds)))
    firsts = np.unique(kinds, return_index=True)[1]
    return sorted({*np.flatnonzero(is_wrong).tolist(), *firsts.tolist()})


def _judged(found: Found, labelled: Labelled | None, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Which detections find something, bool [n], and which objects are missed, bool [m], at an overlap of one half."""
    if labelled is None:
        return np.ones(len(found.scores), bool), np.zeros(0, bool)
    tally = match(found._replace(masks=None), labelled._replace(masks=None), classes, "boxes")
    is_right = np.zeros(len(found.scores), bool)
    is_right[ranked(found)[0]] = ((tally["matched"][:, 0] | tally["ignored"][:, 0]) & 1).astype(bool)
    return is_right, ~_are_found(found, labelled, is_right)


def _are_found(found: Found, labelled: Labelled, is_right: np.ndarray) -> np.ndarray:
    """bool [m]: objects whose box a right detection of their class overlaps by one half; crowds are never missed."""
    overlap = box_overlaps(found.boxes, labelled.boxes, labelled.is_crowd)
    same = found.classes[:, None] == labelled.classes
    return ((overlap >= 0.5) & same & is_right[:, None]).any(0) | labelled.is_crowd


@dataclass(eq=False)
class _Canvas:
    """A drawing.

    Attributes:
        image: it.
        scale: its pixels per pixel of the image that boxes are in.
        names: where names stand already.
    """

    image: Image.Image
    scale: float
    names: list[Corners] = field(default_factory=list)

    @staticmethod
    def of(
        image: Image.Image, masks: RunLengths | None, kinds: np.ndarray, palette: Sequence[Colour], side: int | None
    ) -> _Canvas:
        """An image with masks in the colours of their classes, as large as the drawing."""
        shown, scale = _with_masks(image, masks, kinds, palette), 1.0
        if side is not None:
            scale = side / max(image.size)
            sides = [max(1, round(scale * length)) for length in image.size]
            shown = shown.resize((sides[0], sides[1]), Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.BICUBIC)
        return _Canvas(shown, scale)

    @property
    def draw(self) -> ImageDraw.ImageDraw:
        return ImageDraw.Draw(self.image)

    @property
    def width(self) -> int:
        """Of lines."""
        return max(1, round(min(self.image.size) / 180))

    def corners(self, box: np.ndarray) -> Corners:
        """The pixels at the corners of a box, the last ones still inside; of a box beyond the image, some of the edge."""
        W, H = self.image.size
        x1, y1, x2, y2 = (round(self.scale * float(place)) for place in box)
        left, top = min(max(x1, 0), W - 1), min(max(y1, 0), H - 1)
        return left, top, max(left, min(x2, W) - 1), max(top, min(y2, H) - 1)

    def box(self, box: np.ndarray, colour: Colour) -> None:
        self.draw.rectangle(self.corners(box), outline=colour, width=self.width)

    def dashed(self, box: np.ndarray, colour: Colour, casing: Colour | None = None) -> None:
        dashes = list(_dashes(self.corners(box), _DASH * self.width))
        for dash in dashes if casing is not None else ():
            self.draw.line(dash, fill=casing, width=self.width + 2)
        for dash in dashes:
            self.draw.line(dash, fill=colour, width=self.width)

    def cross(self, box: np.ndarray, colour: Colour) -> None:
        """In the middle of a box."""
        x1, y1, x2, y2 = self.corners(box)
        side = max(3, min(x2 - x1, y2 - y1, 14 * self.width) // 2)
        cx, cy = (x1 + x2) // 2, (y1 + y2) // 2
        for shade, wider in ((_CASING, 3), (colour, 1)):
            for dx, dy in ((1, 1), (1, -1)):
                ends = (cx - side * dx, cy - side * dy, cx + side * dx, cy + side * dy)
                self.draw.line(ends, fill=shade, width=self.width + wider)

    def name(self, box: np.ndarray, colour: Colour, texts: Iterable[str]) -> None:
        """The first of some texts that fits above a box, or inside it, and hides no other; none where none does."""
        if min(self.image.size) < _SMALLEST_NAMED:
            return
        font, (x1, y1, x2, _) = ImageFont.load_default(9 + 2 * self.width), self.corners(box)
        for text in texts:
            left, top, right, bottom = (round(edge) for edge in self.draw.textbbox((0, 0), text, font))
            wide, high = right - left + 4, bottom - top + 4
            x = max(0, min(x1, self.image.size[0] - wide))
            for y in (y1 - high, y1):
                place = (x, y, x + wide, y + high)
                if y >= 0 and wide <= x2 - x1 + 2 * high and not any(_meet(place, other) for other in self.names):
                    self.draw.rectangle((x, y, x + wide - 1, y + high - 1), fill=colour)
                    ink = (0, 0, 0) if sum(colour) > 380 else (255, 255, 255)
                    self.draw.text((x + 2 - left, y + 2 - top), text, ink, font)
                    self.names.append(place)
                    return


def _with_masks(image: Image.Image, masks: RunLengths | None, kinds: np.ndarray, palette: Sequence[Colour]) -> Image.Image:
    if masks is None or not len(masks):
        return image.copy()
    pixels = np.asarray(image, np.float32).copy()
    for i, kind in enumerate(kinds):
        mask = masks.of([i]).dense()[0]  # one at a time, as all would take memory for every pixel
        pixels[mask] += _OPACITY * (np.array(palette[kind], np.float32) - pixels[mask])
    return Image.fromarray(pixels.round().astype(np.uint8))


def _meet(first: Corners, second: Corners) -> bool:
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]


def _dashes(corners: Corners, step: int) -> Iterable[Corners]:
    """The dashes along the edges of a box, as both ends of each."""
    x1, y1, x2, y2 = corners
    for x in range(x1, x2 + 1, 2 * step):
        yield from ((x, y, min(x + step, x2), y) for y in (y1, y2))
    for y in range(y1, y2 + 1, 2 * step):
        yield from ((x, y, x, min(y + step, y2)) for x in (x1, x2))
