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

__all__ = ["PrecisionCheck", "check_precision"]

MOST_BATCHES, FEWEST_IMAGES, PART = 2, 8, 20
"""The check takes a twentieth of the images, within these bounds: it costs little beside the evaluation."""


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


def check_precision(planned: Pass, processes: Processes) -> PrecisionCheck | None:
    """None where the pass computes in fp32, or cannot be made of its first samples alone.

    Args:
        planned: the pass.
        processes: that share the work.
    """
    precision = planned.settings.precision
    count = max(FEWEST_IMAGES, len(planned.samples) // PART)
    part = None if precision == "fp32" else planned.first(min(count, MOST_BATCHES * planned.settings.batch_size))
    if part is None:
        return None
    tallies, predictions = zip(*(_measured(part, own, processes) for own in (precision, "fp32")), strict=True)
    if not tallies[0].ids:
        return None
    shares = [part.task.disagreement(*pair) for pair in zip(*predictions, strict=True)]
    of_all = [share for shares_of_one in processes.gather(shares) for share in shares_of_one]
    ours, theirs = (Scores(part.scoring, part.scored(tallied), part.settings.seed) for tallied in tallies)
    images, changes, _ = measured_differences(ours, theirs, statistics_of(part, ours), {})
    return PrecisionCheck(precision, images, sum(of_all) / max(1, len(of_all)), changes)


def _measured(part: Pass, precision: Precision, processes: Processes) -> tuple[Tallied, list[Any]]:
    """What a pass gives in a precision, with all predictions of this process."""
    predictions: list[Any] = []
    own = replace(part, settings=replace(part.settings, precision=precision), told=predictions.extend)
    with own.asking(gradients=True):
        return own.run(processes, None, None), predictions
