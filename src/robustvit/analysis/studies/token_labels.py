"""What a network with a token head says about every patch (STL Fig. 2 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from robustvit.analysis.drawing import Plate, broken, colour, letters_in, new_figure, number, panels, plain_axes
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Showing
from robustvit.analysis.shown_images import as_array, in_8_bits
from robustvit.analysis.study import TOKEN_HEAD, Findings, Study

if TYPE_CHECKING:
    from robustvit.analysis.subject import Batch, Subject

__all__ = ["TokenLabelOptions", "TokenLabels"]

CONFIDENCES_OF = 16
"""Images whose tokens' confidences are counted, as in STL's Fig. 2."""
BACKGROUND, LOW, HIGH = "#1c2250", "#2fb8c6", "#ffd83d"
COLUMNS = {
    "pictures": "image",
    "foreground": "label is the class",
    "levels": "and confident",
    "drawn": "one Gumbel draw",
    "augmented_pictures": "full augmentation",
    "augmented_foreground": "label is the class",
}
"""Array -> title, from left to right."""


@dataclass(frozen=True)
class TokenLabelOptions(Showing):
    """Which labels count as sure.

    Attributes:
        sure: confidence from which a token counts as sure.
    """

    sure: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.sure <= 1, "sure", "0 to 1")


class TokenLabels(Study[TokenLabelOptions]):
    """Labels of tokens, clean and with all augmentations of a student."""

    name = "token-labels"
    summary = "what each token says it is, and how surely"
    tasks = ("classification",)
    needs = (TOKEN_HEAD,)
    options = TokenLabelOptions
    shows_images = True

    def run(self, subject: Subject, options: TokenLabelOptions) -> Finding:
        from robustvit.analysis.token_labels import DEFINITION

        first = list(subject.batches(max(options.shown, CONFIDENCES_OF)))
        whole = _labelled(subject, first, options)
        confidences = whole["confidences"][:CONFIDENCES_OF].ravel()
        numbers = {
            "foreground_share": float(whole["foreground"].mean()),
            "augmented_foreground_share": float(whole["augmented_foreground"].mean()),
            "mean_confidence": float(confidences.mean()),
            "pictures": len(whole["pictures"]),
            "sure": options.sure,
            "truth": subject.truth,
            "without_cutmix": len(whole["pictures"]) < 2,
        }
        ids = [name for batch in first for name in batch.ids]
        chosen = subject.shown_ids(options.shown)
        if not set(chosen) <= set(ids):  # the others are there as partners of CutMix
            ids = [*chosen, *(name for name in ids if name not in chosen)]
            batches = (ids[i : i + options.batch_size] for i in range(0, len(ids), options.batch_size))
            whole = _labelled(subject, [subject.named(batch) for batch in batches], options)
        rows = [ids.index(name) for name in chosen]
        shown = {name: value[rows] for name, value in whole.items() if name != "confidences"}
        return Finding(DEFINITION, numbers, {**shown, "confidences": confidences})

    def plates(self, findings: Findings, options: TokenLabelOptions) -> list[Plate]:
        plates = []
        for place, (name, one) in enumerate(findings.items()):
            suffix = f"-{place + 1}" if place else ""
            plates += [_label_plate(suffix, name, one, options), _confidence_plate(suffix, name, one, place)]
        return plates

    def remarks(self, findings: Findings) -> Sequence[str]:
        alone = [name for name, one in findings.items() if one.numbers["without_cutmix"]]
        told = "CutMix needs two images, so the augmented view of the only one goes without"
        return [f"token labels of {name}: {told}" for name in alone]

    def passes(self, images: int, options: TokenLabelOptions) -> int:
        return 2 * min(images, max(options.shown, CONFIDENCES_OF))

    def for_trial(self, size: int, options: TokenLabelOptions) -> TokenLabelOptions:
        return replace(options, shown=1)


def _labelled(subject: Subject, batches: Sequence[Batch], options: TokenLabelOptions) -> dict[str, np.ndarray]:
    """Maps and images of all batches, among which the partners of CutMix are chosen."""
    import torch

    from robustvit.analysis.full_augmentation import fully_augmented
    from robustvit.analysis.token_labels import token_labels

    model = subject.pixel_network
    parts: dict[str, list[np.ndarray]] = {}
    everything = torch.cat([batch.pixels for batch in batches])
    augmentations = fully_augmented(model, everything, [i for batch in batches for i in batch.ids], options.seed)
    for batch, broken_up in zip(batches, augmentations.split([len(batch.ids) for batch in batches]), strict=True):
        inputs = (subject.normalised(batch.pixels), model.normalise(broken_up.to(subject.device)).to(subject.dtype))
        how: dict[str, Any] = dict(seed=options.seed, sample_ids=batch.ids)
        found, augmented = (token_labels(subject.network, x, batch.labels, **how) for x in inputs)
        maps = {"foreground": found.foreground, "levels": found.levels(options.sure), "drawn": found.drawn_foreground}
        maps |= {"augmented_foreground": augmented.foreground, "confidences": found.confidences}
        arrays = {name: value.cpu().numpy() for name, value in maps.items()}
        arrays |= {"pictures": as_array(batch.pixels), "augmented_pictures": as_array(in_8_bits(broken_up))}
        for name, value in arrays.items():
            parts.setdefault(name, []).append(value)
    return {name: np.concatenate(values) for name, values in parts.items()}


def _label_plate(suffix: str, name: str, one: Finding, options: TokenLabelOptions) -> Plate:
    from matplotlib.colors import ListedColormap

    two, three = ListedColormap([BACKGROUND, HIGH]), ListedColormap([BACKGROUND, LOW, HIGH])
    figure, axes = panels(len(one.arrays["pictures"]), len(COLUMNS), label_width=0.2)
    for i, line in enumerate(axes):
        for axis, key in zip(line, COLUMNS, strict=True):
            if key.endswith("pictures"):
                axis.imshow(one.arrays[key][i], interpolation="nearest")
            else:
                is_three = key == "levels"
                axis.imshow(one.arrays[key][i], cmap=three if is_three else two, vmin=0, vmax=2 if is_three else 1)
    for axis, title in zip(axes[0], COLUMNS.values(), strict=True):
        axis.set_title(broken(title, letters_in(axis)), fontsize=8)
    alone = " There was one image only, so that CutMix had no partner." if one.numbers.get("without_cutmix") else ""
    reading = (
        "What the token head says about each patch. Yellow: the token's label is the class of the image; in the third "
        f"column cyan where its confidence is below {options.sure:g}. Fourth: one random draw (Gumbel) from the same "
        "logits. Right: the same for a view with all augmentations of a student, where labels break down."
        f"{alone}"
    )
    shown = ("foreground_share", "augmented_foreground_share", "mean_confidence")
    rows = ((name, tuple((key.replace("_", " "), number(one.numbers[key])) for key in shown)),)
    return Plate(f"token-labels{suffix}", f"Labels of tokens: {name}", reading, figure, rows)


def _confidence_plate(suffix: str, name: str, one: Finding, place: int) -> Plate:
    figure = new_figure(5.4, 3.0)
    axis = figure.subplots()
    values = one.arrays["confidences"]
    axis.hist(values, np.linspace(0, 1, 31), weights=np.full(values.shape, 1 / len(values)), color=colour(place))
    plain_axes(axis, f"confidence of {len(values)} tokens", "confidence", "share")
    reading = f"How sure the tokens are of their labels, over the tokens of the first images (at most {CONFIDENCES_OF})."
    return Plate(f"token-confidence{suffix}", f"Confidence of tokens: {name}", reading, figure)
