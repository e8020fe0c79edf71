"""Loss and accuracy of a run over its epochs, as one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robustvit.runtime.files import write_whole

__all__ = ["save_training_figure"]

COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#db2777", "#475569")


def save_training_figure(entries: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draws the lines of metrics.jsonl: the loss and its terms, validation accuracy, and the learning rate.

    Args:
        entries: as `read_metrics` gives them.
        path: a .png or .svg file.
    """
    from matplotlib.figure import Figure

    logged = [entry for entry in entries if "loss" in entry]
    validated = [entry for entry in entries if "val_accuracy" in entry]
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    loss, accuracy, rate = figure.subplots(1, 3)
    epochs = [entry["epoch"] for entry in logged]
    names = list(dict.fromkeys(name for entry in logged for name in entry["terms"]))
    for colour, name in zip(COLOURS * (len(names) // len(COLOURS) + 1), names, strict=False):
        loss.plot(epochs, [entry["terms"].get(name, float("nan")) for entry in logged], color=colour, label=name)
    if len(names) > 1:
        loss.plot(epochs, [entry["loss"] for entry in logged], color="black", linewidth=1, linestyle="--", label="sum")
    _finish(loss, "loss terms", legend=bool(names))
    for colour, (key, label) in zip(COLOURS, {"val_accuracy": "network", "val_accuracy_ema": "average"}.items(), strict=False):
        points = [(entry["epoch"], 100 * entry[key]) for entry in validated if key in entry]
        if points:
            accuracy.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3, label=label)
    _finish(accuracy, "validation accuracy, %", legend=bool(validated))
    rate.plot(epochs, [entry["lr"] for entry in logged], color=COLOURS[0])
    _finish(rate, "learning rate", legend=False)
    with write_whole(path) as file:
        figure.savefig(file, dpi=150, format=path.suffix.lstrip("."))


def _finish(axes: Any, title: str, legend: bool) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("epoch")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(frameon=False, fontsize=8)
