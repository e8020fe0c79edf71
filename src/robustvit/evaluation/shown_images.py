"""Images that results keep for the report, with the answers of the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AttackExample", "AttackedImage", "Example", "ExampleImage"]


@dataclass(frozen=True)
class ExampleImage:
    """One image as the network saw it. `image` is a data URI."""

    condition: str
    severity: int
    image: str = field(repr=False)
    answer: str
    confidence: float | None = None
    right: bool | None = None


@dataclass(frozen=True)
class Example:
    """One image of the set under several conditions, clean first."""

    id: str
    label: str
    pictures: tuple[ExampleImage, ...]

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Example:
        """From what `Results.to_json` gave."""
        return Example(stored["id"], stored["label"], tuple(ExampleImage(**picture) for picture in stored["pictures"]))


@dataclass(frozen=True)
class AttackedImage:
    """One image under one attack.

    Attributes:
        attack: its name.
        change: the perturbation as a data URI: grey where nothing changed, `scale` times as strong as it is.
        scale: see there; 0 where nothing changed.
        shown: the attacked image with the answer.
    """

    attack: str
    change: str = field(repr=False)
    scale: float
    shown: ExampleImage


@dataclass(frozen=True)
class AttackExample:
    """One image of the set, clean and under attacks: one, where images are chosen for each attack."""

    id: str
    label: str
    clean: ExampleImage
    attacked: tuple[AttackedImage, ...]

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> AttackExample:
        """From what `Results.to_json` gave."""
        attacked = tuple(AttackedImage(**{**a, "shown": ExampleImage(**a["shown"])}) for a in stored["attacked"])
        return AttackExample(stored["id"], stored["label"], ExampleImage(**stored["clean"]), attacked)
