"""How far half precision moves the numbers of a pass: its first images, in half precision and in fp32."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from robustvit.evaluation.pass_statistics import statistics_of
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.statistics import Scores, measured_differences
from robustvit.evaluation.tallied import Tallied
from robustvit.evaluation.value import Value
from robustvit.metrics.measures import SHARE, measure_of
from robustvit.runtime.precision import Precision
from robustvit.runtime.processes import Processes
from robustvit.tasks.notes import Note

__all__ = ["PrecisionCheck", "check_precision", "uncompared_note"]

MOST_BATCHES, FEWEST_IMAGES, PART = 2, 8, 20
"""The check takes a twentieth of the images, within these bounds."""
AT_ONCE = 4
"""A batch is compared in so many parts: label maps of all conditions take much memory."""


@dataclass(frozen=True)
class PrecisionCheck:
    """A pass in half precision against the same in fp32.

    Attributes:
        precision: "bf16" or "fp16".
        images: how many, the first ones.
        changed: share by which predictions differ, over all conditions and attacks; see `Task.disagreement`.
        changes: key of a measure -> its value in half precision minus that in fp32, paired.
    """

    precision: str
    images: int
    changed: float
    changes: dict[str, Value] = field(default_factory=dict)

    def note(self) -> Note:
        """What a reader is told."""
        moved = "; ".join(filter(None, (_told(key, value) for key, value in self.changes.items())))
        text = (
            f"Computed in {self.precision}. For the first {self.images} images, under all conditions, "
            f"{SHARE.text(self.changed)} of the predictions differ from those in fp32"
        )
        return Note("precision", "Half precision", f"{text}; that changes {moved or 'none of the numbers'}.")


def _told(key: str, value: Value) -> str:
    """ "clean accuracy by -0.1 points"; empty where the digits that are shown do not change."""
    measure = measure_of(key)
    unit = measure.unit
    moved = round(unit.factor * value.value, unit.digits)
    return f"{measure.words} by {moved:+.{unit.digits}f}{' points' if unit.symbol == '%' else ''}" if moved else ""


def uncompared_note(precision: str) -> Note:
    """What a reader is told of a pass that cannot be made of a few samples alone."""
    return Note("precision", "Half precision", f"Computed in {precision}, and not compared with fp32.")


def check_precision(planned: Pass, processes: Processes) -> PrecisionCheck | None:
    """None where the pass computes in fp32, or cannot be made of its first samples alone.

    Args:
        planned: the pass.
        processes: that share the work.
    """
    settings, total = planned.settings, len(planned.samples)
    count = min(total, max(FEWEST_IMAGES, total // PART), MOST_BATCHES * settings.batch_size)
    whole = None if settings.precision == "fp32" else planned.only(range(count))
    if whole is None:
        return None
    step, shares = max(1, settings.batch_size // AT_ONCE), list[float]()
    halves, fulls = list[Tallied](), list[Tallied]()
    for start in range(0, count, step):
        part = planned.only(range(start, min(start + step, count)))
        if part is None:
            continue
        (half, predicted), (full, expected) = (_measured(part, own, processes) for own in (settings.precision, "fp32"))
        shares += [part.task.disagreement(*pair) for pair in zip(predicted, expected, strict=True)]
        halves.append(half)
        fulls.append(full)
    if not any(half.ids for half in halves):
        return None
    of_all = [share for shares_of_one in processes.gather(shares) for share in shares_of_one]
    joined = (Tallied.join(parts, whole.cells) for parts in (halves, fulls))
    ours, theirs = (Scores(whole.scoring, whole.scored(tallied), settings.seed) for tallied in joined)
    images, changes, _ = measured_differences(ours, theirs, statistics_of(whole, ours), {})
    return PrecisionCheck(settings.precision, images, sum(of_all) / max(1, len(of_all)), changes)


def _measured(part: Pass, precision: Precision, processes: Processes) -> tuple[Tallied, list[Any]]:
    """What a pass gives in a precision, with all predictions of this process."""
    predictions: list[Any] = []
    own = replace(part, settings=replace(part.settings, precision=precision), told=predictions.extend)
    with own.asking(gradients=True):
        return own.run(processes, None, None), predictions
