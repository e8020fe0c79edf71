"""Networks in a plane: retention against size (FAN, Figure 1), ImageNet-A against ImageNet-R (STL, Figure 1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from robustvit.evaluation.results import ModelResults, Value
from robustvit.metrics.measures import RETENTION, measure_of, measures
from robustvit.report.charts import AXIS, CURVE_HEIGHT, CURVE_LEFT, CURVE_TOP, marker, svg
from robustvit.report.numbers import is_number

__all__ = ["Dot", "ScatterFigure", "compared_scatters", "round_ticks", "scatter"]

MILLION = 1e6
RIGHT = 100 - CURVE_LEFT / 4
"""Where the plot ends, in percent of the width."""
STEPS = (1, 2, 2.5, 5, 10)
MOST_STEPS = 5


@dataclass(frozen=True)
class Dot:
    """A network in a scatter plot.

    Attributes:
        name: of the network.
        x, y: of its place; an interval with `low` and `high` is drawn as a line.
        series: number of colour and marker.
    """

    name: str
    x: Value
    y: Value
    series: int


@dataclass(frozen=True)
class ScatterFigure:
    """A scatter plot.

    Attributes:
        title: what is against what.
        caption: what to read from it.
        legend: (series, name) of the networks in it.
        chart: the drawing.
    """

    title: str
    caption: str
    legend: tuple[tuple[int, str], ...]
    chart: Markup


def compared_scatters(models: Sequence[ModelResults]) -> tuple[ScatterFigure, ...]:
    """The figures of which at least two networks have both numbers."""
    a, r, kept = "imagenet_a_accuracy", "imagenet_r_accuracy", _retention(models)
    found = (
        _figure(models, _size, _number(kept), "Parameters, millions", measure_of(kept).heading, "Retention against size"),
        _figure(models, _number(r), _number(a), measure_of(r).heading, measure_of(a).heading, "ImageNet-A against ImageNet-R"),
    )
    return tuple(figure for figure in found if figure is not None)


def _figure(
    models: Sequence[ModelResults],
    x: Callable[[ModelResults], Value | None],
    y: Callable[[ModelResults], Value | None],
    across: str,
    up: str,
    title: str,
) -> ScatterFigure | None:
    dots = [
        Dot(model.name, one, other, place)
        for place, model in enumerate(models)
        if (one := x(model)) is not None and (other := y(model)) is not None
    ]
    if len(dots) < 2:
        return None
    caption = "Every marker is a network; thin lines are 95 % intervals. The axes do not begin at 0."
    legend = tuple((dot.series, dot.name) for dot in dots)
    return ScatterFigure(title, caption, legend, scatter(dots, across, up, title))


def _retention(models: Sequence[ModelResults]) -> str:
    """The one of a published benchmark where two networks have it, such as FAN's over 17 corruptions; else any."""
    exact = (measure.key for measure in measures() if measure.refines == RETENTION.key)
    return next((key for key in exact if sum(key in model.summary for model in models) > 1), RETENTION.key)


def _size(model: ModelResults) -> Value | None:
    """Its parameters in millions; None of a function, which has none."""
    return Value(model.parameters / MILLION) if model.parameters else None


def _number(key: str) -> Callable[[ModelResults], Value | None]:
    """Reads a number of a summary, in the unit that is shown."""
    factor = measure_of(key).unit.factor

    def read(model: ModelResults) -> Value | None:
        value = model.summary.get(key)
        if value is None or not is_number(value.value):
            return None
        low, high = (None if end is None else factor * end for end in (value.low, value.high))
        return Value(factor * value.value, low, high)

    return read


def round_ticks(values: Sequence[float]) -> tuple[float, ...]:
    """Round numbers at equal steps, at most six, that hold all values between the first and the last.

    Args:
        values: at least one.
    """
    low, high = min(values), max(values)
    reach = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(reach / MOST_STEPS))
    for step in (power * factor for factor in (*STEPS, *(10 * factor for factor in STEPS))):
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        last += first == last
        if last - first <= MOST_STEPS:
            return tuple(round(step * k, 10) for k in range(first, last + 1))
    raise AssertionError(f"no steps for {low} to {high}")


def scatter(dots: Sequence[Dot], across: str, up: str, title: str) -> Markup:
    """A marker for each network; the axes begin and end at round numbers, not at 0.

    Args:
        dots: at least one.
        across, up: names of the axes, with their units.
        title: what a screen reader says, before the places of the dots.
    """
    ticks_x, ticks_y = round_ticks(_reach([dot.x for dot in dots])), round_ticks(_reach([dot.y for dot in dots]))
    top = CURVE_TOP + AXIS / 2
    told = "; ".join(f"{dot.name} {dot.x.value:.3g}, {dot.y.value:.3g}" for dot in dots)
    parts = [Markup('<text x="{}%" y="{}" dy="-4" class="tick">{}</text>').format(CURVE_LEFT, top, up)]
    rule = Markup('<line class="rule" x1="{:.2f}%" x2="{:.2f}%" y1="{:.1f}" y2="{:.1f}"/>')
    text = Markup('<text x="{:.2f}%" y="{:.1f}" dx="{}" class="tick {}">{:g}</text>')
    for tick in ticks_y:
        y = _up(tick, ticks_y, top)
        parts += [rule.format(CURVE_LEFT, RIGHT, y, y), text.format(CURVE_LEFT, y + 4, -6, "end", tick)]
    for tick in ticks_x:
        x = _across(tick, ticks_x)
        parts += [rule.format(x, x, top, top + CURVE_HEIGHT), text.format(x, top + CURVE_HEIGHT + 15, 0, "middle", tick)]
    height = top + CURVE_HEIGHT + 2 * AXIS
    parts.append(Markup('<text x="{:.2f}%" y="{}" class="tick end">{}</text>').format(RIGHT, height - 5, across))
    parts += [_dot(dot, ticks_x, ticks_y, top) for dot in dots]
    return svg(height, f"{title} ({across}; {up}): {told}", parts)


def _dot(dot: Dot, ticks_x: Sequence[float], ticks_y: Sequence[float], top: float) -> Markup:
    x, y = _across(dot.x.value, ticks_x), _up(dot.y.value, ticks_y, top)
    line = Markup('<line class="whisker" x1="{:.2f}%" x2="{:.2f}%" y1="{:.1f}" y2="{:.1f}"/>')
    parts = []
    if dot.x.low is not None and dot.x.high is not None:
        parts.append(line.format(_across(dot.x.low, ticks_x), _across(dot.x.high, ticks_x), y, y))
    if dot.y.low is not None and dot.y.high is not None:
        parts.append(line.format(x, x, _up(dot.y.low, ticks_y, top), _up(dot.y.high, ticks_y, top)))
    parts.append(marker(f"{x:.2f}%", y, dot.series))
    told = f"{dot.name}: {dot.x.value:.3g}, {dot.y.value:.3g}"
    return Markup("<g><title>{}</title>{}</g>").format(told, Markup("").join(parts))


def _reach(values: Sequence[Value]) -> list[float]:
    """All that an axis must hold."""
    ends = [end for value in values for end in (value.low, value.high) if end is not None and is_number(end)]
    return [*(value.value for value in values), *ends]


def _across(value: float, ticks: Sequence[float]) -> float:
    return CURVE_LEFT + (RIGHT - CURVE_LEFT) * (value - ticks[0]) / (ticks[-1] - ticks[0])


def _up(value: float, ticks: Sequence[float], top: float) -> float:
    return top + CURVE_HEIGHT * (1 - (value - ticks[0]) / (ticks[-1] - ticks[0]))
