"""Groups of tokens, and whether they stay when the image is corrupted (FAN A.6, Fig. 1, 4 and 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from robustvit.analysis.drawing import STATES, Plate, Rows, broken, extent, label_row, letters_in, number, panels
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Layered, Showing, Spoiling
from robustvit.analysis.shown_images import as_array, places_in
from robustvit.analysis.spoiling import SpoilingStudy, spoiled
from robustvit.analysis.study import BLOCKS, SCIKIT_LEARN, Findings
from robustvit.runtime.colours import SERIES

if TYPE_CHECKING:
    from robustvit.analysis.subject import Subject

__all__ = ["ClusterOptions", "Clusters"]

MOST_GROUPS = 16
"""Of tokens; more could not be told apart by their colours."""
MORE_COLOURS = ("#888888", "#56b4e9", "#e69f00", "#f0e442", "#cc79a7", "#009e73", "#d55e00", "#999933", "#882255", "#44aa99")
"""Of groups beyond the first ones."""


@dataclass(frozen=True)
class ClusterOptions(Showing, Layered, Spoiling):
    """How tokens are grouped.

    Attributes:
        clusters: groups of tokens; None chooses by the eigengap.
    """

    clusters: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.clusters is None or 2 <= self.clusters <= MOST_GROUPS, "clusters", f"2 to {MOST_GROUPS}")


class Clusters(SpoilingStudy[ClusterOptions]):
    """Spectral clustering of the tokens of some blocks."""

    name = "clusters"
    summary = "groups of tokens, clean and corrupted, and how well they agree"
    needs = (BLOCKS, SCIKIT_LEARN)
    options = ClusterOptions
    shows_images = True
    last_entry = "last chosen block"

    def check(self, subject: Subject, options: ClusterOptions) -> None:
        super().check(subject, options)
        if options.layers is not None:
            _positions(subject, options.layers)

    def run(self, subject: Subject, options: ClusterOptions) -> Finding:
        from robustvit.analysis.clusters import DEFINITION, agreement, clusters_in, matched
        from robustvit.recording.block_outputs import block_tokens

        positions = _positions(subject, options.layers or (_second_last(subject),))
        arrays: dict[str, np.ndarray] = {}
        agreements: dict[int, list[float]] = {layer: [] for layer in positions}
        places = {name: place for place, name in enumerate(subject.shown_ids(options.shown))}
        seen = 0
        for batch in subject.batches():
            corrupted = spoiled(subject, batch, options)
            clean, other = (block_tokens(subject.network, subject.normalised(x)) for x in (batch.pixels, corrupted))
            for layer in positions:
                groups = (clusters_in(blocks[layer], options.clusters, seed=options.seed) for blocks in (clean, other))
                for i, (a, b) in enumerate(zip(*groups, strict=True)):
                    agreements[layer].append(agreement(a, b))
                    if (place := places.get(batch.ids[i])) is not None:
                        arrays[f"{place}/clean/{layer}"] = a.labels
                        arrays[f"{place}/spoiled/{layer}"] = matched(a, b).labels
            for i, place in places_in(batch, places):
                arrays[f"{place}/clean/picture"] = as_array(batch.pixels[i])
                arrays[f"{place}/spoiled/picture"] = as_array(corrupted[i])
            seen += len(batch.ids)
        means = [float(np.mean(agreements[layer])) for layer in positions]
        return Finding(DEFINITION, {"layers": list(positions), "pictures": seen, "adjusted_rand_index": means}, arrays)

    def plates(self, findings: Findings, options: ClusterOptions) -> list[Plate]:
        """Images with their groups in the first chosen block; with several blocks, the first image through all of them."""
        shown = sorted({int(key.split("/")[0]) for one in findings.values() for key in one.arrays})
        reading = (
            "Tokens with the same colour form a group (spectral clustering of their features after the first block of the "
            "table; in a CNN, positions of the map). Beside it, the same image with "
            f"{options.spoiled_by}; groups that overlap most have the same colour. Groups that follow objects, and stay when "
            "the image is corrupted, are what FAN calls visual grouping. Agreement is the adjusted Rand index: 1 the same, "
            "0 chance."
        )
        figure = _image_figure(findings, shown, options.spoiled_by)
        plates = [Plate("clusters", "Groups of tokens", reading, figure, _agreements(findings))]
        if max(len(one.numbers["layers"]) for one in findings.values()) > 1:
            blocks = _block_figure(findings, shown[0], options.spoiled_by)
            told = "The first image, all chosen blocks."
            plates.append(Plate("clusters-blocks", "Groups from block to block", told, blocks))
        return plates

    def for_trial(self, size: int, options: ClusterOptions) -> ClusterOptions:
        return replace(options, shown=1)


def _positions(subject: Subject, layers: tuple[int, ...]) -> tuple[int, ...]:
    from robustvit.analysis.attention_maps import block_positions
    from robustvit.recording.block_outputs import blocks_of

    return block_positions(layers, len(blocks_of(subject.network)))


def _second_last(subject: Subject) -> int:
    """The second-last block, or the last one before it that has more tokens than groups can be chosen."""
    from robustvit.analysis.clusters import MOST_CLUSTERS
    from robustvit.recording.block_outputs import block_tokens

    grids = [block.grid for block in block_tokens(subject.network, subject.normalised(subject.only().pixels))]
    last = max(len(grids) - 2, 0)
    return next((i for i in range(last, -1, -1) if grids[i][0] * grids[i][1] > MOST_CLUSTERS), last)


def _image_figure(findings: Findings, shown: list[int], spoiled_by: str) -> Any:
    figure, axes = panels(len(shown), 2 + 2 * len(findings), label_width=0.3)
    first = next(iter(findings.values()))
    for line, i in zip(axes, shown, strict=True):
        for k, state in enumerate(STATES):
            line[k].imshow(first.arrays[f"{i}/{state}/picture"], interpolation="nearest")
        for n, one in enumerate(findings.values()):
            for k, state in enumerate(STATES):
                _draw_groups(line[2 + 2 * n + k], one.arrays, i, state, one.numbers["layers"][0])
    letters = letters_in(axes[0, 0])
    titles = [broken(title, letters) for title in ("image", spoiled_by)]
    titles += [f"{broken(name, letters)}\n{told}" for name in findings for told in ("clean", "corrupted")]
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=8)
    return figure


def _block_figure(findings: Findings, i: int, spoiled_by: str) -> Any:
    columns = max(len(one.numbers["layers"]) for one in findings.values())
    figure, axes = panels(2 * len(findings), columns)
    for pair, (name, one) in zip(axes.reshape(len(findings), 2, columns), findings.items(), strict=True):
        for line, state, told in zip(pair, STATES, ("clean", spoiled_by), strict=True):
            label_row(line[0], name, told)
            for axis, layer in zip(line, one.numbers["layers"], strict=False):
                _draw_groups(axis, one.arrays, i, state, layer)
                axis.set_title(f"block {layer + 1}" if state == "clean" else "", fontsize=9)
    return figure


def _draw_groups(axis: Any, arrays: Mapping[str, np.ndarray], i: int, state: str, layer: int) -> None:
    from matplotlib.colors import ListedColormap

    image, labels = arrays[f"{i}/{state}/picture"], arrays[f"{i}/{state}/{layer}"]
    H, W = image.shape[:2]
    axis.imshow(image.mean(-1), cmap="gray", vmin=0, vmax=255)
    colours = ListedColormap([*SERIES, *MORE_COLOURS])
    axis.imshow(labels, cmap=colours, vmin=0, vmax=colours.N - 1, alpha=0.65, interpolation="nearest", extent=extent(H, W))


def _agreements(findings: Findings) -> Rows:
    """One row per network and block."""
    return tuple(
        (name, (("block", str(layer + 1)), ("images", str(one.numbers["pictures"])), ("agreement", number(value))))
        for name, one in findings.items()
        for layer, value in zip(one.numbers["layers"], one.numbers["adjusted_rand_index"], strict=True)
    )
