"""SVG charts as text. Horizontal places are percentages and heights pixels: letters keep their size at any width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from robustvit.report.numbers import is_number, percent
from robustvit.runtime.colours import SERIES

__all__ = [
    "PLAIN",
    "Bar",
    "Series",
    "Trace",
    "bars",
    "curves",
    "gauge",
    "heat_colours",
    "key",
    "marker",
    "nice_top",
    "svg",
    "trace_key",
    "traces",
]

LABELS, PLOT_END = 35.0, 87.0  # of a bar chart: where the labels end and where the bars do, in percent
ROW, AXIS = 25, 22  # heights in pixels
CURVE_LEFT, CURVE_TOP = 9.0, 10
CURVE_HEIGHT = 230
LABEL_GAP = 15
LONGEST_LABEL = 18  # letters that fit on a phone
MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "M-3.6 -3.6h7.2v7.2h-7.2z",
    "M0 -4.8L4.6 3.6H-4.6z",
    "M0 -5L5 0L0 5L-5 0z",
    "M0 4.8L4.6 -3.6H-4.6z",
)
DASHES = ("", "7 3", "2 3")
COLOURS = len(SERIES)
PLAIN = -1
"""Series in grey: what others are compared with."""
# Rust to pale to blue: also distinct for the colour-blind, and by lightness where everything is close.
HEAT = ((0x9C, 0x38, 0x0A), (0xE2, 0x86, 0x3B), (0xF8, 0xEB, 0xD5), (0x86, 0xB6, 0xDD), (0x1C, 0x5A, 0xA0))


@dataclass(frozen=True)
class Bar:
    """One row of a bar chart.

    Attributes:
        label: before the bar.
        value: its length; None or NaN draws none.
        low, high: of the interval, or None.
        reference: a pale bar behind reaches to here: what there was to lose.
        series: number of the colour.
    """

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    reference: float | None = None
    series: int = 0


@dataclass(frozen=True)
class Series:
    """One line of a curve chart.

    Attributes:
        name: what it stands for.
        points: (x, y); y None or NaN leaves a gap.
        series: number of colour, marker and dashes.
        end: what to write at its end.
    """

    name: str
    points: tuple[tuple[int, float | None], ...]
    series: int = 0
    end: str = ""


@dataclass(frozen=True)
class Trace:
    """One line through many points.

    Attributes:
        name: what it stands for.
        points: (x, y), both in 0 .. 1.
        series: number of colour and dashes.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    series: int = 0


