"""How a training run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from robustvit.runtime.interruption import StoppedInOrder

__all__ = ["TrainingResult"]


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended.

    Attributes:
        folder: with all its files.
        updates_done, updates: fewer where it was interrupted.
        accuracy: of the last validation, of the averaged weights where there are any; None without validation.
        best_accuracy: of the network in FOLDER/best.
        unreadable: training pictures that could not be read, with the reason.
        notes: what a reader should know, e.g. checkpoints that were passed over.
        is_validation_due: the last validation was interrupted; a resumed run begins with it.
    """

    folder: Path
    updates_done: int
    updates: int
    accuracy: float | None
    best_accuracy: float | None
    unreadable: Mapping[str, str]
    notes: tuple[str, ...] = ()
    is_validation_due: bool = False

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
