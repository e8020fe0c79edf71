"""A few images under attack, for the report: clean, the perturbation, attacked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.data.samples import Sample
from robustvit.evaluation.attacking import Attacker
from robustvit.evaluation.examples import data_uri, example_image
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.results import AttackedImage, AttackExample, ExampleImage
from robustvit.evaluation.tallied import Tallied
from robustvit.tasks.classification import correct
from robustvit.tasks.passes import predict_images

__all__ = ["make_attack_examples"]

MOST = 3
"""Images to show, however many were asked for."""
SCALES = (1, 2, 5, 10, 20, 50, 100, 200)
"""Perturbations are shown this many times as strong, the most that fits."""


def make_attack_examples(planned: Pass, tallied: Tallied, count: int) -> tuple[AttackExample, ...]:
    """For each attack, images spread over the dataset: those that this attack turned from right to wrong; where it fooled
    fewer, then others that were right, then any.

    They are attacked again, in one batch. That gives what was measured, but for AutoAttack in groups, which are others then.

    Args:
        planned: the pass with the attacks.
        tallied: of that pass.
        count: of images for each attack, at most `MOST`.
    """
    attacker = planned.attacker()
    chosen = {attack.name: _chosen(tallied, attack.rows[0], min(count, MOST)) for attack in planned.attacks}
    samples = _found(planned, {name for names in chosen.values() for name in names})
    examples: list[AttackExample] = []
    for attack, names in chosen.items():
        examples += _under_attack(attacker, planned, attack, [samples[name] for name in names])
    return tuple(examples)


def _under_attack(attacker: Attacker, planned: Pass, attack: str, samples: list[Sample]) -> list[AttackExample]:
    images = torch.stack([planned.protocol.apply(sample.open()) for sample in samples])
    targets = [planned.task.target(sample, planned.samples) for sample in samples]
    clean = _answers(planned, images, CLEAN, targets)
    pixels = next(attacker.rows(images, targets, [s.id for s in samples], only=attack)).cpu()  # one mask of several will do
    under = _answers(planned, pixels, Condition(attack), targets)
    examples = []
    for place, (sample, target) in enumerate(zip(samples, targets, strict=True)):
        change, scale = _change(pixels[place] - images[place].float() / 255)
        attacked = AttackedImage(attack, change, scale, under[place])
        examples.append(AttackExample(sample.id, planned.task.target_text(target), clean[place], (attacked,)))
    return examples


def _chosen(tallied: Tallied, row: str, count: int) -> list[str]:
    """Ids of the images to show for an attack, of which `row` is the first row."""
    right = correct(tallied.row(CLEAN))
    fooled = right & ~correct(tallied.row(Condition(row)))
    wanted: list[str] = []
    for group in (fooled, right & ~fooled, ~right):
        wanted += _spread([tallied.ids[i] for i in group.nonzero()[0]], count - len(wanted))
    return wanted


def _found(planned: Pass, names: set[str]) -> dict[str, Sample]:
    found: dict[str, Sample] = {}
    for sample in planned.samples:
        if sample.id in names:
            found[sample.id] = sample
        if len(found) == len(names):
            break
    return found


def _spread(names: list[str], count: int) -> list[str]:
    """At most `count` of them, at equal distances."""
    count = min(count, len(names))
    return [names[i * len(names) // count] for i in range(count)]


def _answers(planned: Pass, images: Tensor, condition: Condition, targets: Sequence[int]) -> list[ExampleImage]:
    predictions = predict_images(planned.task, planned.network, images, planned.normalisation)
    pixels = images if images.dtype == torch.uint8 else (images * 255).round().byte()
    rows = zip(pixels, predictions, targets, strict=True)
    return [example_image(planned.task, condition, *row) for row in rows]


def _change(change: Tensor) -> tuple[str, float]:
    """(data URI, scale) of a perturbation [3, H, W], around grey; scale 0 where nothing changed."""
    largest = change.abs().max().item()
    scale = max((scale for scale in SCALES if scale * largest <= 0.5), default=0.5) if largest else 0
    pixels = ((0.5 + scale * change) * 255).round().clamp(0, 255).byte()
    return data_uri(Image.fromarray(pixels.permute(1, 2, 0).numpy())), float(scale)
