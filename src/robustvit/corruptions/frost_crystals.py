"""Drawings of ice: wrinkled sheets, sheaves of needles, fans of blades and ferns, in whole numbers.

A crystal is a group of strokes that run to a point, each lit on one side and dark on the other; later crystals lie on earlier
ones. This gives edges and lines which noise of the same spectrum does not have, and which networks mind most. Only whole
numbers are used, so a drawing is the same on every processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from robustvit.runtime.portable_math import circle

__all__ = ["DRAWINGS", "box_blur", "value_noise"]

Drawing = Callable[[np.random.RandomState, int, int], np.ndarray]
DIRECTIONS = 256
SAMPLES = 8
"""Over the width of a stroke."""
AT_ONCE = 256
"""Strokes."""
FRACTION = 64
"""Positions are whole numbers of 1/64 pixel."""


def _whole(random: np.random.RandomState, low: int, high: int, shape: Sequence[int]) -> np.ndarray:
    """low .. high - 1; the type is stated, because the default is another one on some systems."""
    return random.randint(low, high, tuple(shape), dtype=np.int64)


def value_noise(random: np.random.RandomState, size: tuple[int, int], cell: int) -> np.ndarray:
    """int64 [H, W] within -2048 .. 2048: random values at the corners of square cells, smooth in between."""
    counts = [n // cell + 2 for n in size]
    values = _whole(random, -2048, 2049, counts)
    for axis, n in enumerate(size):
        first, t = np.divmod(np.arange(n), cell)
        t = t * 1024 // cell
        t = (t * t >> 10) * (3072 - 2 * t) >> 10  # 3 t^2 - 2 t^3
        t = t[:, None] if axis == 0 else t
        values = (values.take(first, axis) * (1024 - t) + values.take(first + 1, axis) * t) >> 10
    return values


def box_blur(field: np.ndarray, radius: int) -> np.ndarray:
    """Means of a whole-numbered field over squares of 2 radius + 1 pixels, rounded; edges repeat."""
    for axis in (0, 1):
        n = field.shape[axis]
        width = [(0, 0), (0, 0)]
        width[axis] = (radius + 1, radius)
        sums = np.pad(field, width, mode="edge").cumsum(axis)
        later, earlier = (sums.take(range(s, s + n), axis) for s in (2 * radius + 1, 0))
        field = (later - earlier + radius) // (2 * radius + 1)
    return field


def _sheet(random: np.random.RandomState, H: int, W: int) -> np.ndarray:
    """A wrinkled sheet under light from the side: creases of several sizes, displaced by each other."""
    relief = np.zeros((H, W), np.int64)
    rows, columns = np.indices((H, W))
    for cell, height in ((48, 12), (24, 10), (12, 8), (6, 5), (3, 3)):
        shift = [value_noise(random, (H, W), 2 * cell) * cell >> 11 for _ in range(2)]
        noise = value_noise(random, (H, W), cell)
        creases = np.abs(noise[(rows + shift[0]).clip(0, H - 1), (columns + shift[1]).clip(0, W - 1)])
        relief += height * np.minimum(creases, 700)
    lit = relief - np.roll(relief, (1, 1), (0, 1))
    lit[0], lit[:, 0] = lit[1], lit[:, 1]
    return _uneven(random, lit + _grain(random, H, W, 2500), cell=60, least=500)


def _grain(random: np.random.RandomState, H: int, W: int, strength: int) -> np.ndarray:
    return _whole(random, -strength, strength + 1, (H, W))


def _uneven(random: np.random.RandomState, drawing: np.ndarray, cell: int, least: int, centre: int = 0) -> np.ndarray:
    """Dense ice in some parts, 4096 + `least` strong, and a veil in others, `least` strong; more in the `centre`."""
    inside = [np.minimum(np.arange(n), np.arange(n)[::-1]) * 2048 // n for n in drawing.shape]  # 0 at the edges, 1024
    bump = inside[0][:, None] * inside[1] * centre >> 20
    return drawing * (2048 + least + value_noise(random, drawing.shape, cell) + bump) >> 11


def _needles(random: np.random.RandomState, H: int, W: int) -> np.ndarray:
    """Sheaves of long needles, almost parallel."""
    canvas = _Canvas(random, H, W, level=0)
    for length, width, per_sheaf, density in ((120, 7, 9, 5), (75, 5, 9, 8), (40, 4, 7, 12), (16, 2, 4, 16)):
        canvas.crystals(length, width, per_sheaf, density, spread=16, scatter=length // 4, profile=(-700, 500, 300, -500))
    return _uneven(random, canvas.picture() + _grain(random, H, W, 2500), cell=60, least=800, centre=1500)


def _fans(random: np.random.RandomState, H: int, W: int) -> np.ndarray:
    """Fans of short blades, and grains."""
    canvas = _Canvas(random, H, W, level=0)
    for length, width, per_fan, density in ((3, 2, 2, 700), (7, 3, 5, 110), (14, 5, 7, 22), (30, 8, 9, 8)):
        canvas.crystals(length, width, per_fan, density, spread=70, scatter=1, profile=(500, 700, -300, -700))
    return _uneven(random, canvas.picture() + _grain(random, H, W, 1500), cell=40, least=500, centre=1500)


def _ferns(random: np.random.RandomState, H: int, W: int) -> np.ndarray:
    """Ferns: stems with branches on both sides."""
    canvas = _Canvas(random, H, W, level=-100)
    for length, branches, density in ((110, 22, 8), (80, 16, 18), (52, 11, 20), (28, 6, 6)):
        canvas.ferns(length, branches, density)
    return _uneven(random, canvas.picture(), cell=90, least=1000, centre=1000)


DRAWINGS: dict[str, Drawing] = {"sheet": _sheet, "needles": _needles, "fans": _fans, "ferns": _ferns}


@dataclass(frozen=True)
class _Strokes:
    """Lines that run to a point, in the order of painting; all fields are broadcast to the shape of `lengths`.

    Attributes:
        start: [2, ...], row and column, in 1/64 pixel as `lengths` and `widths` (of a half).
        direction: in 256ths of a circle.
        level: brightness.
    """

    start: np.ndarray
    direction: np.ndarray
    lengths: np.ndarray
    widths: np.ndarray
    level: np.ndarray

    def parts(self) -> Iterator[_Strokes]:
        """At most `AT_ONCE` strokes each, which keeps memory small: start [2, n, 1], others [n, 1]."""
        shape, n = self.lengths.shape, self.lengths.size
        start = np.broadcast_to(self.start, (2, *shape)).reshape(2, n, 1)
        fields = (self.direction, self.lengths, self.widths, self.level)
        flat = [np.broadcast_to(values, shape).reshape(n, 1) for values in fields]
        for first in range(0, n, AT_ONCE):
            part = slice(first, first + AT_ONCE)
            yield _Strokes(start[:, part], *(values[part] for values in flat))


class _Canvas:
    """Half pixels. What is painted later covers what is below; a margin of one takes what falls outside."""

    def __init__(self, random: np.random.RandomState, H: int, W: int, level: int) -> None:
        self.random, self.size = random, (H, W)
        self.pixels = np.full((2 * H + 2, 2 * W + 2), level, np.int32)
        cosines, sines = circle(DIRECTIONS)
        self.unit = np.rint(np.stack([sines, cosines]) * 1024).astype(np.int64)

    def places(self, density: int) -> np.ndarray:
        """[2, n]: rows and columns, `density` of them on 10000 pixels."""
        n = self.size[0] * self.size[1] * density // 10000
        return np.stack([_whole(self.random, 0, side * FRACTION, (n,)) for side in self.size])

    def crystals(
        self, length: int, width: int, strokes: int, density: int, *, spread: int, scatter: int, profile: tuple[int, ...]
    ) -> None:
        """Groups of `strokes` from about one place in about one direction; `spread` in 256ths of a circle."""
        start = self.places(density)
        n = start.shape[1]
        draw = partial(_whole, self.random)
        direction = draw(0, DIRECTIONS, (n, 1)) + draw(-spread, spread + 1, (n, strokes))
        start = start[:, :, None] + draw(-scatter * FRACTION, scatter * FRACTION + 1, (2, n, strokes))
        lengths = draw(length * 20, length * 64 + 1, (n, strokes))
        widths = draw(width * 20, width * 64 + 1, (n, strokes))
        level = draw(-600, 601, (n, 1)) + draw(-300, 301, (n, strokes))
        self.paint(_Strokes(start, direction, lengths, widths, level), length, profile)

    def ferns(self, length: int, branches: int, density: int) -> None:
        """Stems of about `length` pixels with pairs of branches, each with its shadow."""
        start = self.places(density)
        n = start.shape[1]
        draw = partial(_whole, self.random)
        direction = draw(0, DIRECTIONS, (n, 1))
        lengths = draw(length * 32, length * 64 + 1, (n, 1))
        level = draw(-600, 601, (n, 1))
        along = np.arange(branches) * 256 // branches  # of the stem, in 256ths
        offset = lengths * along >> 8
        base = start[:, :, None] + (self.unit[:, direction % DIRECTIONS] * offset >> 10)
        reach = lengths * (256 - along) * 60 >> 16
        thin = np.full_like(reach, 80)
        angle = draw(22, 36, (n, 1))
        for side in (-1, 1):
            levels = level + draw(-200, 201, reach.shape)
            twigs = _Strokes(base, direction + side * angle, reach, thin, levels)
            self.paint(twigs, length // 2, (-800, 900, 300, -600)[::side])
        stems = _Strokes(start[:, :, None], direction, lengths, np.full_like(lengths, 72), level)
        self.paint(stems, length, (-500, 900, 800, -800))

    def paint(self, strokes: _Strokes, longest: int, profile: tuple[int, ...]) -> None:
        """Strokes of at most `longest` pixels; profile: brightness across them, added to their level."""
        for part in strokes.parts():
            self._paint(part, longest, profile)

    def _paint(self, strokes: _Strokes, longest: int, profile: tuple[int, ...]) -> None:
        t = np.arange(3 * longest) * 1024 // (3 * longest)
        along, half = strokes.lengths * t >> 10, strokes.widths * (1024 - t) >> 10
        direction = strokes.direction % DIRECTIONS
        across = (2 * np.arange(SAMPLES) + 1 - SAMPLES).astype(np.int32)
        index = np.zeros((*along.shape, SAMPLES), np.int32)
        for axis, normal in ((0, 1), (1, -1)):
            unit, turned = self.unit[axis, direction], normal * self.unit[1 - axis, direction]
            spine = (strokes.start[axis] + (along * unit >> 10)).astype(np.int32)
            place = (half * turned >> 10).astype(np.int32)[:, :, None] * across >> 3  # SAMPLES
            place += spine[:, :, None]
            place >>= 5  # half pixels
            np.clip(place, -1, 2 * self.size[axis], out=place)
            index *= self.pixels.shape[axis]
            index += place
            index += 1
        shade = np.repeat(np.array(profile, np.int32), SAMPLES // len(profile))
        self.pixels.reshape(-1)[index] = strokes.level[:, :, None].astype(np.int32) + shade

    def picture(self) -> np.ndarray:
        """int64 [H, W]: sums of squares of 2 x 2."""
        inner = self.pixels[1:-1, 1:-1].astype(np.int64)
        return inner[::2, ::2] + inner[1::2, ::2] + inner[::2, 1::2] + inner[1::2, 1::2]
