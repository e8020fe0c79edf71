"""The same images under the same conditions, with the answer of every network drawn on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robustvit.evaluation.results import Example, ExampleImage, ModelResults

__all__ = ["ComparedImage", "ComparedShot", "compared_images"]

MOST = 3
"""Images to show."""
WIDEST = 6
"""Images side by side; more networks go on in further lines of equal length."""


@dataclass(frozen=True)
class ComparedShot:
    """One image under one condition.

    Attributes:
        condition, severity: that it is under.
        seen: what the networks saw, a data URI.
        answers: (place of the network, its name, its answer).
    """

    condition: str
    severity: int
    seen: str
    answers: tuple[tuple[int, str, ExampleImage], ...]

    @property
    def spread(self) -> float:
        """How far the networks are apart on it; 0 where they have no scores."""
        scores = [shown.score for _, _, shown in self.answers if shown.score is not None]
        return max(scores) - min(scores) if scores else 0.0


@dataclass(frozen=True)
class ComparedImage:
    """One image of the set.

    Attributes:
        id, label, target: see `Example`.
        shots: as it is, and under the corruption where the networks are furthest apart.
    """

    id: str
    label: str
    target: str
    shots: tuple[ComparedShot, ...]

    @property
    def columns(self) -> int:
        """Images side by side: the image, the label where it is drawn, and an answer per network."""
        images = 1 + bool(self.target) + len(self.shots[0].answers)
        lines = -(-images // WIDEST)
        return -(-images // lines)


def compared_images(models: Sequence[ModelResults]) -> tuple[ComparedImage, ...]:
    """Images that results keep of all networks, those first where they are furthest apart; empty where answers are words."""
    examples = [{example.id: example for example in model.examples} for model in models]
    shared = [name for name in examples[0] if all(name in own for own in examples)] if examples else []
    found = (_compared(models, [own[name] for own in examples]) for name in shared)
    drawn = [image for image in found if image.shots]
    drawn.sort(key=lambda image: max(shot.spread for shot in image.shots), reverse=True)  # stable: equals keep their order
    return tuple(drawn[:MOST])


def _compared(models: Sequence[ModelResults], examples: Sequence[Example]) -> ComparedImage:
    tables = [{(shown.condition, shown.severity): shown for shown in example.pictures} for example in examples]
    shots = []
    for (condition, severity), first in tables[0].items():
        answers = [table.get((condition, severity)) for table in tables]
        drawn = [answer for answer in answers if answer is not None and answer.seen]
        if len(drawn) == len(models):
            named = ((place, model.name, shown) for place, (model, shown) in enumerate(zip(models, drawn, strict=True)))
            shots.append(ComparedShot(condition, severity, first.seen, tuple(named)))
    plain = [shot for shot in shots if not shot.severity][:1]
    corrupted = sorted((shot for shot in shots if shot.severity), key=lambda shot: shot.spread, reverse=True)[:1]
    return ComparedImage(examples[0].id, examples[0].label, examples[0].target, (*plain, *corrupted))
