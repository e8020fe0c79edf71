"""Figures show pictures that the networks know: those that all of them answer rightly come first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robustvit.analysis.subject import Subject
from robustvit.data.pictures import Picture
from robustvit.methods.probing import evaluation_mode

__all__ = ["ReorderedPictures", "show_known_first"]

LOOKED_AT = 256
"""Pictures among which known ones are looked for."""


class ReorderedPictures:
    """A set of pictures in another order.

    Args:
        pictures: a set with `at`.
        order: positions in it.
    """

    def __init__(self, pictures: Any, order: list[int]) -> None:
        self.pictures, self.name, self.classes, self.order = pictures, pictures.name, pictures.classes, order

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[Picture]:
        yield from map(self.at, range(len(self)))

    def at(self, i: int) -> Picture:
        return self.pictures.at(self.order[i])


def show_known_first(subjects: Mapping[str, Subject], shown: int) -> str:
    """Lets the pictures that all networks answer rightly come first, and says what the figures show or why they cannot.

    Args:
        subjects: networks, each with the same pictures; their order is changed.
        shown: how many pictures figures show.
    """
    labelled = [subject for subject in subjects.values() if subject.targets is not None]
    if not labelled:
        return "The pictures have no labels that fit the networks, so that nobody can tell which of them the networks know."
    if not all(hasattr(subject.pictures, "at") for subject in subjects.values()):
        return "The pictures come one after the other: figures show the first ones, whether the networks know them or not."
    known = set.intersection(*(_known(subject) for subject in labelled))
    for subject in subjects.values():
        ids = [subject.pictures.at(i).id for i in range(len(subject.pictures))]  # type: ignore[attr-defined]
        order = sorted(range(len(ids)), key=lambda i, ids=ids: ids[i] not in known)  # type: ignore[misc]
        subject.given, subject.pictures = subject.pictures, ReorderedPictures(subject.pictures, order)
    looked = min(LOOKED_AT, len(labelled[0].pictures))
    who = "the network answers" if len(labelled) == 1 else "all networks answer"
    if len(known) >= shown:
        return f"Figures show pictures that {who} rightly."
    return f"Of {looked} pictures, {who} only {len(known)} rightly: figures show these first, then others."


def _known(subject: Subject) -> set[str]:
    """Ids of the pictures that the network answers rightly, among the first `LOOKED_AT`."""
    known: set[str] = set()
    with evaluation_mode(subject.network):
        for batch in subject.batches(LOOKED_AT):
            answers = subject.pixel_network(subject.unit(batch.pixels)).argmax(1)
            known |= {name for name, is_right in zip(batch.ids, (answers == batch.labels).tolist(), strict=True) if is_right}
    return known