def nice_top(values: Sequence[float | None]) -> float:
    """The end of an axis from 0 that holds these fractions, and divides well by four."""
    largest = max((value for value in values if value is not None and is_number(value)), default=1.0)
    return next((top for top in (0.04, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if largest <= top + 1e-9), largest)


def bars(rows: Sequence[Bar], title: str, top: float | None = None) -> Markup:
    """A horizontal bar chart of fractions.

    Args:
        rows: from top to bottom.
        title: what a screen reader says.
        top: end of the axis; None takes `nice_top`.
    """
    end = top or nice_top([number for row in rows for number in (row.value, row.high, row.reference)])
    height = ROW * len(rows) + AXIS
    parts = [_grid_line(_along(end * tick / 4, end), height - AXIS, end * tick / 4, height - 6) for tick in range(5)]
    parts += [_bar(row, ROW * place, end) for place, row in enumerate(rows)]
    return svg(height, title, parts)


def gauge(value: float, low: float | None, high: float | None, title: str) -> Markup:
    """A bar on a track from 0 to 1, with its interval."""
    box = Markup('<rect class="{}" x="0%" y="5" width="{:.2f}%" height="6" rx="3"/>')
    parts = [box.format("lost", 100), box.format("gauge", 100 * min(max(value, 0.0), 1.0))]
    if low is not None and high is not None and is_number(low) and is_number(high):
        start, end = (100 * min(max(number, 0.0), 1.0) for number in (low, high))
        parts.append(_interval_mark(start, end, 8))
    return svg(16, title, parts)


def curves(lines: Sequence[Series], ticks: Sequence[tuple[int, str]], title: str, right: float = 86.0) -> Markup:
    """Fractions over a few steps, one line per series.

    Args:
        lines: drawn in this order.
        ticks: (x, what to write below it), at least one.
        title: what a screen reader says.
        right: where the curves end, in percent of the width; what is written at their ends needs the rest.
    """
    end = nice_top([y for line in lines for _, y in line.points])
    height = CURVE_TOP + CURVE_HEIGHT + AXIS
    parts = []
    for tick in range(5):
        y = _down(end * tick / 4, end)
        text = Markup('<text x="{:.2f}%" y="{:.1f}" dx="-6" dy="4" class="tick end">{}</text>')
        parts.append(
            Markup('<line class="rule" x1="{0}%" x2="{1}%" y1="{2:.1f}" y2="{2:.1f}"/>').format(CURVE_LEFT, right, y)
            + text.format(CURVE_LEFT, y, _tick(end * tick / 4))
        )
    places = _places([x for x, _ in ticks], right)
    for x, label in ticks:
        parts.append(Markup('<text x="{:.2f}%" y="{}" class="tick middle">{}</text>').format(places[x], height - 5, label))
    parts += [_line(line, places, end) for line in lines]
    parts += _end_labels(lines, end, right)
    return svg(height, title, parts)


def traces(lines: Sequence[Trace], across: str, up: str, title: str) -> Markup:
    """Shares over shares, one line per trace.

    Args:
        lines: drawn in this order.
        across, up: names of the axes.
        title: what a screen reader says.
    """
    right, height = 100 - CURVE_LEFT / 4, CURVE_TOP + CURVE_HEIGHT + 2 * AXIS
    rule = Markup('<line class="rule" x1="{:.2f}%" x2="{:.2f}%" y1="{:.1f}" y2="{:.1f}"/>')
    parts = [Markup('<text x="{}%" y="{}" dy="-4" class="tick">{}, %</text>').format(CURVE_LEFT, CURVE_TOP + AXIS / 2, up)]
    top = CURVE_TOP + AXIS / 2
    for tick in range(5):
        x, y = CURVE_LEFT + (right - CURVE_LEFT) * tick / 4, top + CURVE_HEIGHT * (1 - tick / 4)
        parts.append(rule.format(CURVE_LEFT, right, y, y) + rule.format(x, x, top, top + CURVE_HEIGHT))
        text = Markup('<text x="{:.2f}%" y="{:.1f}" dx="{}" class="tick {}">{}</text>')
        parts.append(text.format(CURVE_LEFT, y + 4, -6, "end", _tick(tick / 4)))
        parts.append(text.format(x, top + CURVE_HEIGHT + 15, 0, "middle", _tick(tick / 4)))
    parts.append(Markup('<text x="{:.2f}%" y="{}" class="tick end">{}, %</text>').format(right, height - 3, across))
    box = Markup('<svg x="{}%" y="{}" width="{}%" height="{}" viewBox="0 0 1000 1000" preserveAspectRatio="none">{}</svg>')
    parts.append(box.format(CURVE_LEFT, top, right - CURVE_LEFT, CURVE_HEIGHT, Markup("").join(map(_trace, lines))))
    return svg(height, title, parts)


def trace_key(series: int) -> Markup:
    """The sample of a trace, for legends."""
    return Markup('<svg class="key" width="26" height="12" aria-hidden="true"><path {} d="M1 6H25"/></svg>').format(
        _path(series)
    )


def _trace(line: Trace) -> Markup:
    """In a square of 1000, 0 below: at any width, lines keep theirs."""
    places = " ".join(f"{1000 * x:.0f},{1000 * (1 - y):.0f}" for x, y in line.points)
    return Markup('<polyline {} points="{}"><title>{}</title></polyline>').format(_path(line.series), places, line.name)


def _path(series: int) -> Markup:
    dash = Markup(' stroke-dasharray="{}"').format(DASHES[series // COLOURS % len(DASHES)]) if series >= COLOURS else ""
    return Markup('class="trace" style="stroke:var(--{})"{}').format(_colour(series), dash)


def key(series: int) -> Markup:
    """The sample of a series, for legends."""
    return Markup(
        '<svg class="key" width="26" height="12" aria-hidden="true"><line {} x1="1" x2="25" y1="6" y2="6"/>{}</svg>'
    ).format(_stroke(series), marker("13", 6, series))


def heat_colours(value: float | None, top: float) -> tuple[str, str]:
    """(background, letters) for a fraction on a scale from 0 to `top`; empty where there is no number."""
    if value is None or not is_number(value):
        return "", ""
    place = min(max(value / top, 0.0), 1.0) * (len(HEAT) - 1) if top > 0 else 0.0
    index = min(int(place), len(HEAT) - 2)
    share = place - index
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(HEAT[index], HEAT[index + 1], strict=True))
    dark = _luminance(red, green, blue)
    # whichever of black and white has the greater contrast (WCAG 2)
    letters = "#fff" if 1.05 / (dark + 0.05) > (dark + 0.05) / 0.05 else "#000"
    return f"#{red:02x}{green:02x}{blue:02x}", letters


def _colour(series: int) -> str:
    return "plain" if series == PLAIN else f"s{series % COLOURS}"


def _luminance(*channels: int) -> float:
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def svg(height: float, title: str, parts: Sequence[Markup]) -> Markup:
    head = Markup('<svg class="chart" role="img" width="100%" height="{}" aria-label="{}">').format(height, title)
    return head + Markup("").join(parts) + Markup("</svg>")


def _along(value: float, end: float) -> float:
    return LABELS + (PLOT_END - LABELS) * min(max(value / end, 0.0), 1.0)


def _down(value: float, end: float) -> float:
    return CURVE_TOP + CURVE_HEIGHT * (1 - min(max(value / end, 0.0), 1.0))


def _tick(value: float) -> str:
    return f"{100 * value:g}"


def _grid_line(x: float, bottom: float, value: float, text_y: float) -> Markup:
    line = Markup('<line class="rule" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="{1}"/>').format(x, bottom)
    return line + Markup('<text x="{:.2f}%" y="{}" class="tick middle">{}</text>').format(x, text_y, _tick(value))


def _bar(row: Bar, y: int, end: float) -> Markup:
    label = row.label if len(row.label) <= LONGEST_LABEL else row.label[: LONGEST_LABEL - 1] + "…"
    parts = [Markup('<text x="{}%" y="{}" dx="-8" class="label end">{}</text>').format(LABELS, y + 17, label)]
    box = Markup('<rect class="{}" x="{}%" y="{}" width="{:.2f}%" height="15" rx="2"/>')
    if row.reference is not None and is_number(row.reference):
        parts.append(box.format("lost", LABELS, y + 5, _along(row.reference, end) - LABELS))
    if row.value is not None and is_number(row.value):
        parts.append(box.format(f"fill {_colour(row.series)}", LABELS, y + 5, _along(row.value, end) - LABELS))
    if row.low is not None and row.high is not None and is_number(row.low) and is_number(row.high):
        parts.append(_interval_mark(_along(row.low, end), _along(row.high, end), y + 12.5))
    parts.append(Markup('<text x="100%" y="{}" class="value end">{}</text>').format(y + 17, percent(row.value)))
    return Markup("<g>{}</g>").format(Markup("").join(parts))


def _interval_mark(low: float, high: float, y: float) -> Markup:
    ends = Markup("").join(
        Markup('<line class="whisker" x1="{0:.2f}%" x2="{0:.2f}%" y1="{1}" y2="{2}"/>').format(x, y - 4, y + 4)
        for x in (low, high)
    )
    return Markup('<line class="whisker" x1="{0:.2f}%" x2="{1:.2f}%" y1="{2}" y2="{2}"/>').format(low, high, y) + ends


def _places(steps: Sequence[int], right: float) -> dict[int, float]:
    """Step -> percentage of the width; one alone stands in the middle."""
    inner = (CURVE_LEFT + 3, right - 3)
    if len(steps) == 1:
        return {steps[0]: sum(inner) / 2}
    return {step: inner[0] + (inner[1] - inner[0]) * k / (len(steps) - 1) for k, step in enumerate(sorted(steps))}


def _stroke(series: int) -> Markup:
    dash = DASHES[series // COLOURS % len(DASHES)]
    return Markup('class="line {}"{}').format(_colour(series), Markup(' stroke-dasharray="{}"').format(dash) if dash else "")


def marker(x: str, y: float, series: int) -> Markup:
    shape = MARKERS[series % len(MARKERS)]
    return Markup('<svg x="{}" y="{:.1f}" overflow="visible"><path class="mark {}" d="{}"/></svg>').format(
        x, y, _colour(series), shape
    )


def _line(line: Series, places: dict[int, float], end: float) -> Markup:
    points = [(places[x], y) for x, y in line.points]
    parts = []
    for (x1, y1), (x2, y2) in pairwise(points):
        if y1 is not None and y2 is not None and is_number(y1) and is_number(y2):
            ends = Markup('x1="{:.2f}%" y1="{:.1f}" x2="{:.2f}%" y2="{:.1f}"').format(x1, _down(y1, end), x2, _down(y2, end))
            parts.append(Markup("<line {} {}/>").format(_stroke(line.series), ends))
    for x, y in points:
        if y is not None and is_number(y):
            mark = marker(f"{x:.2f}%", _down(y, end), line.series)
            parts.append(Markup("<g><title>{}: {}</title>{}</g>").format(line.name, percent(y), mark))
    return Markup("<g>{}</g>").format(Markup("").join(parts))


def _end_labels(lines: Sequence[Series], end: float, right: float) -> list[Markup]:
    """The labels at the right, moved apart where they would overlap."""
    wanted = []
    for line in lines:
        last = next((y for _, y in reversed(line.points) if y is not None and is_number(y)), None)
        if line.end and last is not None:
            wanted.append((_down(last, end), line))
    wanted.sort(key=lambda pair: pair[0])
    labels, y = [], -float(LABEL_GAP)
    for k, (place, line) in enumerate(wanted):
        room = CURVE_TOP + CURVE_HEIGHT - LABEL_GAP * (len(wanted) - 1 - k)
        y = min(max(place, y + LABEL_GAP), max(room, y + LABEL_GAP))
        labels.append(
            Markup('<text x="{}%" y="{:.1f}" dx="2" dy="4" class="value {}">{}</text>').format(
                right, y, _colour(line.series), line.end
            )
        )
    return labels
