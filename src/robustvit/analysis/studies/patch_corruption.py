"""Which patches hurt a network most, and what covering them costs (AFAT Fig. 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from robustvit.analysis.drawing import PANEL, Plate, Rows, broken, label_row, letters_in, number, panels
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Covering, Showing
from robustvit.analysis.shown_images import as_array, in_8_bits, places_in
from robustvit.analysis.study import ANY_NETWORK, BLOCKS, Findings, Need, Study

if TYPE_CHECKING:
    from torch import Tensor

    from robustvit.analysis.subject import Subject
    from robustvit.attacks.chosen_patches import AdversarialPatches

__all__ = ["PatchCorruption", "PatchCorruptionOptions"]

CONFIDENCES = {"clean": "clean", "spoiled": "chosen patches", "by_chance": "random patches"}
"""Array -> what it is the confidence with."""


@dataclass(frozen=True)
class PatchCorruptionOptions(Showing, Covering):
    """Who chooses the patches.

    Attributes:
        corruption_model: folder of an AFAT run whose patch corruption network is used; None fits one to each network.
        fit_steps: of that fitting; 200 by default.
    """

    corruption_model: str | None = None
    fit_steps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.fit_steps is None or self.fit_steps >= 1, "fit_steps", "at least 1")
        if self.fit_steps is not None and self.corruption_model is not None:
            raise ValueError("fit_steps has no effect with a corruption_model, which is trained already; give one of them")

    def attack(self) -> AdversarialPatches:
        """The attack that they describe; its corruption network is not there yet."""
        from robustvit.attacks.chosen_patches import AdversarialPatches, ChosenPatchSettings

        settings = ChosenPatchSettings(self.rho, corruption_model=self.corruption_model)
        return AdversarialPatches(settings if self.fit_steps is None else replace(settings, fit_steps=self.fit_steps))


class PatchCorruption(Study[PatchCorruptionOptions]):
    """The confidence with the worst patches covered, and with random ones."""

    name = "patch-corruption"
    summary = "the patches that hurt most, and the confidence before and after"
    tasks = ("classification",)
    needs = (BLOCKS,)
    options = PatchCorruptionOptions
    shows_images = True
    costly = ("fit_steps",)

    def needed(self, options: PatchCorruptionOptions) -> tuple[Need, ...]:
        return self.needs if options.corruption_model is None else (ANY_NETWORK,)  # the blocks serve the fitting

    def covers_patches(self, options: PatchCorruptionOptions) -> bool:
        return True

    def check(self, subject: Subject, options: PatchCorruptionOptions) -> None:
        options.attack().check(subject.pixel_network, subject.protocol.size)

    def depends_on(self, options: PatchCorruptionOptions) -> object:
        return None if options.corruption_model is None else options.attack().describe()  # with its weights

    def run(self, subject: Subject, options: PatchCorruptionOptions) -> Finding:
        import torch

        from robustvit.analysis.patch_corruption import DEFINITION, patch_effect

        attack = _ready(subject, options)
        assert attack.scorer is not None
        confidences: dict[str, list[Tensor]] = {name: [] for name in CONFIDENCES}
        places = {name: place for place, name in enumerate(subject.shown_ids(options.shown))}
        shown: dict[int, tuple[np.ndarray, np.ndarray, int]] = {}  # place -> clean, covered, position among all images
        seen = 0
        how: dict[str, Any] = dict(scorer=attack.scorer, settings=attack.settings, seed=options.seed)
        for batch in subject.batches():
            pixels = subject.unit(batch.pixels)
            effect = patch_effect(subject.pixel_network, pixels, batch.labels, sample_ids=batch.ids, **how)
            for name, values in confidences.items():
                values.append(getattr(effect, name))
            for i, place in places_in(batch, places):
                shown[place] = (as_array(batch.pixels[i]), as_array(in_8_bits(effect.chosen[i])), seen + i)
            seen += len(batch.ids)
        whole = {name: torch.cat(values) for name, values in confidences.items()}
        numbers: dict[str, Any] = {f"mean_confidence_{name}": float(value.mean()) for name, value in whole.items()}
        numbers |= {"rho": options.rho, "truth": subject.truth, "corruption_network": attack.describe()["corruption_network"]}
        numbers |= {"fit_steps": attack.settings.fit_steps} if options.corruption_model is None else {}
        clean, chosen, positions = (np.stack(part) for part in zip(*(shown[place] for place in sorted(shown)), strict=True))
        arrays = {"pictures": clean, "chosen": chosen, "shown": positions}
        return Finding(DEFINITION, numbers, arrays | {name: value.numpy() for name, value in whole.items()})

    def plates(self, findings: Findings, options: PatchCorruptionOptions) -> list[Plate]:
        count = max(len(one.arrays["pictures"]) for one in findings.values())
        figure, axes = panels(2 * len(findings), count, side=PANEL + 0.1)
        for pair, (name, one) in zip(axes.reshape(len(findings), 2, count), findings.items(), strict=True):
            for line, key, told in zip(pair, ("pictures", "chosen"), ("clean", "patches covered"), strict=True):
                label_row(line[0], name, told)
                confidences = one.arrays["clean" if key == "pictures" else "spoiled"][one.arrays["shown"]]
                for axis, image, confidence in zip(line, one.arrays[key], confidences, strict=False):
                    axis.imshow(image, interpolation="nearest")
                    axis.set_title(broken(f"confidence {confidence:.0%}", letters_in(axis)), fontsize=8)
        reading = (
            f"A small network chooses {options.rho:.0%} of the patches (rounded up), those whose covering changes the "
            "features of the network most; they are covered with noise. Above each image: the confidence of the true class. "
            "Images with a low number in the clean row were wrong from the start. The table compares with as many random "
            "patches."
        )
        return [Plate("patch-corruption", "The patches that hurt", reading, figure, _rows(findings))]

    def passes(self, images: int, options: PatchCorruptionOptions) -> int:
        from robustvit.attacks.attack import FIT_BATCH

        steps = 0 if options.corruption_model else options.attack().settings.fit_steps
        return 3 * images + 3 * FIT_BATCH * steps

    def for_trial(self, size: int, options: PatchCorruptionOptions) -> PatchCorruptionOptions:
        return replace(options, shown=1, fit_steps=size if options.corruption_model is None else None)


def _rows(findings: Findings) -> Rows:
    rows = []
    for name, one in findings.items():
        values = [(f"confidence, {told}", number(one.numbers[f"mean_confidence_{key}"])) for key, told in CONFIDENCES.items()]
        rows.append((name, (*values, ("chosen by", str(one.numbers["corruption_network"])))))
    return tuple(rows)


def _ready(subject: Subject, options: PatchCorruptionOptions) -> AdversarialPatches:
    """The attack with the corruption network that was trained, or with one that is fitted to this network now."""
    from robustvit.attacks.chosen_patches import AdversarialPatches
    from robustvit.evaluation.attacking import Attacker

    attack = options.attack()
    learned = 0

    def tell(count: int) -> None:
        nonlocal learned
        learned += count
        subject.tell(learned, attack.learns_from)

    attacker = Attacker(subject.pixel_network, (attack,), subject.pictures, subject.protocol, options.seed)
    ready = attacker.prepare(tell)[0]
    assert isinstance(ready, AdversarialPatches)
    return ready
