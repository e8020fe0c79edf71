"""What the figures of analyses have in common: size, colours, labels, and how they become files."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

__all__ = [
    "COLOURS",
    "Plate",
    "bare",
    "encode",
    "from_zero",
    "lines",
    "new_figure",
    "panels",
    "plain_axes",
    "short",
    "show_map",
]

COLOURS = ("#0072b2", "#c2570c", "#00876c", "#a4508b", "#8a6d00", "#3a86c8", "#6b4fa3")
PANEL = 1.75  # inches
LONGEST = 26
PIXELS = 104  # of an inch on a page, which is ten inches wide


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
    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()

    @property
    def width(self) -> int:
        """On the page, in pixels: letters are equally large in all figures."""
        return round(PIXELS * float(self.figure.get_figwidth()))


def new_figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def panels(rows: int, columns: int, *, side: float = PANEL, label_width: float = 0.9) -> tuple[Any, Any]:
    """(figure, axes [rows, columns]) for pictures, without ticks, with room for a label before each row."""
    figure = new_figure(label_width + side * columns, 0.3 + side * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        bare(axis)
    return figure, axes


def bare(axis: Any) -> None:
    """Neither ticks nor frame: for a picture."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_visible(False)


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
    """One line a network over its blocks, counted from 1."""
    from matplotlib.ticker import MaxNLocator

    for place, (name, line) in enumerate(values.items()):
        blocks = range(1, len(line) + 1)
        numbers = [math.nan if value is None else value for value in line]
        axis.plot(blocks, numbers, color=COLOURS[place % len(COLOURS)], marker="o", markersize=3.5, label=short(name))
    plain_axes(axis, title, "block", y)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def from_zero(axis: Any) -> None:
    """Lets the vertical axis begin at 0, with a margin above."""
    high = max((float(np.nanmax(line.get_ydata())) for line in axis.lines), default=1.0)
    axis.set_ylim(0, 1.06 * high if high > 0 else 1)


def short(name: str) -> str:
    """The name of a network where there is little room: its end, which tells files apart; nothing of it is mathematics."""
    kept = name if len(name) <= LONGEST else f"\N{HORIZONTAL ELLIPSIS}{name[-LONGEST + 1 :]}"
    return f"{' ' if kept.startswith('_') else ''}{kept}".replace("$", r"\$")  # a legend leaves out what begins with _


def encode(figure: Any, kind: Literal["png", "svg"]) -> bytes:
    """The figure as a file; the same figure gives the same bytes."""
    import matplotlib as mpl

    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)  # once for all files
        figure.set_layout_engine("none")
    stream = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "robustvit"}):
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
    return stream.getvalue()
