"""Figures of analyses that are pictures: attention maps, groups of tokens, labels of tokens, covered patches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from robustvit.analysis.finding import Finding
from robustvit.report.analysis_curves import number
from robustvit.report.analysis_drawing import (
    COLOURS,
    PANEL,
    Plate,
    broken,
    label_row,
    letters_in,
    new_figure,
    panels,
    plain_axes,
    show_map,
)

__all__ = ["attention_plates", "cluster_plates", "patch_corruption_plates", "token_label_plates"]

Findings = Mapping[str, Finding]
STATES = ("clean", "spoiled")
MOST_HEADS = 12
GAMMA = 0.4
"""Of the colours of whole maps, most of whose values are far below the largest."""
TICKS_APART = 0.08
"""Least distance of two numbers beside the colours, as a share of the bar."""
MORE_COLOURS = ("#888888", "#56b4e9", "#e69f00", "#f0e442", "#cc79a7", "#009e73", "#d55e00", "#999933", "#882255", "#44aa99")
"""Of groups beyond the first ones."""
SCALE_OF_BLOCKS = "each block of a network on its own colour scale, which is the same for clean and corrupted"
MEANING_OF_SCALE = (
    "The numbers are the values from black to bright (what is above is as bright), and the value that evenly spread attention "
    "would have everywhere: where the scale ends not far above it, the map is nearly even, however bright."
)
BACKGROUND, LOW, HIGH = "#1c2250", "#2fb8c6", "#ffd83d"


def attention_plates(found: Findings, spoiled_by: str) -> list[Plate]:
    """The maps of the last chosen block, then layers, heads and the query, one plate each, all networks in it."""
    plates = [
        _whole_maps(found, spoiled_by),
        _layer_maps(found, spoiled_by),
        _head_maps(found),
        _query_maps(found, spoiled_by),
    ]
    return [plate for plate in plates if plate is not None]


def _whole_maps(found: Findings, spoiled_by: str) -> Plate:
    figure, axes = panels(len(found), 4)
    highest = max(_high(one.arrays[f"{state}/layer {_last(one)}"]) for one in found.values() for state in STATES)
    image = None
    for line, (name, one) in zip(axes, found.items(), strict=True):
        label_row(line[0], name, f"block {_last(one) + 1}", f"even {_even(one, _last(one)):.2g}")
        for k, state in enumerate(STATES):
            line[k].imshow(one.arrays[f"{state}/picture"], interpolation="nearest")
            image = show_map(line[2 + k], one.arrays[f"{state}/layer {_last(one)}"], highest, gamma=GAMMA)
            line[2 + k].set_ylabel("token that looks", fontsize=7)
    for axis, title in zip(axes[0], ("clean", spoiled_by, "attention\nclean", f"attention\n{spoiled_by}"), strict=True):
        axis.set_title(title, fontsize=8)
    for axis in axes[-1, 2:]:
        axis.set_xlabel("token looked at", fontsize=7)
    bar = figure.colorbar(image, ax=axes[:, 3], shrink=0.8 if len(found) > 1 else 1.0)
    ticks = _ticks(max(highest, 1e-12))
    bar.set_ticks(list(ticks), labels=list(ticks.values()))
    bar.set_label(f"attention\n(gamma {GAMMA:g})", fontsize=8)  # in two lines: beside one network, one would be cut off
    bar.ax.tick_params(labelsize=7)
    reading = (
        "Every row of a map is one token, and its bright columns are the tokens that it looks at (last chosen block, heads "
        "averaged; of Swin, the places in a window, windows averaged; of more than 256 tokens, squares of them). A bright "
        "diagonal: tokens look at themselves. Bright vertical stripes: all tokens look at the same few ones. One colour scale "
        "for all networks, on which dark values are lifted; even is what every entry would be if attention were spread evenly."
    )
    return Plate("attention", "Attention between all tokens", reading, figure)


def _ticks(highest: float) -> dict[float, str]:
    """Values to write beside the colours -> text: 0, round ones that are not too close to each other, and the end."""
    ticks = {highest: f"{highest:.2g}"}
    power = math.floor(math.log10(highest))
    for value in (digit * 10.0**exponent for exponent in (power, power - 1, power - 2) for digit in (5, 2, 1)):
        place, next_place = ((v / highest) ** GAMMA for v in (value, min(ticks)))
        if TICKS_APART < place < next_place - TICKS_APART:
            ticks[value] = f"{value:g}"
    return {**ticks, 0.0: "0"}


def _layer_maps(found: Findings, spoiled_by: str) -> Plate | None:
    columns = max(len(one.numbers["layers"]) for one in found.values())
    if columns < 2:
        return None
    figure, axes = panels(2 * len(found), columns)
    for pair, (name, one) in zip(axes.reshape(len(found), 2, columns), found.items(), strict=True):
        for line, state, told in zip(pair, STATES, ("clean", spoiled_by), strict=True):
            label_row(line[0], name, told)
            for k, (axis, layer) in enumerate(zip(line, one.numbers["layers"], strict=False)):
                highest = max(_high(one.arrays[f"{s}/layer {layer}"]) for s in STATES)
                show_map(axis, one.arrays[f"{state}/layer {layer}"], highest)
                if state == "clean":
                    _block_title(axis, one, layer, highest)
                elif "cosine" in one.numbers:
                    axis.set_title(f"cosine {one.numbers['cosine'][k]:.2f}", fontsize=8)
    cosines = " The cosine is that of a corrupted map with the clean one above it."
    told = cosines if any("cosine" in one.numbers for one in found.values()) else ""
    reading = f"The same maps in several blocks, {SCALE_OF_BLOCKS}. {MEANING_OF_SCALE}{told}"
    return Plate("attention-layers", "Attention from block to block", reading, figure)


def _block_title(axis: Any, one: Finding, layer: int, highest: float) -> None:
    """The block, and what its colours mean: without that, a nearly even map could be taken for a strong one."""
    text = f"block {layer + 1}\n0 to {highest:.2g}, even {_even(one, layer):.2g}"
    axis.set_title(text, fontsize=min(8.0, 8.0 * letters_in(axis) / 20))


def _head_maps(found: Findings) -> Plate:
    columns = min(MOST_HEADS, max(int(one.numbers["heads"]) for one in found.values()))
    figure, axes = panels(len(found), columns)
    for line, (name, one) in zip(axes, found.items(), strict=True):
        heads = one.arrays["clean/heads"][:columns]
        label_row(line[0], name, f"block {_last(one) + 1}", f"0 to {_high(heads):.2g}", f"even {_even(one, _last(one)):.2g}")
        for k, (axis, values) in enumerate(zip(line, heads, strict=False)):
            show_map(axis, values, _high(heads))
            axis.set_title(f"head {k + 1}", fontsize=8)
    more = " Only the first heads are shown." if any(one.numbers["heads"] > columns for one in found.values()) else ""
    reading = (
        "The clean picture, one map a head, a colour scale a network. Heads that look alike do the same work twice."
        f"{more} {MEANING_OF_SCALE}"
    )
    return Plate("attention-heads", "Attention of each head", reading, figure)


def _query_maps(found: Findings, spoiled_by: str) -> Plate:
    columns = 1 + max(len(one.numbers["layers"]) for one in found.values())
    figure, axes = panels(2 * len(found), columns)
    for pair, (name, one) in zip(axes.reshape(len(found), 2, columns), found.items(), strict=True):
        for line, state, told in zip(pair, STATES, ("clean", spoiled_by), strict=True):
            picture = one.arrays[f"{state}/picture"]
            line[0].imshow(picture, interpolation="nearest")
            label_row(line[0], name, told)
            for axis, layer in zip(line[1:], one.numbers["layers"], strict=False):
                highest = max(float(one.arrays[f"{s}/query {layer}"].max()) for s in STATES)
                _query_panel(axis, picture, one.arrays[f"{state}/query {layer}"], one.numbers["query"], highest)
                if state == "clean":
                    _block_title(axis, one, layer, highest)
    reading = (
        "What one token looks at: the red square is the token that asks, brighter is more attention. The picture shines "
        f"through. In Swin a token sees its own window alone. {SCALE_OF_BLOCKS.capitalize()}. {MEANING_OF_SCALE}"
    )
    return Plate("attention-query", "What one token sees", reading, figure)


def _query_panel(axis: Any, picture: np.ndarray, seen: np.ndarray, query: list[float], highest: float) -> None:
    from matplotlib.patches import Rectangle

    H, W = picture.shape[:2]
    axis.imshow(picture.mean(-1), cmap="gray", vmin=0, vmax=255)
    axis.imshow(seen, cmap="magma", alpha=0.7, vmin=0, vmax=max(highest, 1e-12), extent=_extent(H, W))
    rows, columns = seen.shape
    row, column = min(int(query[0] * rows), rows - 1), min(int(query[1] * columns), columns - 1)
    corner = (column * W / columns - 0.5, row * H / rows - 0.5)
    axis.add_patch(Rectangle(corner, W / columns, H / rows, fill=False, edgecolor="red", linewidth=1.4))


def cluster_plates(found: Findings, spoiled_by: str) -> list[Plate]:
    """Pictures with their groups for the first chosen block; with several blocks, the first picture through all of them."""
    shown = sorted({int(key.split("/")[0]) for one in found.values() for key in one.arrays})
    reading = (
        "Tokens with the same colour form a group (spectral clustering of their features after the first block of the table; "
        "in a CNN, positions of the map). Beside it, the same picture with "
        f"{spoiled_by}; groups that overlap most have the same colour. Groups that follow objects, and stay when the picture "
        "is corrupted, are what FAN calls visual grouping. Agreement is the adjusted Rand index: 1 the same, 0 chance."
    )
    plates = [Plate("clusters", "Groups of tokens", reading, _cluster_figure(found, shown, spoiled_by), _agreements(found))]
    if max(len(one.numbers["layers"]) for one in found.values()) > 1:
        blocks = _cluster_blocks(found, shown[0], spoiled_by)
        plates.append(Plate("clusters-blocks", "Groups from block to block", "The first picture, all chosen blocks.", blocks))
    return plates


def _cluster_figure(found: Findings, shown: list[int], spoiled_by: str) -> Any:
    figure, axes = panels(len(shown), 2 + 2 * len(found), label_width=0.3)
    first = next(iter(found.values()))
    for line, i in zip(axes, shown, strict=True):
        for k, state in enumerate(STATES):
            line[k].imshow(first.arrays[f"{i}/{state}/picture"], interpolation="nearest")
        for n, one in enumerate(found.values()):
            for k, state in enumerate(STATES):
                _groups(line[2 + 2 * n + k], one.arrays, i, state, one.numbers["layers"][0])
    letters = letters_in(axes[0, 0])
    titles = [broken(title, letters) for title in ("picture", spoiled_by)]
    titles += [f"{broken(name, letters)}\n{told}" for name in found for told in ("clean", "corrupted")]
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=8)
    return figure


def _cluster_blocks(found: Findings, i: int, spoiled_by: str) -> Any:
    columns = max(len(one.numbers["layers"]) for one in found.values())
    figure, axes = panels(2 * len(found), columns)
    for pair, (name, one) in zip(axes.reshape(len(found), 2, columns), found.items(), strict=True):
        for line, state, told in zip(pair, STATES, ("clean", spoiled_by), strict=True):
            label_row(line[0], name, told)
            for axis, layer in zip(line, one.numbers["layers"], strict=False):
                _groups(axis, one.arrays, i, state, layer)
                axis.set_title(f"block {layer + 1}" if state == "clean" else "", fontsize=9)
    return figure


def _groups(axis: Any, arrays: Mapping[str, np.ndarray], i: int, state: str, layer: int) -> None:
    from matplotlib.colors import ListedColormap

    picture, labels = arrays[f"{i}/{state}/picture"], arrays[f"{i}/{state}/{layer}"]
    H, W = picture.shape[:2]
    axis.imshow(picture.mean(-1), cmap="gray", vmin=0, vmax=255)
    colours = ListedColormap([*COLOURS, *MORE_COLOURS])
    axis.imshow(labels, cmap=colours, vmin=0, vmax=colours.N - 1, alpha=0.65, interpolation="nearest", extent=_extent(H, W))


def _extent(H: int, W: int) -> tuple[float, float, float, float]:
    return (-0.5, W - 0.5, H - 0.5, -0.5)


def _agreements(found: Findings) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """A row a network and block."""
    return tuple(
        (name, (("block", str(layer + 1)), ("pictures", str(one.numbers["pictures"])), ("agreement", number(value))))
        for name, one in found.items()
        for layer, value in zip(one.numbers["layers"], one.numbers["adjusted_rand_index"], strict=True)
    )


def token_label_plates(found: Findings) -> list[Plate]:
    return [plate for place, (name, one) in enumerate(found.items()) for plate in _token_plates(place, name, one)]


def _token_plates(place: int, name: str, one: Finding) -> Iterator[Plate]:
    from matplotlib.colors import ListedColormap

    arrays = one.arrays
    two, three = ListedColormap([BACKGROUND, HIGH]), ListedColormap([BACKGROUND, LOW, HIGH])
    columns = ("pictures", "foreground", "levels", "drawn", "augmented_pictures", "augmented_foreground")
    titles = ("picture", "label is the class", "and confident", "one Gumbel draw", "full augmentation", "label is the class")
    figure, axes = panels(len(arrays["pictures"]), len(columns), label_width=0.2)
    for i, line in enumerate(axes):
        for axis, key in zip(line, columns, strict=True):
            if key.endswith("pictures"):
                axis.imshow(arrays[key][i], interpolation="nearest")
            else:
                axis.imshow(arrays[key][i], cmap=three if key == "levels" else two, vmin=0, vmax=2 if key == "levels" else 1)
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(broken(title, letters_in(axis)), fontsize=8)
    alone = " There was one picture only, so that CutMix had no partner." if one.numbers.get("without_cutmix") else ""
    reading = (
        "What the token head says about each patch. Yellow: the token's label is the class of the picture; in the third "
        f"column cyan where its confidence is below {one.numbers['sure']:g}. Fourth: one random draw (Gumbel) from the same "
        "logits. Right: the same for a view with all augmentations of a student, where labels break down."
        f"{alone}"
    )
    shown = ("foreground_share", "augmented_foreground_share", "mean_confidence")
    rows = ((name, tuple((key.replace("_", " "), number(one.numbers[key])) for key in shown)),)
    suffix = f"-{place + 1}" if place else ""
    yield Plate(f"token-labels{suffix}", f"Labels of tokens: {name}", reading, figure, rows)
    histogram = new_figure(5.4, 3.0)
    axis = histogram.subplots()
    values = arrays["confidences"]
    axis.hist(
        values, np.linspace(0, 1, 31), weights=np.full(values.shape, 1 / len(values)), color=COLOURS[place % len(COLOURS)]
    )
    plain_axes(axis, f"confidence of {len(values)} tokens", "confidence", "share")
    told = "How sure the tokens are of their labels, over the tokens of the first pictures (at most 16)."
    yield Plate(f"token-confidence{suffix}", f"Confidence of tokens: {name}", told, histogram)


def patch_corruption_plates(found: Findings) -> list[Plate]:
    count = max(len(one.arrays["pictures"]) for one in found.values())
    figure, axes = panels(2 * len(found), count, side=PANEL + 0.1)
    for pair, (name, one) in zip(axes.reshape(len(found), 2, count), found.items(), strict=True):
        for line, key, told in zip(pair, ("pictures", "chosen"), ("clean", "patches covered"), strict=True):
            label_row(line[0], name, told)
            confidences = one.arrays["clean" if key == "pictures" else "spoiled"]
            for axis, picture, confidence in zip(line, one.arrays[key], confidences, strict=False):
                axis.imshow(picture, interpolation="nearest")
                axis.set_title(broken(f"confidence {confidence:.0%}", letters_in(axis)), fontsize=8)
    rho = next(iter(found.values())).numbers["rho"]
    reading = (
        f"A small network chooses {rho:.0%} of the patches (rounded up), those whose covering changes the features of the "
        "network most; they are covered with noise. Above each picture: the confidence of the true class. Pictures with a low "
        "number in the clean row were wrong from the start. The table compares with as many random patches."
    )
    shown = {"clean": "clean", "spoiled": "chosen patches", "by_chance": "random patches"}
    rows = tuple(
        (
            name,
            (
                *((f"confidence, {told}", number(one.numbers[f"mean_confidence_{key}"])) for key, told in shown.items()),
                ("chosen by", str(one.numbers["corruption_network"])),
            ),
        )
        for name, one in found.items()
    )
    return [Plate("patch-corruption", "The patches that hurt", reading, figure, rows)]


def _last(one: Finding) -> int:
    return int(one.numbers["layers"][-1])


def _even(one: Finding, layer: int) -> float:
    """What each entry would be if the attention of this block were spread evenly over the tokens (Swin: of a window)."""
    return float(one.arrays[f"clean/layer {layer}"].mean())


def _high(values: np.ndarray) -> float:
    """Where the colour scale of a map ends: a few bright entries do not darken the rest."""
    return float(np.percentile(values, 99.5))
