"""How a training run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustvit.metrics.measures import Measure
from robustvit.runtime.interruption import StoppedInOrder

__all__ = ["TrainingResult"]


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended.

    Attributes:
        folder: with all its files.
        updates_done, updates: fewer where it was interrupted.
        measure: the primary one of the task, in which the scores are: of a classifier, the accuracy.
        score: of the last validation, of the averaged weights where there are any; None without validation.
        best_score: of the network in FOLDER/best.
        unreadable: training images that could not be read, with the reason.
        notes: what a reader should know, e.g. checkpoints that were passed over.
        is_validation_due: the last validation was interrupted; a resumed run begins with it.
    """

    folder: Path
    updates_done: int
    updates: int
    measure: Measure
    score: float | None
    best_score: float | None
    unreadable: Mapping[str, str]
    notes: tuple[str, ...] = ()
    is_validation_due: bool = False

    @property
    def accuracy(self) -> float | None:
        """The score of a classifier."""
        return self.score

    @property
    def best_accuracy(self) -> float | None:
        """The best score of a classifier."""
        return self.best_score

    def to_json(self) -> dict[str, Any]:
        """As summary.json has it, where scores are called as the measure: `accuracy`, `best_accuracy`."""
        scores = {self.measure.key: self.score, f"best_{self.measure.key}": self.best_score}
        done = {"folder": self.folder, "updates_done": self.updates_done, "updates": self.updates}
        rest = {"unreadable": self.unreadable, "notes": self.notes, "is_validation_due": self.is_validation_due}
        return {**done, **scores, **rest, "finished": self.is_finished}

    @property
    def is_finished(self) -> bool:
        return self.updates_done >= self.updates and not self.is_validation_due

    def check_finished(self) -> None:
        """For callers who go on with the trained network.

        Raises:
            StoppedInOrder: a signal ended the run early; another call with `resume` goes on.
        """
        if not self.is_finished:
            raise StoppedInOrder
