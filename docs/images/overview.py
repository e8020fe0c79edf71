"""Draws overview.png, the image of the README: scenes clean and corrupted with the answers of two networks, and their curves.

robustvit eval fan_vit_nano vit_nano --data scenes-easy:250 --suite clean common15 --output out
python docs/images/overview.py out/results.csv docs/images/overview.png

The scenes are the first test scene of each of the first four classes, not a selection; the severity of every corruption is 5.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

import robustvit as rv
from robustvit.data.normalisation import Normalisation
from robustvit.data.scenes.dataset import CLASS_NAMES, Hints, Scenes

CONDITIONS = ("clean", "gaussian_noise", "motion_blur", "snow", "fog", "pixelate")
SEVERITY = 5
ROWS = 4
COLOURS = {"fan_vit_nano": "#0072b2", "vit_nano": "#c05010"}
RIGHT, WRONG = "#1b7f3b", "#b3261e"


def first_of_each_class(count: int) -> list[tuple[Tensor, int]]:
    """(image, label) of the first test scene of `scenes-easy` of each of the first `count` classes."""
    scenes = Scenes("test", 200, 32, hints=Hints(0.9, 0.9))
    found: dict[int, Tensor] = {}
    for index in range(len(scenes)):
        scene = scenes.scene(index)
        found.setdefault(scene.label, scene.image)
    return [(found[label], label) for label in range(count)]


@torch.no_grad()
def answers(name: str, images: Tensor) -> list[tuple[int, float]]:
    """(class, confidence) of the shipped network for every image, uint8 [B, 3, 32, 32]."""
    network = rv.create_model(name, pretrained=True).eval()
    confidence, best = network(Normalisation.of(network)(images)).softmax(1).max(1)
    return list(zip(best.tolist(), confidence.tolist(), strict=True))


def draw_images(axes: Any, rows: Sequence[tuple[Tensor, int]]) -> None:
    """One row of axes per scene: clean and corrupted, with the answer of each network below."""
    for line, (image, label) in zip(axes, rows, strict=True):
        seen = [image if name == "clean" else rv.corrupt(image, name, SEVERITY, seed=0) for name in CONDITIONS]
        said = {name: answers(name, torch.stack(seen)) for name in COLOURS}
        for column, (axis, pixels) in enumerate(zip(line, seen, strict=True)):
            axis.imshow(pixels.permute(1, 2, 0).numpy(), interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            for place, name in enumerate(COLOURS):
                best, confidence = said[name][column]
                text = f"{'✓' if best == label else '✗'} {CLASS_NAMES[best]} {confidence:.0%}"
                colour = RIGHT if best == label else WRONG
                axis.text(0, -0.06 - 0.15 * place, text, transform=axis.transAxes, va="top", fontsize=8.5, color=colour)
        for place, name in enumerate(COLOURS):
            line[0].text(-0.08, -0.06 - 0.15 * place, name, transform=line[0].transAxes, va="top", ha="right", fontsize=8.5)
        line[0].set_ylabel(CLASS_NAMES[label], fontsize=10, rotation=0, ha="right", va="center")
    for axis, name in zip(axes[0], CONDITIONS, strict=True):
        axis.set_title(name if name == "clean" else f"{name.replace('_', ' ')} {SEVERITY}", fontsize=10)


def draw_curves(axis: Any, cells: Sequence[dict[str, str]]) -> None:
    """Accuracy against severity, the mean over the corruptions; severity 0 is the clean images."""
    for name, colour in COLOURS.items():
        by_severity: dict[int, list[float]] = {}
        for cell in (cell for cell in cells if cell["model"] == name):
            by_severity.setdefault(int(cell["severity"]), []).append(100 * float(cell["accuracy"]))
        severities = sorted(by_severity)
        means = [sum(by_severity[s]) / len(by_severity[s]) for s in severities]
        axis.plot(severities, means, marker="o", color=colour, label=name)
        axis.annotate(f"{means[-1]:.1f}", (severities[-1], means[-1]), (6, -3), textcoords="offset points", color=colour)
    axis.set(xlabel="severity (0: clean)", ylim=(0, 100), xlim=(-0.2, 5.7), xticks=range(6))
    axis.set_title("accuracy in percent, mean over 15 corruptions", fontsize=10)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(loc="lower left", frameon=False)


def main(results: Path, output: Path) -> None:
    figure = Figure(figsize=(13, 6.4), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    left, right = figure.subfigures(1, 2, width_ratios=(2.3, 1))
    axes = left.subplots(ROWS, len(CONDITIONS))
    left.subplots_adjust(left=0.12, right=0.99, top=0.94, bottom=0.07, hspace=0.42, wspace=0.12)
    draw_images(axes, first_of_each_class(ROWS))
    curves = right.subplots()
    right.subplots_adjust(left=0.12, right=0.96, top=0.94, bottom=0.11)
    with results.open(newline="") as file:
        draw_curves(curves, list(csv.DictReader(file)))
    figure.savefig(output, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
