"""A few images under attack, for the report: clean, the perturbation, attacked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
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
from robustvit.tasks.passes import predict_images
from robustvit.tasks.scoring import Scoring
from robustvit.tasks.tallies import Tallies

__all__ = ["make_attack_examples"]

MOST = 3
"""Images to show, however many were asked for."""
SCALES = (1, 2, 5, 10, 20, 50, 100, 200)
"""Perturbations are shown this many times as strong, the most that fits."""


def make_attack_examples(planned: Pass, tallied: Tallied, count: int) -> tuple[AttackExample, ...]:
    """For each attack, images spread over the dataset: those that this attack turned from right to wrong; where it fooled
    fewer, then others that were right, then any. Where an answer is not just right or wrong, those that lost most.

    They are attacked again, in one batch (of each size). That gives what was measured, but for AutoAttack in groups, which
    are others then.

    Args:
        planned: the pass with the attacks.
        tallied: of that pass.
        count: of images for each attack, at most `MOST`.
    """
    attacker = planned.attacker()
    most = min(count, MOST)
    chosen = {attack.name: _chosen(planned.scoring, tallied, attack.rows[0], most) for attack in planned.attacks}
    samples = _found(planned, {name for names in chosen.values() for name in names})
    examples: list[AttackExample] = []
    for attack, names in chosen.items():
        for images in _of_one_size(planned, [samples[name] for name in names]):
            examples += _under_attack(attacker, planned, attack, *images)
    return tuple(examples)


def _of_one_size(planned: Pass, samples: list[Sample]) -> Iterator[tuple[list[Sample], Tensor]]:
    """Samples with their images uint8 [b, 3, H, W], those of one size together."""
    sizes: dict[torch.Size, list[tuple[Sample, Tensor]]] = {}
    for sample in samples:
        image = planned.protocol.apply(sample.open())
        sizes.setdefault(image.shape, []).append((sample, image))
    for same in sizes.values():
        yield [sample for sample, _ in same], torch.stack([image for _, image in same])


def _under_attack(
    attacker: Attacker, planned: Pass, attack: str, samples: list[Sample], images: Tensor
) -> list[AttackExample]:
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


def _chosen(scoring: Scoring, tallied: Tallied, row: str, count: int) -> list[str]:
    """Ids of the images to show for an attack, of which `row` is the first row."""
    before, after = (_score_of_each(scoring, tallied.row(condition)) for condition in (CLEAN, Condition(row)))
    if not scoring.is_share:
        order = np.argsort(-np.nan_to_num(before - after), kind="stable")
        return [tallied.ids[i] for i in order[:count]]
    right = before == 1
    fooled = right & ~(after == 1)
    wanted: list[str] = []
    for group in (fooled, right & ~fooled, ~right):
        wanted += _spread([tallied.ids[i] for i in group.nonzero()[0]], count - len(wanted))
    return wanted


def _score_of_each(scoring: Scoring, tallies: Tallies) -> np.ndarray:
    """[N]: the primary measure of every sample by itself."""
    alone = np.ones((1, 1))
    return np.array([scoring.score(tallies.of([i]), alone)[scoring.primary.key][0] for i in range(len(tallies))])


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


def _answers(planned: Pass, images: Tensor, condition: Condition, targets: Sequence[Any]) -> list[ExampleImage]:
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
