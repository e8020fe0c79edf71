"""A sweep as one picture: each number over the values of the first varied setting; the others become lines."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustvit.metrics.measures import SHARE, is_measure, measure_of
from robustvit.report.training_figure import COLOURS
from robustvit.runtime.files import write_whole
from robustvit.sweeping.grid import label_of, number_of
from robustvit.sweeping.result import Row, Spread, SweepResult
from robustvit.sweeping.table import heading_of

__all__ = ["save_sweep_figure"]

MARKERS = "osD^vP"
MOST_PANELS = 4
PANEL_INCHES = 3.3
ROOM = 40
"""Letters that labels of categories may have in all before they are slanted."""
DECADES = 100
"""Ratio of the largest to the smallest value from which on the axis is logarithmic."""
DOTS = 150  # of an inch
FAILED = "#b91c1c"
QUIET = "#555555"
NOTE_INCHES = 0.2
"""Kept free at the foot for what points, bars and dots are."""
SEED_POINTS = 4
"""How far the dots of the seeds stand beside their mean."""


@dataclass(frozen=True)
class _Scale:
    """The horizontal axis: a place for the label of each value; `kind` is "linear", "log" or "categories"."""

    labels: tuple[str, ...]
    places: tuple[float, ...]
    kind: str

    def place(self, row: Row, shift: float) -> float:
        """Where a row stands, beside its value by a part of the axis."""
        place = self.places[self.labels.index(label_of(next(iter(row.settings.values()))))]
        if self.kind == "log":
            return place * (max(self.places) / min(self.places)) ** shift
        return place + shift * ((max(self.places) - min(self.places)) or 1)


@dataclass(frozen=True)
class _Line:
    """The rows that share the values of all settings but the first; `shift` keeps lines from covering each other."""

    label: str
    colour: str
    marker: str
    rows: tuple[Row, ...]
    shift: float


def save_sweep_figure(result: SweepResult, *paths: Path) -> None:
    """Draws what a sweep has so far: means with their standard deviation, and every seed as a dot.

    Args:
        result: of a sweep; cells that failed or wait are counted above the figure.
        paths: .png or .svg files of the same figure.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    scale, columns = _scale(result.axes[0].values), result.columns[:MOST_PANELS] or ["clean_accuracy"]
    width = max(PANEL_INCHES, 0.42 * len(scale.labels)) if scale.kind == "categories" else PANEL_INCHES
    figure = Figure(
        figsize=(max(width * len(columns), 4.5), 3.6), dpi=DOTS, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    )
    lines = _lines(result, scale)
    for name, axes in zip(columns, figure.subplots(1, len(columns), squeeze=False)[0], strict=True):
        for line in lines:
            _draw(axes, line, name, scale)
        _finish(axes, name, result.axes[0].name, scale)
        if not result.columns:
            axes.set_ylim(0, 100)
            axes.text(0.5, 0.5, "nothing measured yet", transform=axes.transAxes, ha="center", fontsize=9)
    foot = _add_note(figure, _note(result, columns))
    if len(result.axes) > 1:
        _add_legend(figure, lines, ", ".join(axis.name for axis in result.axes[1:]))
    if remark := _remark(result):
        figure.suptitle(remark, x=0.01, ha="left", fontsize=8, color=FAILED)
    _lay_out(figure, foot)
    for path in paths:
        with write_whole(path) as file:
            figure.savefig(file, dpi=DOTS, format=path.suffix.lstrip("."))


def _lay_out(figure: Any, foot: float) -> None:
    """Once for all files. The layout keeps room for the legend, but puts it on the share `foot` that is not its own."""
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, foot, 1, 1 - foot), transform=figure.transFigure)


def _add_legend(figure: Any, lines: Sequence[_Line], title: str) -> None:
    inches = 0.08 * max(len(part) for line in lines for part in line.label.split("\n")) + 0.6
    across = min(len(lines), max(1, int(figure.get_figwidth() / inches)))
    where = dict(loc="outside lower center", ncols=across, frameon=False)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), **where, fontsize=8, title=title, title_fontsize=8)


def _scale(values: Sequence[Any]) -> _Scale:
    """Numbers on an axis of numbers, anything else as categories."""
    labels, numbers = tuple(map(label_of, values)), [number_of(value) for value in values]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return _Scale(labels, tuple(map(float, range(len(labels)))), "categories")
    is_wide = min(known) > 0 and max(known) / min(known) > DECADES
    return _Scale(labels, tuple(known), "log" if is_wide else "linear")


