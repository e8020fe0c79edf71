"""Attention as images: whole maps, heads, blocks, and what one token sees (TAP Fig. 1, 3, 4, I to IV; AFAT Fig. 1, 3, 8)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from robustvit.analysis.drawing import STATES, Plate, extent, label_row, letters_in, panels, show_map
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Layered, Spoiling
from robustvit.analysis.shown_images import as_array
from robustvit.analysis.spoiling import SpoilingStudy, spoiled
from robustvit.analysis.study import ATTENTION, Findings

if TYPE_CHECKING:
    from robustvit.analysis.subject import Subject

__all__ = ["Attention", "AttentionOptions"]

SHOWN_LAYERS = 4
MOST_HEADS = 12
GAMMA = 0.4
"""Of the colours of whole maps, most of whose values are far below the largest."""
TICKS_APART = 0.08
"""Least distance of two numbers beside the colours, as a share of the bar."""
SCALE_OF_BLOCKS = "each block of a network on its own colour scale, which is the same for clean and corrupted"
MEANING_OF_SCALE = (
    "The numbers are the values from black to bright (what is above is as bright), and the value that evenly spread attention "
    "would have everywhere: where the scale ends not far above it, the map is nearly even, however bright."
)


@dataclass(frozen=True)
class AttentionOptions(Layered, Spoiling):
    """Whose attention is shown.

    Attributes:
        picture: position of the image whose attention is shown; by default the first one that all networks answer rightly.
        query: (row, column) of the pixel whose attention is shown, as a share of the image.
    """

    picture: int | None = None
    query: tuple[float, float] = (0.5, 0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.picture is None or self.picture >= 0, "picture", "0 or more")
        self.require(all(0 <= share <= 1 for share in self.query), "query", "row and column as shares, 0 to 1")


class Attention(SpoilingStudy[AttentionOptions]):
    """The attention maps of one image, clean and corrupted."""

    name = "attention"
    summary = "N x N maps, clean and corrupted, by block and by head; what one token sees"
    needs = (ATTENTION,)
    options = AttentionOptions
    shows_images = True
    last_entry = "last chosen block"

    def check(self, subject: Subject, options: AttentionOptions) -> None:
        from robustvit.analysis.attention_maps import block_positions
        from robustvit.recording.block_outputs import blocks_of

        super().check(subject, options)
        if options.layers is not None:
            block_positions(options.layers, len(blocks_of(subject.network)))
        subject.only(options.picture)

    def run(self, subject: Subject, options: AttentionOptions) -> Finding:
        from robustvit.analysis.attention_maps import DEFINITION, attention_maps
        from robustvit.recording.tape import attention_blocks

        one = subject.only(options.picture)
        layers = options.layers or _spread(len(attention_blocks(subject.network)), SHOWN_LAYERS)
        arrays: dict[str, np.ndarray] = {}
        for state, pixels in zip(STATES, (one.pixels, spoiled(subject, one, options)), strict=True):
            found = attention_maps(subject.network, subject.normalised(pixels)[0], layers=layers, query=options.query)
            arrays |= {f"{state}/picture": as_array(pixels[0]), f"{state}/heads": found.head_maps.numpy()}
            for layer, whole, seen in zip(found.layers, found.layer_maps, found.query_maps, strict=True):
                arrays |= {f"{state}/layer {layer}": whole.numpy(), f"{state}/query {layer}": seen.cpu().numpy()}
        numbers = {
            "picture": one.ids[0],
            "layers": list(found.layers),
            "cosine": [_cosine(*(arrays[f"{state}/layer {layer}"] for state in STATES)) for layer in found.layers],
            "query": list(options.query),
            "heads": len(found.head_maps),
        }
        return Finding(DEFINITION, numbers, arrays)

    def plates(self, findings: Findings, options: AttentionOptions) -> list[Plate]:
        """The maps of the last chosen block, then blocks, heads and the query, all networks in each plate."""
        plates = [_whole_maps(findings, options.spoiled_by)]
        if max(len(one.numbers["layers"]) for one in findings.values()) > 1:
            plates.append(_layer_maps(findings, options.spoiled_by))
        return [*plates, _head_maps(findings), _query_maps(findings, options.spoiled_by)]

    def at_once(self, images: int, options: AttentionOptions) -> int:
        return 1

    def passes(self, images: int, options: AttentionOptions) -> int:
        return 2

    def for_trial(self, size: int, options: AttentionOptions) -> AttentionOptions:
        return replace(options, picture=None)


def _spread(count: int, most: int) -> tuple[int, ...]:
    """At most `most` positions over 0 .. count - 1, the first and the last among them."""
    return tuple(dict.fromkeys(np.linspace(0, count - 1, min(most, count)).round().astype(int).tolist()))


def _cosine(first: np.ndarray, second: np.ndarray) -> float:
    a, b = first.astype(np.float64), second.astype(np.float64)
    return float((a * b).sum() / max(np.linalg.norm(a) * np.linalg.norm(b), np.finfo(np.float64).tiny))


def _whole_maps(findings: Findings, spoiled_by: str) -> Plate:
    figure, axes = panels(len(findings), 4)
    highest = max(_high(one.arrays[f"{state}/layer {_last(one)}"]) for one in findings.values() for state in STATES)
    image = None
    for line, (name, one) in zip(axes, findings.items(), strict=True):
        label_row(line[0], name, f"block {_last(one) + 1}", f"even {_even(one, _last(one)):.2g}")
        for k, state in enumerate(STATES):
            line[k].imshow(one.arrays[f"{state}/picture"], interpolation="nearest")
            image = show_map(line[2 + k], one.arrays[f"{state}/layer {_last(one)}"], highest, gamma=GAMMA)
            line[2 + k].set_ylabel("token that looks", fontsize=7)
    for axis, title in zip(axes[0], ("clean", spoiled_by, "attention\nclean", f"attention\n{spoiled_by}"), strict=True):
        axis.set_title(title, fontsize=8)
    for axis in axes[-1, 2:]:
        axis.set_xlabel("token looked at", fontsize=7)
    bar = figure.colorbar(image, ax=axes[:, 3], shrink=0.8 if len(findings) > 1 else 1.0)
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


def _layer_maps(findings: Findings, spoiled_by: str) -> Plate:
    columns = max(len(one.numbers["layers"]) for one in findings.values())
    figure, axes = panels(2 * len(findings), columns)
    for pair, (name, one) in zip(axes.reshape(len(findings), 2, columns), findings.items(), strict=True):
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
    told = cosines if any("cosine" in one.numbers for one in findings.values()) else ""
    reading = f"The same maps in several blocks, {SCALE_OF_BLOCKS}. {MEANING_OF_SCALE}{told}"
    return Plate("attention-layers", "Attention from block to block", reading, figure)


def _block_title(axis: Any, one: Finding, layer: int, highest: float) -> None:
    """The block, and what its colours mean: without that, a nearly even map could be taken for a strong one."""
    text = f"block {layer + 1}\n0 to {highest:.2g}, even {_even(one, layer):.2g}"
    axis.set_title(text, fontsize=min(8.0, 8.0 * letters_in(axis) / 20))


def _head_maps(findings: Findings) -> Plate:
    columns = min(MOST_HEADS, max(int(one.numbers["heads"]) for one in findings.values()))
    figure, axes = panels(len(findings), columns)
    for line, (name, one) in zip(axes, findings.items(), strict=True):
        heads = one.arrays["clean/heads"][:columns]
        label_row(line[0], name, f"block {_last(one) + 1}", f"0 to {_high(heads):.2g}", f"even {_even(one, _last(one)):.2g}")
        for k, (axis, values) in enumerate(zip(line, heads, strict=False)):
            show_map(axis, values, _high(heads))
            axis.set_title(f"head {k + 1}", fontsize=8)
    more = " Only the first heads are shown." if any(one.numbers["heads"] > columns for one in findings.values()) else ""
    reading = (
        "The clean image, one map a head, a colour scale a network. Heads that look alike do the same work twice."
        f"{more} {MEANING_OF_SCALE}"
    )
    return Plate("attention-heads", "Attention of each head", reading, figure)


def _query_maps(findings: Findings, spoiled_by: str) -> Plate:
    columns = 1 + max(len(one.numbers["layers"]) for one in findings.values())
    figure, axes = panels(2 * len(findings), columns)
    for pair, (name, one) in zip(axes.reshape(len(findings), 2, columns), findings.items(), strict=True):
        for line, state, told in zip(pair, STATES, ("clean", spoiled_by), strict=True):
            image = one.arrays[f"{state}/picture"]
            line[0].imshow(image, interpolation="nearest")
            label_row(line[0], name, told)
            for axis, layer in zip(line[1:], one.numbers["layers"], strict=False):
                highest = max(float(one.arrays[f"{s}/query {layer}"].max()) for s in STATES)
                _query_panel(axis, image, one.arrays[f"{state}/query {layer}"], one.numbers["query"], highest)
                if state == "clean":
                    _block_title(axis, one, layer, highest)
    reading = (
        "What one token looks at: the red square is the token that asks, brighter is more attention. The image shines "
        f"through. In Swin a token sees its own window alone. {SCALE_OF_BLOCKS.capitalize()}. {MEANING_OF_SCALE}"
    )
    return Plate("attention-query", "What one token sees", reading, figure)


def _query_panel(axis: Any, image: np.ndarray, seen: np.ndarray, query: list[float], highest: float) -> None:
    from matplotlib.patches import Rectangle

    H, W = image.shape[:2]
    axis.imshow(image.mean(-1), cmap="gray", vmin=0, vmax=255)
    axis.imshow(seen, cmap="magma", alpha=0.7, vmin=0, vmax=max(highest, 1e-12), extent=extent(H, W))
    rows, columns = seen.shape
    row, column = min(int(query[0] * rows), rows - 1), min(int(query[1] * columns), columns - 1)
    corner = (column * W / columns - 0.5, row * H / rows - 0.5)
    axis.add_patch(Rectangle(corner, W / columns, H / rows, fill=False, edgecolor="red", linewidth=1.4))


def _last(one: Finding) -> int:
    return int(one.numbers["layers"][-1])


def _even(one: Finding, layer: int) -> float:
    """What each entry would be if the attention of this block were spread evenly over the tokens (Swin: of a window)."""
    return float(one.arrays[f"clean/layer {layer}"].mean())


def _high(values: np.ndarray) -> float:
    """Where the colour scale of a map ends: a few bright entries do not darken the rest."""
    return float(np.percentile(values, 99.5))
