"""The picture of `robustvit demo`: what the blocks of a network attend to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robustvit.files import write_whole

if TYPE_CHECKING:
    from robustvit.recording import Tape

__all__ = ["save_attention_figure"]

COLOURS = "magma"
DPI = 150
WIDTH, HEIGHT, PANEL = 14.3, 4.0, 2.3  # inches
LEFTS = (0.3, 2.95, 5.4, 7.85, 11.05)  # of the panels: the input, three blocks, the class token
BOTTOM = 0.95


def save_attention_figure(path: Path, picture: np.ndarray, tape: Tape, title: str, caption: str) -> None:
    """Draws a picture, the N x N attention of the first, middle and last block, and the class attention over the picture.

    Attention is shown in multiples of uniform attention: 1 is 1/N, what a token gets that nobody prefers. The three blocks
    share one colour scale.

    Args:
        path: the PNG file; appears whole or not at all.
        picture: [H, W, 3] uint8.
        tape: recorded on this picture alone, from a FAN (it has class attention).
        title: above the panels.
        caption: below them.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(LEFTS[0] / WIDTH, 1 - 0.36 / HEIGHT, title, fontsize=13, fontweight="bold")
    figure.text(LEFTS[0] / WIDTH, 0.18 / HEIGHT, caption, fontsize=9, color="0.35", linespacing=1.4)
    axes = [_add_axes(figure, left, PANEL) for left in LEFTS]

    axes[0].imshow(picture)
    axes[0].set_title("input", fontsize=10)
    N = tape.grid[0] * tape.grid[1]
    last = len(tape.attention) - 1
    blocks = (0, last // 2, last)
    maps = [tape.attention[i][0].mean(0).numpy() * N for i in blocks]
    low, high = _scale(np.stack(maps))
    for axis, block, attention in zip(axes[1:4], blocks, maps, strict=True):
        shown = axis.imshow(attention, cmap=COLOURS, vmin=low, vmax=high, interpolation="nearest")
        axis.set_title(f"block {block + 1} of {last + 1}, heads averaged", fontsize=10)
        axis.set_xlabel(f"key token (1 to {N})", fontsize=8.5)
    axes[1].set_ylabel("query token", fontsize=8.5, labelpad=3)
    _colour_bar(figure, shown, LEFTS[3])
    _draw_class_attention(axes[4], picture, tape, N)
    _colour_bar(figure, axes[4].images[-1], LEFTS[4])
    for axis in axes:
        axis.set_xticks([])
        axis.set_yticks([])
    with write_whole(path) as file:
        figure.savefig(file, format="png")


def _draw_class_attention(axis: Any, picture: np.ndarray, tape: Tape, N: int) -> None:
    """The attention of the class token, last class-attention block, over a grey picture."""
    attention = tape.class_attention[-1][0].mean(0)[0, 1:].numpy() * (N + 1)  # without the class token itself
    low, high = _scale(attention)
    H, W = picture.shape[:2]
    grey = np.repeat(picture.mean(axis=2, keepdims=True), 3, axis=2).astype(np.uint8)
    axis.imshow(grey)
    axis.imshow(
        attention.reshape(tape.grid),
        cmap=COLOURS,
        vmin=low,
        vmax=high,
        alpha=0.65,
        extent=(0, W, H, 0),
        interpolation="nearest",
    )
    axis.set_title("class token, over the input", fontsize=10)
    axis.set_xlabel(f"{tape.grid[0]} x {tape.grid[1]} tokens", fontsize=8.5)


def _scale(values: np.ndarray) -> tuple[float, float]:
    """Colour limits that a few extreme values do not decide."""
    low, high = np.percentile(values, (0.5, 99.5))
    return float(low), float(high)


def _add_axes(figure: Any, left: float, width: float) -> Any:
    return figure.add_axes((left / WIDTH, BOTTOM / HEIGHT, width / WIDTH, PANEL / HEIGHT))


def _colour_bar(figure: Any, shown: Any, panel: float) -> None:
    """A scale to the right of the panel whose left side is `panel`."""
    bar = figure.colorbar(shown, cax=_add_axes(figure, panel + PANEL + 0.1, 0.11))
    bar.set_label("attention (1 = uniform)", fontsize=8.5)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
