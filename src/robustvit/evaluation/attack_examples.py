"""A few pictures under attack, for the report: clean, the perturbation, attacked."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from robustvit.data.pictures import Picture
from robustvit.evaluation.attacking import Attacker
from robustvit.evaluation.classification import Outcome, Task, predict
from robustvit.evaluation.conditions import CLEAN
from robustvit.evaluation.examples import class_name, data_uri
from robustvit.evaluation.results import AttackedPicture, AttackExample, ExamplePicture

__all__ = ["make_attack_examples"]

MOST = 3
"""Pictures to show, however many were asked for."""
SCALES = (1, 2, 5, 10, 20, 50, 100, 200)
"""Perturbations are shown this many times as strong, the most that fits."""


def make_attack_examples(attacker: Attacker, task: Task, outcome: Outcome, count: int) -> tuple[AttackExample, ...]:
    """Pictures spread over the set: first those that an attack turned from right to wrong, then other right ones, then any.

    They are attacked again, in one batch. That gives what was measured, but for AutoAttack in groups, which are others then.

    Args:
        attacker: who attacked.
        task: with attacks.
        outcome: of that task.
        count: of pictures, at most `MOST`.
    """
    pictures = _chosen(task, outcome, min(count, MOST))
    images = torch.stack([task.protocol.apply(picture.open()) for picture in pictures])
    targets = [task.target(picture) for picture in pictures]
    model = attacker.model.network
    shown = _answers(model, task, images, CLEAN.name, targets)
    attacked: list[list[AttackedPicture]] = [[] for _ in pictures]
    for name, pixels in zip(_names(task), attacker.rows(images, targets, [p.id for p in pictures]), strict=True):
        if not name:
            continue  # one mask of several is enough to see
        for place, answer in enumerate(_answers(model, task, pixels.cpu(), name, targets)):
            change, scale = _change(pixels[place].cpu() - images[place].float() / 255)
            attacked[place].append(AttackedPicture(name, change, scale, answer))
    return tuple(
        AttackExample(picture.id, class_name(task, target), clean, tuple(under))
        for picture, target, clean, under in zip(pictures, targets, shown, attacked, strict=True)
    )


def _names(task: Task) -> list[str]:
    """Of the rows that attacks make: the attack, or nothing for rows that are not shown."""
    return [attack.name if row == 0 else "" for attack in task.attacks for row in range(len(attack.rows))]


def _chosen(task: Task, outcome: Outcome, count: int) -> list[Picture]:
    right = outcome.correct[task.rows.index(CLEAN)]
    attacked = [row for row, name in enumerate(_names(task), start=len(task.conditions)) if name]
    fooled = right & ~outcome.correct[attacked].all(axis=0)
    wanted: list[str] = []
    for group in (fooled, right & ~fooled, ~right):
        wanted += _spread([outcome.ids[i] for i in group.nonzero()[0]], count - len(wanted))
    found: dict[str, Picture] = {}
    for picture in task.pictures:
        if picture.id in wanted:
            found[picture.id] = picture
        if len(found) == len(wanted):
            break
    return [found[name] for name in wanted]


def _spread(names: list[str], count: int) -> list[str]:
    """At most `count` of them, at equal distances."""
    count = min(count, len(names))
    return [names[i * len(names) // count] for i in range(count)]


def _answers(model: nn.Module, task: Task, images: Tensor, condition: str, targets: list[int]) -> list[ExamplePicture]:
    confidences, answers = predict(model, task, images)
    pixels = images if images.dtype == torch.uint8 else (images * 255).round().byte()
    return [
        ExamplePicture(condition, 0, data_uri(picture), class_name(task, answer), confidence, answer == target)
        for picture, answer, confidence, target in zip(pixels, answers.tolist(), confidences.tolist(), targets, strict=True)
    ]


def _change(change: Tensor) -> tuple[str, float]:
    """(data URI, scale) of a perturbation [3, H, W], around grey; scale 0 where nothing changed."""
    largest = change.abs().max().item()
    scale = max((scale for scale in SCALES if scale * largest <= 0.5), default=0.5) if largest else 0
    return data_uri(((0.5 + scale * change) * 255).round().clamp(0, 255).byte()), float(scale)
