"""Where the tokens of several networks look, on the same image clean and spoiled, as one figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustvit.analysis.drawing import DOTS, PANEL, encode
from robustvit.report.dark_figures import darken

__all__ = ["AttentionRow", "attention_figure"]

COLOURS = "magma"


@dataclass(frozen=True)
class AttentionRow:
    """One network.

    Attributes:
        name: of the network.
        maps: a map [Hp, Wp] for each image, in multiples of uniform attention.
        remark: below the name.
    """

    name: str
    maps: tuple[np.ndarray, ...]
    remark: str = ""


def attention_figure(pictures: Sequence[tuple[str, np.ndarray]], rows: Sequence[AttentionRow]) -> tuple[bytes, bytes]:
    """A PNG for light pages and one for dark ones.

    The images above, and below them a row of maps for each network, each row on one colour scale from 0.

    Args:
        pictures: (title, uint8 [H, W, 3]).
        rows: networks with a map for each image.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = len(pictures)
    figure = Figure(figsize=(1.3 + PANEL * columns, 0.35 + PANEL * (len(rows) + 1)), dpi=DOTS, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows) + 1, columns, squeeze=False)
    figure.subplots_adjust(left=1.25 / (1.3 + PANEL * columns), right=0.99, top=0.92, bottom=0.02, wspace=0.06, hspace=0.1)
    for axis, (title, picture) in zip(axes[0], pictures, strict=True):
        axis.imshow(picture, interpolation="nearest")
        axis.set_title(title, fontsize=9)
    for line, row in zip(axes[1:], rows, strict=True):
        highest = max(float(values.max()) for values in row.maps)
        for axis, values in zip(line, row.maps, strict=True):
            axis.imshow(values, cmap=COLOURS, vmin=0, vmax=highest, interpolation="nearest")
        label = f"{row.name}\n{row.remark}" if row.remark else row.name
        line[0].set_ylabel(label, fontsize=9, rotation=0, ha="right", va="center", labelpad=6)
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    light = encode(figure, "png")
    darken(figure)
    return light, encode(figure, "png")
