"""Loss and validation score of a run over its epochs, as one image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robustvit.metrics.measures import measure_of
from robustvit.runtime.files import write_whole

__all__ = ["save_training_figure"]

VALIDATED = "val_"
"""Begins the names of the scores in a line of metrics.jsonl."""
COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#db2777", "#475569")


def save_training_figure(entries: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draws the lines of metrics.jsonl: the loss and its terms, the measure of the validation, and the learning rate.

    Args:
        entries: as `read_metrics` gives them.
        path: a .png or .svg file.
    """
    from matplotlib.figure import Figure

    logged = [entry for entry in entries if "loss" in entry]
    validated = [entry for entry in entries if any(name.startswith(VALIDATED) for name in entry)]
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    loss, score, rate = figure.subplots(1, 3)
    epochs = [entry["epoch"] for entry in logged]
    names = list(dict.fromkeys(name for entry in logged for name in entry["terms"]))
    for colour, name in zip(COLOURS * (len(names) // len(COLOURS) + 1), names, strict=False):
        loss.plot(epochs, [entry["terms"].get(name, float("nan")) for entry in logged], color=colour, label=name)
    if len(names) > 1:
        loss.plot(epochs, [entry["loss"] for entry in logged], color="black", linewidth=1, linestyle="--", label="sum")
    _finish(loss, "loss terms", legend=bool(names))
    _draw_scores(score, validated)
    rate.plot(epochs, [entry["lr"] for entry in logged], color=COLOURS[0])
    _finish(rate, "learning rate", legend=False)
    with write_whole(path) as file:
        figure.savefig(file, dpi=150, format=path.suffix.lstrip("."))


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
