"""What cells are: the conditions under which a run measures its samples, and where each stands among the accuracies of a run.

A cell is (corruption, severity), or `CLEAN`. A `Statistic` turns the accuracies of all cells [..., cells] into a score [...],
so that it can be bootstrapped: the functions named `..._of` in the files of the metrics make one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robustvit.metrics.arrays import FloatArray

__all__ = ["CLEAN", "Cell", "CellAccuracy", "clean_accuracy_of", "positions_of"]

Cell = tuple[str, int]
CLEAN: Cell = ("clean", 0)


@dataclass(frozen=True)
class CellAccuracy:
    """The accuracy of the cell at `position`: a single proportion, for which `wilson_interval` is made."""

    position: int

    def __call__(self, accuracies: FloatArray) -> FloatArray:
        return accuracies[..., self.position]


def clean_accuracy_of(cells: Sequence[Cell]) -> CellAccuracy:
    """The accuracy of the clean cell."""
    return CellAccuracy(positions_of(cells, [CLEAN])[0])


def positions_of(cells: Sequence[Cell], wanted: Sequence[Cell]) -> list[int]:
    """Where the wanted cells stand.

    Raises:
        ValueError: some are missing; the message names them.
    """
    known = {cell: position for position, cell in enumerate(cells)}
    missing = [
        f"{name} at severity {severity}" if (name, severity) != CLEAN else "clean"
        for name, severity in wanted
        if (name, severity) not in known
    ]
    if missing:
        raise ValueError(f"{len(known)} cells were given and these are missing: {', '.join(missing)}")
    return [known[cell] for cell in wanted]
