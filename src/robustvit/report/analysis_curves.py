"""Figures of analyses that are numbers: distributions, and curves over blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustvit.analysis.finding import Finding
from robustvit.report.analysis_drawing import COLOURS, Plate, from_zero, lines, new_figure, plain_axes, short

__all__ = [
    "bottleneck_plates",
    "eigenvalue_plates",
    "head_diversity_plates",
    "noise_decay_plates",
    "occlusion_plates",
    "overfocus_plates",
    "stability_plates",
]

Findings = Mapping[str, Finding]


def stability_plates(found: Findings, spoiled_by: str) -> list[Plate]:
    figure = new_figure(10, 3.4)
    left, right = figure.subplots(1, 2)
    _histograms(left, {name: one.arrays["pictures"] for name, one in found.items()}, "cosine, one value a picture")
    lines(right, {name: one.numbers["layers"] for name, one in found.items()}, "mean over pictures and heads", "cosine")
    right.set_ylim(top=1.02)
    _legend(figure, found)
    reading = (
        f"Likeness of the attention on a clean picture to that on the same picture with {spoiled_by}: 1 is the same map. "
        "Left, how the pictures are distributed, with a line at the mean; right, in which blocks attention changes. Attention "
        "that is spread evenly is always alike, so look at overfocusing and the maps too."
    )
    shown = (("mean", "mean"), ("worst_5_percent", "mean of the worst 5 %"), ("pictures", "pictures"))
    return [Plate("stability", "How stable attention is", reading, figure, _rows(found, shown))]


def occlusion_plates(found: Findings) -> list[Plate]:
    with_cosines = {name: one.arrays["cosines"].ravel() for name, one in found.items() if "cosines" in one.arrays}
    figure = new_figure(10 if with_cosines else 5.4, 3.4)
    axes = figure.subplots(1, 2 if with_cosines else 1, squeeze=False)[0]
    _boxes(axes[0], {name: 100 * one.arrays["accuracies"] for name, one in found.items()})
    plain_axes(axes[0], "accuracy over masks", y="%")
    if with_cosines:
        places = [place for place, name in enumerate(found) if name in with_cosines]
        _histograms(axes[1], with_cosines, "cosine of attention, one value a picture and mask", places)
    first = next(iter(found.values())).numbers
    reading = (
        f"{first['masks']} random masks, each covering {first['rho']:.0%} of the patches (rounded up) with noise. The "
        "accuracy under each mask: the middle half in the box, the median as its line, and the whole range."
        + (" Right, how alike attention stays." if with_cosines else "")
    )
    shown = (("mean_accuracy", "mean accuracy"), ("lowest_accuracy", "lowest"), ("highest_accuracy", "highest"))
    return [
        Plate(
            "occlusion", "What random patches of noise do", reading, figure, _rows(found, (*shown, ("mean_cosine", "cosine")))
        )
    ]


def head_diversity_plates(found: Findings) -> list[Plate]:
    figure = new_figure(6.4, 3.4)
    lines(figure.subplots(), {name: one.numbers["layers"] for name, one in found.items()}, "likeness of heads", "cosine")
    _legend(figure, found)
    reading = (
        "Mean cosine between the attention of two heads of the same block: at 1 all heads look at the same, lower is better."
    )
    return [Plate("head-diversity", "How different the heads are", reading, figure, _rows(found, (("mean", "mean cosine"),)))]


def overfocus_plates(found: Findings) -> list[Plate]:
    titles = {
        "top_share": "share of attention on 5 tokens",
        "crowded": "tokens that get twice their share",
        "row_similarity": "likeness of rows to the mean row",
    }
    figure = new_figure(12, 3.4)
    for axis, (key, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        lines(axis, {name: one.numbers[key] for name, one in found.items()}, title)
        from_zero(axis)
    _legend(figure, found)
    reading = (
        "Overfocusing is when a few tokens get the attention of all others. Left, what the five most attended tokens get of "
        "it; middle, how many tokens get more than twice the mean; right, how alike the rows of the map are: at 1, every "
        "token looks at the same places."
    )
    return [Plate("overfocus", "Whether few tokens get all the attention", reading, figure)]


def eigenvalue_plates(found: Findings) -> list[Plate]:
    figure = new_figure(10, 3.4)
    for axis, key in zip(figure.subplots(1, 2), ("significant", "zero"), strict=True):
        lines(axis, {name: one.numbers[key] for name, one in found.items()}, f"{key} eigenvalues", "mean over pictures")
        from_zero(axis)
    _legend(figure, found)
    epsilon = next(iter(found.values())).numbers["epsilon"]
    reading = (
        f"Eigenvalues of the affinity of tokens, S = Z Z^T, after each block. Significant are those above {epsilon:g} of the "
        "largest: about as many as there are groups of tokens. When tokens gather into groups, they become fewer."
    )
    return [Plate("eigenvalues", "How many groups the tokens form", reading, figure)]


def noise_decay_plates(found: Findings) -> list[Plate]:
    figure = new_figure(6.4, 3.4)
    axis = figure.subplots()
    first = next(iter(found.values())).numbers
    lines(axis, {name: one.numbers["strength"] for name, one in found.items()}, "noise after each block", "relative strength")
    from_zero(axis)
    _legend(figure, found)
    if first["kind"] == "perturbation":
        reading = (
            f"Normal noise (standard deviation {first['sigma']:g} in normalised units) is added to the pictures. The curve is "
            "how much of each block's output changes, relative to the output: a falling curve means that noise is filtered."
        )
    else:
        reading = (
            "The networks see nothing but normal noise. The curve is the size of each block's output relative to the first "
            "block's: a falling curve means that noise dies out."
        )
    return [Plate("noise-decay", "What becomes of noise", reading, figure)]


def bottleneck_plates(found: Findings) -> list[Plate]:
    finding = next(iter(found.values()))
    points, centres = finding.arrays["points"], finding.arrays["centres"]  # P 2, steps C 2
    shown = [0, 1, 3, len(centres) - 1]
    figure = new_figure(11, 3.1)
    for axis, step in zip(figure.subplots(1, len(shown), sharex=True, sharey=True), shown, strict=True):
        nearest = ((points[:, None] - centres[step][None]) ** 2).sum(-1).argmin(1)
        for c in range(centres.shape[1]):
            axis.scatter(*points[nearest == c].T, s=7, color=COLOURS[c % len(COLOURS)], alpha=0.45, linewidths=0)
            axis.plot(*centres[: step + 1, c].T, color="black", linewidth=1)
            axis.scatter(*centres[step, c], s=70, marker="X", color=COLOURS[c % len(COLOURS)], edgecolors="black", zorder=3)
        plain_axes(axis, "start" if step == 0 else f"after {step} step{'s' * (step > 1)}")
        axis.set_aspect("equal")
    reading = (
        "Self-attention as an iteration that groups points (FAN, section 2.3): every cross moves to the mean of the points, "
        "weighted by how well they fit it. Where the crosses have the same norm, this is the step of attention with the "
        "crosses as keys. No network is involved."
    )
    return [Plate("bottleneck", "Attention as grouping", reading, figure)]


def _legend(figure: Any, found: Findings) -> None:
    """One legend below all panels, where there is more than one network."""
    if len(found) < 2:
        return
    handles, labels = figure.axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), frameon=False, fontsize=8)


def _histograms(axis: Any, values: dict[str, np.ndarray], title: str, places: Sequence[int] | None = None) -> None:
    """Shares of the values over the common range, one outline a network, with a line at each mean."""
    low = min(float(v.min()) for v in values.values())
    edges = np.linspace(min(low, 0.99), 1.0, 31)
    for place, (name, v) in zip(places or range(len(values)), values.items(), strict=True):
        colour = COLOURS[place % len(COLOURS)]
        share = np.full(v.shape, 1 / max(len(v), 1))
        axis.hist(v.clip(edges[0], 1), edges, weights=share, color=colour, alpha=0.35, label=short(name))
        axis.axvline(float(v.mean()), color=colour, linewidth=1.6)
    plain_axes(axis, title, y="share")


def _boxes(axis: Any, values: dict[str, np.ndarray]) -> None:
    boxes = axis.boxplot(list(values.values()), whis=(0, 100), widths=0.5, patch_artist=True)
    for place, (box, median) in enumerate(zip(boxes["boxes"], boxes["medians"], strict=True)):
        box.set(facecolor=COLOURS[place % len(COLOURS)], alpha=0.5)
        median.set(color="black")
    axis.set_xticks(range(1, len(values) + 1), [short(name) for name in values])


def _rows(found: Findings, columns: Sequence[tuple[str, str]]) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """(network, ((label, value), ...)) of those numbers that there are."""
    return tuple(
        (name, tuple((label, number(one.numbers[key])) for key, label in columns if key in one.numbers))
        for name, one in found.items()
    )


def number(value: Any) -> str:
    """As a table shows it."""
    if value is None:
        return "\N{EN DASH}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
