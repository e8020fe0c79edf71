"""The curves that results keep, as precision over recall: of one network under its conditions, and of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from robustvit.corruptions.conditions import CLEAN
from robustvit.evaluation.results import ModelResults
from robustvit.report.charts import PLAIN, Trace, trace_key, traces
from robustvit.report.numbers import condition_label, mean, percent
from robustvit.tasks.curves import Curves
from robustvit.tasks.per_class import CORRUPTED

__all__ = ["CurveFigure", "compared_traces", "curve_figures"]

MOST_LINES = 7
"""In one panel."""


@dataclass(frozen=True)
class CurvePanel:
    """A chart with a heading, and (sample of the line, what it is, mean height) of its lines."""

    title: str
    chart: Markup
    legend: tuple[tuple[Markup, str, str], ...]


@dataclass(frozen=True)
class CurveFigure:
    """The curves of one measurement.

    Attributes:
        suites: of the measurement.
        title: what is over what.
        up: what heights are.
        panels: one per kind of curve.
    """

    suites: str
    title: str
    up: str
    panels: tuple[CurvePanel, ...]


def curve_figures(model: ModelResults, place: int) -> tuple[CurveFigure, ...]:
    """Of one network: a line per condition.

    Args:
        model: the network.
        place: number of its colour.
    """
    found = []
    for measured in (measured for measured in model.measurements if measured.curves):
        panels = []
        for curves in measured.curves:
            names = [name for name in curves.lines if name != CLEAN.name][:MOST_LINES]
            colours = {CLEAN.name: PLAIN, **{name: place + k for k, name in enumerate(names)}}
            lines = [(condition_label(n, measured.suites), colours[n], curves.lines[n]) for n in curves.lines if n in colours]
            panels.append(_panel(curves.title, curves, lines))
        found.append(_figure(measured.suites, measured.curves[0], panels))
    return tuple(found)


def compared_traces(models: Sequence[ModelResults]) -> tuple[CurveFigure, ...]:
    """Of several: a panel per kind of curve, for clean and for corrupted samples, and in it a line per network."""
    shared: dict[tuple[str, ...], list[tuple[int, ModelResults, tuple[Curves, ...]]]] = {}
    for place, model in enumerate(models):
        for measured in (measured for measured in model.measurements if measured.curves):
            shared.setdefault(measured.suites, []).append((place, model, measured.curves))
    found = []
    for suites, members in shared.items():
        titles = dict.fromkeys(curves.title for _, _, own in members for curves in own)
        made = (_compared(title, name, members) for title in titles for name in (CLEAN.name, CORRUPTED))
        panels = [panel for panel in made if panel is not None]
        if panels:
            found.append(_figure(suites, members[0][2][0], panels))
    return tuple(found)


def _compared(
    title: str, condition: str, members: Sequence[tuple[int, ModelResults, tuple[Curves, ...]]]
) -> CurvePanel | None:
    """One kind of curve under one condition; None where no network has it."""
    own = [(place, model, c) for place, model, all_ in members for c in all_ if c.title == title and condition in c.lines]
    lines = [(model.name, place, curves.lines[condition]) for place, model, curves in own]
    return _panel(f"{title}: {condition}", own[0][2], lines) if own else None


def _figure(suites: Sequence[str], first: Curves, panels: Sequence[CurvePanel]) -> CurveFigure:
    return CurveFigure(", ".join(suites), f"{first.up} over {first.across.lower()}", first.up.lower(), tuple(panels))


def _panel(title: str, curves: Curves, lines: Sequence[tuple[str, int, Sequence[float]]]) -> CurvePanel:
    """Of (name, number of the colour, heights)."""
    drawn = [Trace(name, tuple(zip(curves.at, heights, strict=True)), series) for name, series, heights in lines]
    legend = tuple((trace_key(series), name, percent(mean(heights))) for name, series, heights in lines)
    told = ", ".join(f"{name}: mean {height}" for _, name, height in legend)
    return CurvePanel(
        title, traces(drawn, curves.across, curves.up, f"{curves.up} over {curves.across}. {title}. {told}"), legend
    )
