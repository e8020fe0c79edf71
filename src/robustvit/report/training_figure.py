"""Loss, validation score and diagnostics of a run over its epochs, as one image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from robustvit.metrics.measures import measure_of
from robustvit.runtime.files import write_whole

__all__ = ["diagnostic_panels", "save_training_figure"]

VALIDATED = "val_"
"""Begins the names of the scores in a line of metrics.jsonl."""
GRADIENT_RATIO = "gradient_ratio"
"""The diagnostic that every method has."""
COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#db2777", "#475569")


COLUMNS = 3


def save_training_figure(entries: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draws the lines of metrics.jsonl: the loss and its terms, the measure of the validation, the learning rate, and below
    them what methods and layers say about themselves.

    Args:
        entries: as `read_metrics` gives them.
        path: a .png or .svg file.
    """
    from matplotlib.figure import Figure

    logged = [entry for entry in entries if "loss" in entry]
    validated = [entry for entry in entries if any(name.startswith(VALIDATED) for name in entry)]
    panels = diagnostic_panels(logged)
    rows = 1 + -(-len(panels) // COLUMNS)
    figure = Figure(figsize=(10, 3.4 * rows), layout="constrained")
    (loss, score, rate), *below = figure.subplots(rows, COLUMNS, squeeze=False)
    _draw_losses(loss, logged)
    _draw_scores(score, validated)
    rate.plot([entry["epoch"] for entry in logged], [entry["lr"] for entry in logged], color=COLOURS[0])
    _finish(rate, "learning rate", legend=False)
    places = [axes for row in below for axes in row]
    for axes, panel in zip(places, panels, strict=False):
        _draw_panel(axes, panel)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    with write_whole(path) as file:
        figure.savefig(file, dpi=150, format=path.suffix.lstrip("."))


class Panel(NamedTuple):
    """Diagnostics that share their axes.

    Attributes:
        title: of the panel.
        lines: label -> (epochs, values).
        are_multiples: drawn on a logarithmic axis, with a line at 1; shares have the axis 0 to 1.
    """

    title: str
    lines: dict[str, tuple[list[float], list[float]]]
    are_multiples: bool


def diagnostic_panels(logged: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """What is logged as `diagnostics`: for each method or layer its shares and its multiples, and all ratios of gradients."""
    found: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for entry in logged:
        for name, numbers in entry.get("diagnostics", {}).items():
            for key, value in numbers.items():
                epochs, values = found.setdefault((name, key), ([], []))
                epochs.append(entry["epoch"])
                values.append(value)
    panels: list[Panel] = []
    for name in dict.fromkeys(name for name, _ in found):
        own = {key: line for (n, key), line in found.items() if n == name and key != GRADIENT_RATIO}
        for are_multiples in (False, True):
            lines = {key.replace("_", " "): line for key, line in own.items() if _is_multiple(key) == are_multiples}
            if lines:
                panels.append(Panel(f"{name}, {'multiples' if are_multiples else 'shares'}", lines, are_multiples))
    ratios = {name: line for (name, key), line in found.items() if key == GRADIENT_RATIO}
    return [*panels, Panel("gradient over that of the task's loss", ratios, True)] if ratios else panels


def _is_multiple(key: str) -> bool:
    """By the names that `Method.diagnose` asks for."""
    return "_times_" in key or "_over_" in key or key.endswith("_ratio")


def _draw_panel(axes: Any, panel: Panel) -> None:
    for colour, (label, (epochs, values)) in zip(cycle(COLOURS), panel.lines.items(), strict=False):
        shown = [value if value > 0 or not panel.are_multiples else float("nan") for value in values]  # 0 has no logarithm
        told = label if any(value == value for value in shown) else f"{label}: 0 throughout"
        axes.plot(epochs, shown, color=colour, label=told, marker="o" if len(values) == 1 else None, markersize=3)
        if panel.are_multiples:
            axes.update_datalim([(epoch, 1.0) for epoch in epochs])  # also of a line that is 0 throughout
    if panel.are_multiples:
        axes.set_yscale("log")
        axes.axhline(1, color="black", linewidth=0.8, linestyle=":")
        axes.autoscale_view()
        axes.yaxis.set_major_formatter("{x:g}")
        low, high = axes.get_ylim()
        axes.yaxis.set_minor_formatter("{x:g}" if high < 8 * low else "")  # where no power of 10 or only one is in sight
    else:
        axes.set_ylim(-0.03, 1.03)
    _finish(axes, panel.title, legend=True)


def _draw_losses(axes: Any, logged: Sequence[Mapping[str, Any]]) -> None:
    epochs = [entry["epoch"] for entry in logged]
    names = list(dict.fromkeys(name for entry in logged for name in entry["terms"]))
    for colour, name in zip(cycle(COLOURS), names, strict=False):
        axes.plot(epochs, [entry["terms"].get(name, float("nan")) for entry in logged], color=colour, label=name)
    if len(names) > 1:
        axes.plot(epochs, [entry["loss"] for entry in logged], color="black", linewidth=1, linestyle="--", label="sum")
    _finish(axes, "loss terms", legend=bool(names))


def _draw_scores(axes: Any, validated: Sequence[Mapping[str, Any]]) -> None:
    """The validated measure of the network, and of its average, in the measure's unit."""
    if not validated:
        _finish(axes, "validation", legend=False)
        return
    name = next(name for name in validated[0] if name.startswith(VALIDATED)).removesuffix("_ema")
    measure = measure_of(name.removeprefix(VALIDATED))
    for colour, (key, label) in zip(COLOURS, {name: "network", f"{name}_ema": "average"}.items(), strict=False):
        points = [(entry["epoch"], measure.unit.factor * entry[key]) for entry in validated if key in entry]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3, label=label)
    unit = f", {measure.unit.symbol}" if measure.unit.symbol else ""
    _finish(axes, f"validation {measure.label.lower()}{unit}", legend=True)


def _finish(axes: Any, title: str, legend: bool) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("epoch")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(frameon=False, fontsize=8)
