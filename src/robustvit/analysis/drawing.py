"""What the figures of studies have in common: size, colours, labels, and how they become files."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from robustvit.analysis.finding import Finding
from robustvit.runtime.colours import SERIES

__all__ = [
    "DOTS",
    "LETTER",
    "PANEL",
    "STATES",
    "WIDEST",
    "Plate",
    "bare",
    "broken",
    "colour",
    "counted",
    "encode",
    "extent",
    "from_zero",
    "histograms",
    "label_row",
    "legend",
    "letters_in",
    "lines",
    "new_figure",
    "no_cosine_above_1",
    "number",
    "number_rows",
    "panels",
    "plain_axes",
    "short",
    "show_map",
]

STATES = ("clean", "spoiled")
"""Of an image, in the names of arrays."""
PANEL = 1.75  # inches
WIDEST = 10.5  # inches; a page shows ten, and would shrink the letters of what is much wider
DOTS = 150  # of an inch in a PNG
LONGEST = 28
LETTER = 0.065  # inches, the mean letter of small text
LABEL_LETTERS = 18
"""In a line of the label before a row."""
SEPARATORS = re.compile(r"(?<=[/_.:\s-])")
"""After which a name may be broken."""
PIXELS = 104  # of an inch on a page, which is ten inches wide


Rows = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


@dataclass(frozen=True)
class Plate:
    """A figure with what a reader needs.

    Attributes:
        name: of its files.
        title: above it.
        reading: a sentence that says how to read it.
        figure: of matplotlib.
        rows: a small table below it: (network, ((label, value), ...)).
    """

    name: str
    title: str
    reading: str
    figure: Any
    rows: Rows = ()

    @property
    def width(self) -> int:
        """On the page, in pixels: letters are equally large in all figures."""
        return round(PIXELS * float(self.figure.get_figwidth()))


def colour(place: int) -> str:
    """Of the network at this place."""
    return SERIES[place % len(SERIES)]


def new_figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white", dpi=DOTS)  # laid out as it is saved
    FigureCanvasAgg(figure)
    return figure


def panels(rows: int, columns: int, *, side: float = PANEL, label_width: float = 1.35) -> tuple[Any, Any]:
    """(figure, axes [rows, columns]) for images, without ticks, with room for a label before each row.

    Many columns have smaller panels than `side`, so that the figure fits a page.
    """
    side = min(side, (WIDEST - label_width) / columns)
    figure = new_figure(label_width + side * columns, 0.3 + side * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        bare(axis)
    return figure, axes


def bare(axis: Any) -> None:
    """Neither ticks nor frame: for an image."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_visible(False)


def label_row(axis: Any, name: str, *more: str) -> None:
    """Writes the name of a network, and lines below it, before its row: level, so that rows cannot run into each other."""
    text = "\n".join([broken(name, LABEL_LETTERS), *more])
    axis.set_ylabel(text, fontsize=8, rotation=0, ha="right", va="center", multialignment="right")


def letters_in(axis: Any) -> int:
    """How many letters fit above a panel of `panels`, with a gap to its neighbour."""
    columns = axis.get_gridspec().ncols
    return max(6, int(0.85 * axis.figure.get_figwidth() / columns / LETTER))


def show_map(axis: Any, values: np.ndarray, highest: float, gamma: float = 1.0) -> Any:
    """A map from 0 (black) to `highest` and above (bright); a `gamma` below 1 lifts what is dark."""
    from matplotlib.colors import PowerNorm

    norm = PowerNorm(gamma, vmin=0, vmax=max(highest, 1e-12), clip=True)
    return axis.imshow(values, cmap="magma", norm=norm, interpolation="nearest")