def _lines(result: SweepResult, scale: _Scale) -> list[_Line]:
    groups: dict[str, list[Row]] = {}
    for row in result.rows:
        groups.setdefault(", ".join(map(label_of, list(row.settings.values())[1:])), []).append(row)
    lines = []
    for i, (label, rows) in enumerate(groups.items()):
        shift = (i - (len(groups) - 1) / 2) * min(0.04, 0.12 / len(groups))
        ordered = sorted(rows, key=lambda row: scale.place(row, 0.0))
        style = (COLOURS[i % len(COLOURS)], MARKERS[i // len(COLOURS) % len(MARKERS)])
        lines.append(_Line(_wrapped(label, 60), *style, tuple(ordered), shift))
    return lines


def _draw(axes: Any, line: _Line, name: str, scale: _Scale) -> None:
    from matplotlib.transforms import ScaledTranslation

    factor = measure_of(name).unit.factor
    beside = axes.transData + ScaledTranslation(SEED_POINTS / 72, 0, axes.figure.dpi_scale_trans)
    rows = [row for row in line.rows if name in row.numbers]
    for row in line.rows:
        place, dots = scale.place(row, line.shift), [c.numbers[name] for c in row.cells if name in c.numbers]
        if len(dots) > 1:
            heights = [factor * dot for dot in dots]
            axes.scatter([place] * len(dots), heights, s=11, color=line.colour, alpha=0.45, linewidths=0, transform=beside)
            axes.update_datalim([(place, height) for height in heights])  # which the shift beside keeps from happening
        elif not dots and row.count("failed"):
            at_the_foot = dict(transform=axes.get_xaxis_transform(), clip_on=False)
            axes.plot([place], [0.0], marker="x", color=FAILED, linestyle="none", **at_the_foot)
    spreads = [row.numbers[name] for row in rows]
    axes.errorbar(
        [scale.place(row, line.shift) for row in rows],
        [factor * spread.mean for spread in spreads],
        yerr=list(zip(*(_bar(name, spread, factor) for spread in spreads), strict=True)) or None,
        color=line.colour,
        marker=line.marker,
        markersize=4.5,
        linewidth=1.4,
        linestyle="none" if scale.kind == "categories" and not line.label else "-",
        elinewidth=1.0,
        capsize=2.5,
        label=line.label,
    )


def _bar(name: str, spread: Spread, factor: float) -> tuple[float, float]:
    """How far a bar reaches below and above its point: a standard deviation, but a share stays within 0 and 100 %."""
    if spread.deviation is None:
        return math.nan, math.nan
    below = above = spread.deviation
    if _is_share(name):
        below, above = min(below, spread.mean), min(above, 1 - spread.mean)
    return factor * max(below, 0.0), factor * max(above, 0.0)


def _is_share(name: str) -> bool:
    """Whether a number cannot pass 100 %; relative ones (mFR, what is kept of the accuracy) can."""
    return is_measure(name) and measure_of(name).unit is SHARE


def _finish(axes: Any, name: str, varied: str, scale: _Scale) -> None:
    axes.set_title(heading_of(name), loc="left", fontsize=10)
    axes.set_xlabel(varied)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if scale.kind == "log":
        axes.set_xscale("log")
    if scale.kind == "categories":
        axes.set_xlim(-0.5, len(scale.labels) - 0.5)
    labels = [_wrapped(label, 22) if scale.kind == "categories" else label.strip("[]") for label in scale.labels]
    longest = max(len(part) for label in labels for part in label.split("\n"))
    slanted = dict(rotation=35, ha="right", rotation_mode="anchor") if longest * len(labels) > ROOM else {}
    if scale.kind == "categories" or len(labels) <= 8:
        axes.set_xticks(scale.places, labels, **slanted)
        axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes.tick_params(labelsize=8)


def _wrapped(label: str, width: int) -> str:
    """On several lines where it is long; at most four."""
    lines = textwrap.wrap(label, width)
    return "\n".join(lines if len(lines) <= 4 else [*lines[:3], f"{lines[3]}..."])


def _add_note(figure: Any, text: str) -> float:
    """Small text at the foot; returns the share of the height that is kept free for it."""
    if not text:
        return 0.0
    height = figure.get_figheight()
    lines = textwrap.wrap(text, int(figure.get_figwidth() / 0.056))
    free = NOTE_INCHES * (0.4 + 0.6 * len(lines)) / height
    figure.get_layout_engine().set(rect=(0, free, 1, 1 - free))
    figure.text(0.01, 0.03 / height, "\n".join(lines), fontsize=7, color=QUIET, va="bottom")
    return free


def _note(result: SweepResult, columns: Sequence[str]) -> str:
    """What points, bars and dots are."""
    spreads = [(name, row.numbers[name]) for row in result.rows for name in columns if name in row.numbers]
    counts = sorted({spread.count for _, spread in spreads})
    if not counts:
        return ""
    if counts == [1]:
        return "Each point is one run: there is 1 seed."
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    known = [(name, one, one.deviation) for name, one in spreads if one.deviation is not None]
    is_cut = any(_is_share(name) and (d > one.mean or d > 1 - one.mean) for name, one, d in known)
    limits = " (not beyond 0 and 100 %)" if is_cut else ""
    return f"Points are means over {seeds} seeds, bars one standard deviation{limits}, dots the seeds."


def _remark(result: SweepResult) -> str:
    """What the figure does not show."""
    waiting = sum(cell.state == "waiting" for cell in result.cells)
    told = [
        f"{count} {what}"
        for count, what in ((len(result.failed), "failed (\N{MULTIPLICATION SIGN})"), (waiting, "not done yet"))
        if count
    ]
    return f"of {len(result.cells)} runs: {', '.join(told)}" if told else ""
