"""What a reader of a result must know besides its numbers: too few images, numbers left out, classes that do not match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robustvit.corruptions.conditions import Condition
from robustvit.corruptions.parameters import SEVERITIES
from robustvit.metrics.bootstrap import FEW_IMAGES
from robustvit.metrics.chance import is_at_chance, p_value_of_chance
from robustvit.metrics.measures import ACCURACY, Measure

__all__ = ["Note", "chance_note", "few_images_note", "left_out_note", "other_classes_note"]


@dataclass(frozen=True)
class Note:
    """One remark.

    Attributes:
        kind: "class-mismatch" or "untrained" (accuracy at chance level), "few-pictures", "left-out", or one of a task.
        title: what stands before the text.
        text: a sentence or two.
        file: beside the results, that helps: a class map to be edited; empty where there is none.
    """

    kind: str
    title: str
    text: str
    file: str = ""


def few_images_note(pictures: int, *, has_exact: bool, primary: Measure = ACCURACY) -> Note | None:
    """For numbers whose intervals are from a bootstrap of fewer than `FEW_IMAGES` images.

    Args:
        pictures: how many there are.
        has_exact: whether single numbers have intervals of another kind.
        primary: measure of the task.
    """
    if pictures >= FEW_IMAGES:
        return None
    count = f"{pictures} image{'' if pictures == 1 else 's'}"
    of_what = "of means over corruptions, retention, mCE and differences between networks " if primary == ACCURACY else ""
    return Note(
        "few-pictures",
        "Few images",
        f"Only {count}: intervals {of_what}are from a "
        f"bootstrap, which makes them too narrow with fewer than {FEW_IMAGES} images."
        + (" Those of single accuracies hold." if has_exact else "")
        + ("" if primary == ACCURACY else " Where a class is in few of them, they also lean upward."),
    )


def left_out_note(measured: Sequence[Condition], missing: Sequence[Condition], primary: Measure = ACCURACY) -> Note | None:
    """For corruptions of which not all severities were measured, or fewer corruptions than the suites ask for.

    Args:
        measured: conditions that were.
        missing: those that the files do not have.
        primary: measure of the task.
    """
    corrupted = [c for c in measured if c.severity]
    if not corrupted:
        return None
    names = list(dict.fromkeys(c.name for c in corrupted))
    severities = sorted({c.severity for c in corrupted})
    told = f"severity {severities[0]}" if len(severities) == 1 else f"severities {', '.join(map(str, severities))}"
    parts = []
    if missing:
        which = f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''} at {told}"
        parts.append(f"The files have {len(corrupted)} of the {len(corrupted) + len(missing)} conditions asked for: {which}.")
    if missing or tuple(severities) != SEVERITIES:
        which = "mCE, relative mCE, CE and the" if primary == ACCURACY else "The"
        parts.append(
            f"Means are over what was measured ({told}). {which} means "
            "over 15, 17 or 19 corruptions need all five severities, and are left out where these are missing."
        )
    return Note("left-out", "Not everything was measured", " ".join(parts)) if parts else None


def other_classes_note(outputs: Sequence[str], classes: Sequence[str]) -> Note:
    """For a network that has as many classes as the dataset, and other names for them.

    Args:
        outputs: what the network calls them.
        classes: of the dataset.
    """
    pairs = [f"{output} for {name}" for output, name in zip(outputs, classes, strict=True) if output != name]
    return Note(
        "class-mismatch",
        "Other classes",
        f"The network and the dataset name their {len(classes)} classes differently; they were taken in their order: "
        f"{', '.join(pairs[:3])}{', ...' if len(pairs) > 3 else ''}. Is this the network for these images?",
    )


def chance_note(
    right: int, pictures: int, outputs: int, matched_by: str, *, has_names: bool, is_untrained: bool = False
) -> Note | None:
    """For an accuracy on clean images that is no better than guessing.

    Args:
        right: answers to clean images.
        pictures: how many.
        outputs: of the network that compete.
        matched_by: how classes and outputs were matched, see `Matching`.
        has_names: whether the classes of the images have names, which a class map needs.
        is_untrained: whether the weights are known to be random.
    """
    if not is_at_chance(right, pictures, outputs):
        return None
    p = p_value_of_chance(right, pictures, outputs)
    told = f"{right} of {pictures} clean images {'is' if right == 1 else 'are'} right"
    guessing = f"{told}, which is what guessing among {outputs} classes gives (1 in {outputs}; p = {p:.2g})."
    if is_untrained:
        return Note("untrained", "Untrained", f"{guessing} The network is untrained: its weights are random.")
    remedy = (
        "A class map says which output each class is (--class-map FILE)."
        if has_names
        else "The images have labels without names: each label must be the number of an output."
    )
    return Note(
        "class-mismatch",
        "Classes do not seem to match",
        f"{guessing} Probably the classes of the images are not the outputs of the network in this order (they were matched "
        f"by {matched_by}), or the network is not trained for these images. {remedy}",
    )
