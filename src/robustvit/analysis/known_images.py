"""Figures show images that the networks know: those that all of them answer rightly. Numbers are of all images."""

from __future__ import annotations

from collections.abc import Mapping

from robustvit.analysis.subject import Subject
from robustvit.runtime.evaluation_mode import evaluation_mode

__all__ = ["show_known"]

LOOKED_AT = 256
"""Images among which known ones are looked for."""


def show_known(subjects: Mapping[str, Subject], count: int) -> str:
    """Chooses images for figures that all networks answer rightly, and says what figures show or why they cannot.

    Args:
        subjects: networks, each with the same images; `Subject.shown` is set.
        count: how many.
    """
    if not any(subject.is_classifier for subject in subjects.values()):
        return "Figures show the first images."
    labelled = [subject for subject in subjects.values() if subject.targets is not None]
    if not labelled:
        return "The images have no labels that fit the networks, so that nobody can tell which of them the networks know."
    answers = [_answers(subject, max(LOOKED_AT, count)) for subject in labelled]
    read = [name for name in answers[0] if all(name in one for one in answers)]
    known = {name for name in read if all(one[name] for one in answers)}
    order = sorted(read, key=lambda name: name not in known)  # stable: otherwise as given
    for subject in subjects.values():
        subject.shown = tuple(order[:count])
    who = "the network answers" if len(labelled) == 1 else "all networks answer"
    if len(known) >= count:
        return f"Figures show images that {who} rightly."
    return f"Of {len(order)} images, {who} only {len(known)} rightly: figures show these first, then others."


def _answers(subject: Subject, most: int) -> dict[str, bool]:
    """Id -> whether the network answers it rightly, of the first `most` images that can be read."""
    found: dict[str, bool] = {}
    with evaluation_mode(subject.network):
        for batch in subject.batches(most):
            answers = subject.pixel_network(subject.unit(batch.pixels)).argmax(1)
            found |= dict(zip(batch.ids, (answers == batch.labels).tolist(), strict=True))
    return found
