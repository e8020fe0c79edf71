"""Images that results keep for the report, with the answers of the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AttackExample", "AttackedImage", "Example", "ExampleImage", "WorstImage", "drop_empty"]


@dataclass(frozen=True)
class ExampleImage:
    """One image as the network saw it.

    Attributes:
        condition, severity: that it is under.
        image: a data URI, with the answer drawn on it where the task draws one.
        answer: in words.
        confidence: in 0 .. 1; None where there is none.
        right: None where an answer is not just right or wrong.
        seen: the same image without the answer drawn on it; empty where nothing was drawn.
        score: the primary measure of this image alone; None for tasks that do not rank samples.
    """

    condition: str
    severity: int
    image: str = field(repr=False)
    answer: str
    confidence: float | None = None
    right: bool | None = None
    seen: str = field(default="", repr=False)
    score: float | None = None


@dataclass(frozen=True)
class Example:
    """One image of the set under several conditions, clean first.

    Attributes:
        id: of the sample.
        label: the target in words.
        pictures: under each condition.
        target: the image with the target drawn on it, a data URI; empty where words say it all.
    """

    id: str
    label: str
    pictures: tuple[ExampleImage, ...]
    target: str = field(default="", repr=False)

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Example:
        """From what `Results.to_json` gave."""
        pictures = tuple(ExampleImage(**picture) for picture in stored["pictures"])
        return Example(stored["id"], stored["label"], pictures, stored.get("target", ""))


@dataclass(frozen=True)
class WorstImage:
    """One of the images that went worst.

    Attributes:
        ranked: by which of the two numbers: "clean" or "corrupted".
        clean: the primary measure of this image as it is; None where that was not measured.
        corrupted: its mean over corruptions; None where there are none.
        example: the image as it is and, of those ranked by `corrupted`, where it lost most.
    """

    ranked: str
    clean: float | None
    corrupted: float | None
    example: Example

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> WorstImage:
        """From what `Results.to_json` gave."""
        return WorstImage(**{**stored, "example": Example.from_json(stored["example"])})


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


def drop_empty(network: dict[str, Any]) -> None:
    """Takes what most tasks have not from the plain values of a network: drawings with their legend, scores, worst images."""
    examples = [*network["examples"], *(worst["example"] for worst in network["worst"])]
    shown = [picture for example in examples for picture in example["pictures"]]
    for attacked in network["attack_examples"]:
        shown += [attacked["clean"], *(one["shown"] for one in attacked["attacked"])]
    optional = [(network, name) for name in ("legend", "marks", "worst")]
    optional += [*((e, "target") for e in examples), *((p, name) for p in shown for name in ("seen", "score"))]
    for plain, name in optional:
        if name in plain and plain[name] in (None, "", ()):
            del plain[name]
