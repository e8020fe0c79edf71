"""What a pass over samples gave: the tallies of every sample in every cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from robustvit.corruptions.conditions import Condition
from robustvit.runtime.stored_work import Part
from robustvit.tasks.tallies import Tallies

__all__ = ["CHANGES", "Tallied"]

CHANGES = ("largest_change", "change_norm", "changed_pixels")
"""How large a perturbation is: the largest change of a value, the L2 norm over all values, the share of changed pixels."""


@dataclass(frozen=True)
class Tallied:
    """N samples in C cells.

    Attributes:
        ids: of the samples.
        cells: what the samples met.
        rows: one entry per cell, with the tallies of the samples that belong to it.
        skipped: (id, reason) of samples that could not be read.
        changes: float32 [C, N, 3], the `CHANGES` that attacks made; 0 elsewhere.
        present: bool [C, N], which samples belong to a cell, by default all.
    """

    ids: list[str]
    cells: tuple[Condition, ...]
    rows: tuple[Tallies, ...]
    skipped: list[tuple[str, str]] = field(default_factory=list)
    changes: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, len(CHANGES)), np.float32))
    present: np.ndarray = field(default_factory=lambda: np.ones((0, 0), bool))

    def __post_init__(self) -> None:
        shape = (len(self.cells), len(self.ids))
        if self.changes.shape != (*shape, len(CHANGES)):
            object.__setattr__(self, "changes", np.zeros((*shape, len(CHANGES)), np.float32))
        if self.present.shape != shape:
            object.__setattr__(self, "present", np.ones(shape, bool))

    def row(self, condition: Condition) -> Tallies:
        """The tallies in one cell."""
        return self.rows[self.cells.index(condition)]

    def spread(self, cell: int, values: np.ndarray) -> np.ndarray:
        """Values of the samples of a cell [n] -> [N], with NaN for the samples that do not belong to it."""
        found = np.full(len(self.ids), np.nan)
        found[self.present[cell]] = values
        return found

    def of(self, ids: Sequence[str]) -> Tallied:
        """Only these samples, in this order."""
        places = {name: i for i, name in enumerate(self.ids)}
        chosen = np.array([places[name] for name in ids], np.int64)
        within = np.cumsum(self.present, axis=1) - 1  # where a sample stands in the row of a cell that it belongs to
        rows = tuple(row.of(within[i, chosen[self.present[i, chosen]]]) for i, row in enumerate(self.rows))
        return replace(self, ids=list(ids), rows=rows, changes=self.changes[:, chosen], present=self.present[:, chosen])

    def only(self, condition: Condition) -> Tallied:
        """The same samples in one cell."""
        i = self.cells.index(condition)
        own = slice(i, i + 1)
        return replace(self, cells=(condition,), rows=self.rows[own], changes=self.changes[own], present=self.present[own])

    def beside(self, other: Tallied) -> Tallied:
        """The same samples in the cells of both."""
        skipped = [*self.skipped, *other.skipped]
        arrays = [np.concatenate(pair) for pair in ((self.changes, other.changes), (self.present, other.present))]
        return Tallied(self.ids, (*self.cells, *other.cells), (*self.rows, *other.rows), skipped, *arrays)

    @staticmethod
    def join(parts: Sequence[Tallied], cells: tuple[Condition, ...]) -> Tallied:
        """Of several batches, in the same cells."""
        rows = tuple(Tallies.join([part.rows[i] for part in parts]) for i in range(len(cells)))
        empty = np.zeros((len(cells), 0, len(CHANGES)), np.float32)
        return Tallied(
            ids=[name for part in parts for name in part.ids],
            cells=cells,
            rows=rows,
            skipped=[entry for part in parts for entry in part.skipped],
            changes=np.concatenate([empty, *(part.changes for part in parts)], axis=1),
            present=np.concatenate([np.ones((len(cells), 0), bool), *(part.present for part in parts)], axis=1),
        )

    def to_part(self) -> Part:
        """For `StoredWork`."""
        arrays = {f"{i}:{name}": array for i, row in enumerate(self.rows) for name, array in row.arrays.items()}
        return Part({"ids": self.ids, "skipped": self.skipped}, {**arrays, "changes": self.changes})

    @staticmethod
    def from_part(part: Part, cells: tuple[Condition, ...]) -> Tallied:
        ids = list(part.values["ids"])
        arrays: list[dict[str, np.ndarray]] = [{} for _ in cells]
        for key, array in part.arrays.items():
            place, colon, name = key.partition(":")
            if colon:
                arrays[int(place)][name] = array
        rows = tuple(Tallies(len(ids), named) for named in arrays)
        if any(not row.arrays for row in rows) and ids:
            raise ValueError("a cell is missing")
        skipped = [(name, reason) for name, reason in part.values["skipped"]]
        return Tallied(ids, cells, rows, skipped, part.arrays["changes"])