def plain_axes(axis: Any, title: str, x: str = "", y: str = "") -> None:
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xlabel(x, fontsize=9)
    axis.set_ylabel(y, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def lines(axis: Any, values: dict[str, Sequence[float | None]], title: str, y: str = "") -> None:
    """One line per network over its blocks, counted from 1."""
    from matplotlib.ticker import MaxNLocator

    for place, (name, line) in enumerate(values.items()):
        blocks = range(1, len(line) + 1)
        numbers = [math.nan if value is None else value for value in line]
        style = dict(marker="o", markersize=3.5, clip_on=False)  # a point on the edge is seen whole
        axis.plot(blocks, numbers, color=colour(place), label=short(name), **style)
    plain_axes(axis, title, "block", y)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def histograms(axis: Any, values: Mapping[str, np.ndarray], title: str, places: Iterable[int] | None = None) -> None:
    """Shares of the cosines over their common range, with a line at each mean.

    Args:
        axis: to draw on.
        values: network -> cosines.
        title: above it.
        places: of the networks, for their colours; by default in order.
    """
    low = min(float(v.min()) for v in values.values())
    edges = np.linspace(min(low, 0.99), 1.0, 31)
    for place, (name, v) in zip(range(len(values)) if places is None else places, values.items(), strict=True):
        share = np.full(v.shape, 1 / max(len(v), 1))
        axis.hist(v.clip(edges[0], 1), edges, weights=share, color=colour(place), alpha=0.35, label=short(name))
        axis.axvline(float(v.mean()), color=colour(place), linewidth=1.6)
    plain_axes(axis, title, "cosine", "share")
    axis.set_xlim(edges[0], 1)


def legend(figure: Any, networks: Iterable[str]) -> None:
    """One legend below all panels, where there is more than one network."""
    if len(list(networks)) < 2:
        return
    handles, labels = figure.axes[-1].get_legend_handles_labels()
    inches = LETTER * max(map(len, labels)) + 0.6
    across = max(1, min(len(labels), int(figure.get_figwidth() / inches)))
    figure.legend(handles, labels, loc="outside lower center", ncols=across, frameon=False, fontsize=8)


def from_zero(axis: Any, most: float = math.inf) -> None:
    """Lets the vertical axis begin at 0, with a margin above, but not beyond `most`."""
    high = max((float(np.nanmax(line.get_ydata())) for line in axis.lines), default=1.0)
    axis.set_ylim(0, min(1.06 * high, most) if high > 0 else 1)


def no_cosine_above_1(axis: Any) -> None:
    """Lets the vertical axis end at 1 where it would go beyond."""
    axis.set_ylim(top=min(1.0, axis.get_ylim()[1]))


def short(name: str) -> str:
    """The name of a network where there is little room, without its middle; nothing of it is mathematics."""
    kept = _cut(name)
    return f"{' ' if kept.startswith('_') else ''}{kept}".replace("$", r"\$")  # a legend leaves out what begins with _


def broken(name: str, letters: int) -> str:
    """As `short`, in lines of at most `letters` and about equal length, after / _ - . : and spaces where there are any."""
    text = _cut(name)
    fewest = len(_lines_of(text, letters))
    least = min(letters, max(map(len, SEPARATORS.split(text)), default=0)) or 1  # shorter lines would break words
    lines = next(lines for n in range(least, letters + 1) if len(lines := _lines_of(text, n)) <= fewest)
    return "\n".join(line.strip() for line in lines).replace("$", r"\$")


def _lines_of(text: str, letters: int) -> list[str]:
    lines = [""]
    for part in SEPARATORS.split(text):
        if lines[-1] and len(lines[-1]) + len(part) > letters:
            lines.append("")
        pieces = [part[i : i + letters] for i in range(0, len(part), letters)] or [""]
        lines = [*lines[:-1], lines[-1] + pieces[0], *pieces[1:]]
    return lines


def _cut(name: str) -> str:
    """Beginning and end tell networks and files apart."""
    front = (LONGEST - 1) // 2
    return name if len(name) <= LONGEST else f"{name[:front]}\N{HORIZONTAL ELLIPSIS}{name[front + 1 - LONGEST :]}"


def extent(H: int, W: int) -> tuple[float, float, float, float]:
    """Where a map of tokens lies on an image of H x W pixels."""
    return (-0.5, W - 0.5, H - 0.5, -0.5)


def number_rows(findings: Mapping[str, Finding], columns: Sequence[tuple[str, str]]) -> Rows:
    """The table below a figure, of those numbers that there are; `columns` has (name of the number, label)."""
    return tuple(
        (name, tuple((label, number(one.numbers[key])) for key, label in columns if key in one.numbers))
        for name, one in findings.items()
    )


def number(value: Any) -> str:
    """As a table shows it."""
    if value is None:
        return "\N{EN DASH}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def counted(count: int, what: str) -> str:
    """ "1 image", "2 images"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def encode(figure: Any, kind: Literal["png", "svg"]) -> bytes:
    """The figure as a file; the same figure gives the same bytes."""
    import matplotlib as mpl

    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)  # once for all files
        figure.set_layout_engine("none")
    stream = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "robustvit"}):
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(stream, format=kind, dpi=DOTS, metadata=metadata)
    return stream.getvalue()
