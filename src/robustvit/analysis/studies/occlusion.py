"""What random patches of noise do to a network: accuracy and attention over many masks (AFAT Fig. 1, 3 and 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from robustvit.analysis.drawing import (
    LETTER,
    Plate,
    Rows,
    broken,
    colour,
    counted,
    histograms,
    legend,
    new_figure,
    number,
    plain_axes,
)
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Covering
from robustvit.analysis.study import ANY_NETWORK, Findings, Study, quoted

if TYPE_CHECKING:
    import numpy as np

    from robustvit.analysis.subject import Subject

__all__ = ["Occlusion", "OcclusionOptions"]

ACCURACIES = {
    "clean": "clean_accuracy",
    "mean": "mean_accuracy",
    "lowest": "lowest_accuracy",
    "highest": "highest_accuracy",
}
"""Label -> number of the table."""


@dataclass(frozen=True)
class OcclusionOptions(Covering):
    """The masks.

    Attributes:
        masks: random masks of an image in the occlusion study.
    """

    masks: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.masks >= 1, "masks", "at least 1")


class Occlusion(Study[OcclusionOptions]):
    """Accuracy and attention under random masks."""

    name = "occlusion"
    summary = "accuracy and likeness of attention over many random masks"
    tasks = ("classification",)
    needs = (ANY_NETWORK,)
    options = OcclusionOptions
    costly = ("masks",)

    def covers_patches(self, options: OcclusionOptions) -> bool:
        return True

    def run(self, subject: Subject, options: OcclusionOptions) -> Finding:
        import torch

        from robustvit.analysis.occlusion import DEFINITION, occlusion_study
        from robustvit.attacks.patches import PatchSettings

        how: dict[str, Any] = dict(masks=options.masks, settings=PatchSettings(options.rho), seed=options.seed)
        right, cosines, clean = [], [], []
        for batch in subject.batches():
            pixels = subject.unit(batch.pixels)
            found = occlusion_study(subject.pixel_network, pixels, batch.labels, sample_ids=batch.ids, **how)
            right.append(found.right)
            clean.append(found.clean_right)
            cosines += [found.cosines] if found.cosines is not None else []
        accuracies = torch.cat(right, dim=1).float().mean(1)  # masks
        arrays = {"accuracies": accuracies.numpy()}
        numbers: dict[str, Any] = {"masks": options.masks, "rho": options.rho, "truth": subject.truth}
        numbers["clean_accuracy"] = float(torch.cat(clean).float().mean())
        numbers |= {"mean_accuracy": float(accuracies.mean()), "lowest_accuracy": float(accuracies.min())}
        numbers |= {"highest_accuracy": float(accuracies.max())}
        if cosines:
            values = torch.cat(cosines, dim=1)  # masks images
            arrays["cosines"] = values.numpy()
            numbers["mean_cosine"] = float(values.mean())
        return Finding(DEFINITION, numbers, arrays)

    def plates(self, findings: Findings, options: OcclusionOptions) -> list[Plate]:
        cosines = {name: one.arrays["cosines"].ravel() for name, one in findings.items() if "cosines" in one.arrays}
        figure = new_figure(10 if cosines else 5.4, 3.4)
        axes = figure.subplots(1, 2 if cosines else 1, squeeze=False)[0]
        _boxes(axes[0], {name: 100 * one.arrays["accuracies"] for name, one in findings.items()})
        is_clean_known = _clean_marks(axes[0], findings)
        plain_axes(axes[0], "accuracy over masks", y="%")
        axes[0].set_ylim(top=min(100.0, axes[0].get_ylim()[1]))
        if cosines:
            places = [place for place, name in enumerate(findings) if name in cosines]
            histograms(axes[1], cosines, "attention, one value per image and mask", places)
            legend(figure, findings)
        reading = (
            f"{counted(options.masks, 'random mask')}, each covering {options.rho:.0%} of the patches (rounded up) with "
            "noise. Left, the accuracy under each mask: the middle half in the box, the median as its line, and the whole "
            "range"
            + ("; dashed, the accuracy on clean images." if is_clean_known else ".")
            + (" Right, how alike attention stays to that on the clean image, with a line at the mean." if cosines else "")
        )
        rows = _rows(findings, with_cosines=bool(cosines))
        return [Plate("occlusion", "What random patches of noise do", reading, figure, rows)]

    def lead(self, findings: Findings, options: OcclusionOptions) -> str | None:
        return quoted("With random patches covered, accuracy is", findings, "mean_accuracy", ".1%")

    def passes(self, images: int, options: OcclusionOptions) -> int:
        return images * (options.masks + 1)

    def for_trial(self, size: int, options: OcclusionOptions) -> OcclusionOptions:
        return replace(options, masks=size)


def _rows(findings: Findings, *, with_cosines: bool) -> Rows:
    rows = []
    for name, one in findings.items():
        values = [(f"{label}, %", _percent(one.numbers.get(key))) for label, key in ACCURACIES.items()]
        cosine = [("cosine", number(one.numbers.get("mean_cosine")))] if with_cosines else []
        rows.append((name, (*values, *cosine)))
    return tuple(rows)


def _percent(value: float | None) -> str:
    return number(None) if value is None else f"{100 * value:.1f}"


def _clean_marks(axis: Any, findings: Findings) -> bool:
    """A dashed line across each box; False where no clean accuracy is known."""
    known = [(place, one.numbers.get("clean_accuracy")) for place, one in enumerate(findings.values())]
    for place, clean in known:
        if clean is not None:
            line = dict(color=colour(place), linestyle="--", linewidth=1.6, clip_on=False, zorder=3)
            axis.plot([place + 0.62, place + 1.38], [100 * clean] * 2, **line)[0].set_in_layout(False)
    return any(clean is not None for _, clean in known)


def _boxes(axis: Any, values: Mapping[str, np.ndarray]) -> None:
    boxes = axis.boxplot(list(values.values()), whis=(0, 100), widths=0.5, patch_artist=True)
    for place, (box, median) in enumerate(zip(boxes["boxes"], boxes["medians"], strict=True)):
        box.set(facecolor=colour(place), alpha=0.5)
        median.set(color="black")
    room = int(4.2 / len(values) / LETTER)
    axis.set_xticks(range(1, len(values) + 1), [broken(name, max(room, 6)) for name in values])
