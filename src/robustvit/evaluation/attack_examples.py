"""A few pictures under attack, for the report: clean, the perturbation, attacked."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from robustvit.data.samples import Sample
from robustvit.evaluation.attacking import Attacker
from robustvit.evaluation.classification import Outcome, Task, predict
from robustvit.evaluation.conditions import CLEAN, Condition
from robustvit.evaluation.examples import data_uri
from robustvit.evaluation.results import AttackedPicture, AttackExample, ExamplePicture

__all__ = ["make_attack_examples"]

MOST = 3
"""Pictures to show, however many were asked for."""
SCALES = (1, 2, 5, 10, 20, 50, 100, 200)
"""Perturbations are shown this many times as strong, the most that fits."""


def make_attack_examples(attacker: Attacker, task: Task, outcome: Outcome, count: int) -> tuple[AttackExample, ...]:
    """For each attack, pictures spread over the set: those that this attack turned from right to wrong; where it fooled fewer,
    then others that were right, then any.

    They are attacked again, in one batch. That gives what was measured, but for AutoAttack in groups, which are others then.

    Args:
        attacker: who attacked.
        task: with attacks.
        outcome: of that task.
        count: of pictures for each attack, at most `MOST`.
    """
    chosen = {attack.name: _chosen(task, outcome, attack.rows[0], min(count, MOST)) for attack in task.attacks}
    pictures = _found(task, {name for names in chosen.values() for name in names})
    examples: list[AttackExample] = []
    for attack, names in chosen.items():
        examples += _under_attack(attacker, task, attack, [pictures[name] for name in names])
    return tuple(examples)


def _under_attack(attacker: Attacker, task: Task, attack: str, pictures: list[Sample]) -> list[AttackExample]:
    images = torch.stack([task.protocol.apply(picture.open()) for picture in pictures])
    targets = [task.target(picture) for picture in pictures]
    model = attacker.model.network
    clean = _answers(model, task, images, CLEAN.name, targets)
    pixels = next(attacker.rows(images, targets, [p.id for p in pictures], only=attack)).cpu()  # one mask of several will do
    under = _answers(model, task, pixels, attack, targets)
    examples = []
    for place, (picture, target) in enumerate(zip(pictures, targets, strict=True)):
        change, scale = _change(pixels[place] - images[place].float() / 255)
        attacked = AttackedPicture(attack, change, scale, under[place])
        examples.append(AttackExample(picture.id, task.class_name(target), clean[place], (attacked,)))
    return examples


def _chosen(task: Task, outcome: Outcome, row: str, count: int) -> list[str]:
    """Ids of the pictures to show for an attack, of which `row` is the first row."""
    right = outcome.correct[task.rows.index(CLEAN)]
    fooled = right & ~outcome.correct[task.rows.index(Condition(row))]
    wanted: list[str] = []
    for group in (fooled, right & ~fooled, ~right):
        wanted += _spread([outcome.ids[i] for i in group.nonzero()[0]], count - len(wanted))
    return wanted


def _found(task: Task, names: set[str]) -> dict[str, Sample]:
    found: dict[str, Sample] = {}
    for picture in task.pictures:
        if picture.id in names:
            found[picture.id] = picture
        if len(found) == len(names):
            break
    return found


def _spread(names: list[str], count: int) -> list[str]:
    """At most `count` of them, at equal distances."""
    count = min(count, len(names))
    return [names[i * len(names) // count] for i in range(count)]


def _answers(model: nn.Module, task: Task, images: Tensor, condition: str, targets: list[int]) -> list[ExamplePicture]:
    confidences, answers = predict(model, task, images)
    pixels = images if images.dtype == torch.uint8 else (images * 255).round().byte()
    return [
        ExamplePicture(condition, 0, data_uri(picture), task.class_name(answer), confidence, answer == target)
        for picture, answer, confidence, target in zip(pixels, answers.tolist(), confidences.tolist(), targets, strict=True)
    ]


def _change(change: Tensor) -> tuple[str, float]:
    """(data URI, scale) of a perturbation [3, H, W], around grey; scale 0 where nothing changed."""
    largest = change.abs().max().item()
    scale = max((scale for scale in SCALES if scale * largest <= 0.5), default=0.5) if largest else 0
    return data_uri(((0.5 + scale * change) * 255).round().clamp(0, 255).byte()), float(scale)
