"""Figures of analyses that are numbers: distributions, and curves over blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustvit.analysis.finding import Finding
from robustvit.report.analysis_drawing import (
    COLOURS,
    LETTER,
    WIDEST,
    Plate,
    broken,
    from_zero,
    lines,
    new_figure,
    no_cosine_above_1,
    plain_axes,
    short,
)
from robustvit.report.numbers import percent

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
EVEN = (
    " The dotted line is what they would get if attention were spread evenly; networks with other numbers of tokens, or with "
    "windows, have another even share, so compare each curve with its own dotted line."
)


def stability_plates(found: Findings, spoiled_by: str) -> list[Plate]:
    figure = new_figure(10, 3.4)
    left, right = figure.subplots(1, 2)
    _histograms(
        left,
        {name: one.arrays["pictures"] for name, one in found.items()},
        "attention on clean and corrupted, one value a picture",
    )
    lines(right, {name: one.numbers["layers"] for name, one in found.items()}, "mean over pictures and heads", "cosine")
    no_cosine_above_1(right)
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
    is_clean_known = _clean_marks(axes[0], found)
    plain_axes(axes[0], "accuracy over masks", y="%")
    axes[0].set_ylim(top=min(100.0, axes[0].get_ylim()[1]))
    if with_cosines:
        places = [place for place, name in enumerate(found) if name in with_cosines]
        _histograms(axes[1], with_cosines, "attention, one value a picture and mask", places)
        _legend(figure, found)
    first = next(iter(found.values())).numbers
    reading = (
        f"{counted(first['masks'], 'random mask')}, each covering {first['rho']:.0%} of the patches (rounded up) with noise. "
        "Left, the accuracy under each mask: the middle half in the box, the median as its line, and the whole range"
        + ("; dashed, the accuracy on clean pictures." if is_clean_known else ".")
        + (" Right, how alike attention stays to that on the clean picture, with a line at the mean." if with_cosines else "")
    )
    accuracies = (("clean", "clean_accuracy"), ("mean", "mean_accuracy"), ("lowest", "lowest_accuracy"))
    rows = tuple(
        (
            name,
            (
                *((f"{label}, %", _share(one, key)) for label, key in (*accuracies, ("highest", "highest_accuracy"))),
                *((("cosine", number(one.numbers.get("mean_cosine"))),) if with_cosines else ()),
            ),
        )
        for name, one in found.items()
    )
    return [Plate("occlusion", "What random patches of noise do", reading, figure, rows)]


def _share(one: Finding, key: str) -> str:
    return percent(one.numbers.get(key), sign=False)


def _clean_marks(axis: Any, found: Findings) -> bool:
    """A dashed line across each box; False where no clean accuracy is known."""
    known = [(place, one.numbers.get("clean_accuracy")) for place, one in enumerate(found.values())]
    for place, clean in known:
        if clean is not None:
            line = dict(color=COLOURS[place % len(COLOURS)], linestyle="--", linewidth=1.6, clip_on=False, zorder=3)
            axis.plot([place + 0.62, place + 1.38], [100 * clean] * 2, **line)[0].set_in_layout(False)
    return any(clean is not None for _, clean in known)


def head_diversity_plates(found: Findings) -> list[Plate]:
    figure = new_figure(6.4, 3.4)
    axis = figure.subplots()
    lines(axis, {name: one.numbers["layers"] for name, one in found.items()}, "likeness of heads", "cosine")
    no_cosine_above_1(axis)
    _legend(figure, found)
    reading = (
        "Mean cosine between the attention of two heads of the same block: at 1 all heads look at the same, lower is better."
    )
    return [Plate("head-diversity", "How different the heads are", reading, figure, _rows(found, (("mean", "mean cosine"),)))]


def overfocus_plates(found: Findings) -> list[Plate]:
    panels = (
        ("top_share", "attention on the 5 most attended", "share of all attention", 1.0),
        ("crowded", "more than twice an even share", "tokens", math.inf),
        ("row_similarity", "likeness of rows to the mean row", "cosine", 1.0),
    )
    figure = new_figure(WIDEST, 3.4)
    axes = figure.subplots(1, len(panels))
    for axis, (key, title, y, most) in zip(axes, panels, strict=True):
        lines(axis, {name: one.numbers[key] for name, one in found.items()}, title, y)
        if key == "top_share":
            _even_shares(axis, found)
        from_zero(axis, most)
    _legend(figure, found)
    reading = (
        "Overfocusing is when a few tokens get the attention of all others. Left, what the five most attended tokens get of "
        f"it.{EVEN if any('even_share' in one.numbers for one in found.values()) else ''} Middle, how many tokens get more "
        "than twice an even share. Right, how alike the rows of the map are: at 1, every token looks at the same places. "
        "Swin's windows are shifted in every other block, so that its curves may alternate."
    )
    return [Plate("overfocus", "Whether few tokens get all the attention", reading, figure)]


def _even_shares(axis: Any, found: Findings) -> None:
    """What the five tokens would get of attention that is spread evenly, dotted, where it is known."""
    for place, one in enumerate(found.values()):
        even = one.numbers.get("even_share") or ()
        colour = COLOURS[place % len(COLOURS)]
        axis.plot(range(1, len(even) + 1), even, color=colour, linestyle=":", linewidth=1.6) if len(even) else None


def eigenvalue_plates(found: Findings) -> list[Plate]:
    figure = new_figure(10, 3.4)
    for axis, key in zip(figure.subplots(1, 2), ("significant", "zero"), strict=True):
        lines(axis, {name: one.numbers[key] for name, one in found.items()}, f"{key} eigenvalues", "mean over pictures")
        from_zero(axis)
    _legend(figure, found)
    epsilon = next(iter(found.values())).numbers["epsilon"]
    reading = (
        f"Eigenvalues of the affinity of tokens, S = Z Z^T, after each block. Left, the significant ones, above {epsilon:g} "
        "of the largest: about as many as there are groups of tokens, so they become fewer when tokens gather into groups. "
        'Right, the others, called "zero": not above that threshold. Both together are as many as there are tokens.'
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
    inches = LETTER * max(map(len, labels)) + 0.6
    across = max(1, min(len(labels), int(figure.get_figwidth() / inches)))
    figure.legend(handles, labels, loc="outside lower center", ncols=across, frameon=False, fontsize=8)


def _histograms(axis: Any, values: dict[str, np.ndarray], title: str, places: Sequence[int] | None = None) -> None:
    """Shares of the cosines over the common range, one outline a network, with a line at each mean."""
    low = min(float(v.min()) for v in values.values())
    edges = np.linspace(min(low, 0.99), 1.0, 31)
    for place, (name, v) in zip(places or range(len(values)), values.items(), strict=True):
        colour = COLOURS[place % len(COLOURS)]
        share = np.full(v.shape, 1 / max(len(v), 1))
        axis.hist(v.clip(edges[0], 1), edges, weights=share, color=colour, alpha=0.35, label=short(name))
        axis.axvline(float(v.mean()), color=colour, linewidth=1.6)
    plain_axes(axis, title, "cosine", "share")
    axis.set_xlim(edges[0], 1)


def _boxes(axis: Any, values: dict[str, np.ndarray]) -> None:
    boxes = axis.boxplot(list(values.values()), whis=(0, 100), widths=0.5, patch_artist=True)
    for place, (box, median) in enumerate(zip(boxes["boxes"], boxes["medians"], strict=True)):
        box.set(facecolor=COLOURS[place % len(COLOURS)], alpha=0.5)
        median.set(color="black")
    room = int(4.2 / len(values) / LETTER)
    axis.set_xticks(range(1, len(values) + 1), [broken(name, max(room, 6)) for name in values])


def _rows(found: Findings, columns: Sequence[tuple[str, str]]) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """(network, ((label, value), ...)) of those numbers that there are."""
    return tuple(
        (name, tuple((label, number(one.numbers[key])) for key, label in columns if key in one.numbers))
        for name, one in found.items()
    )


def counted(count: int, what: str) -> str:
    """ "1 picture", "2 pictures"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def number(value: Any) -> str:
    """As a table shows it."""
    if value is None:
        return "\N{EN DASH}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
