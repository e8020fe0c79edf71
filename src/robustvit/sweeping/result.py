"""The results of a sweep: every cell with its numbers, and mean and spread over the seeds.

`sweep.json` has all of it, `sweep.csv` one row per cell, `sweep.md` is the table, `sweep.png` and `sweep.svg` are the figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

from robustvit.metrics.measures import corrupted_accuracies, in_ranking_order, measures
from robustvit.sweeping.grid import Axis

__all__ = ["Row", "Spread", "State", "SweepCell", "SweepResult"]

State = Literal["done", "failed", "waiting"]


@dataclass(frozen=True)
class SweepCell:
    """One run.

    Attributes:
        settings: varied name -> value.
        seed: of the run.
        folder: of the run, below the folder of the sweep.
        state: "done", "failed", or "waiting" for its turn.
        numbers: key of a measure -> value; empty unless it is done.
        reason: why it failed.
        version: of this package that made its numbers; empty while it is waiting.
    """

    settings: Mapping[str, Any]
    seed: int
    folder: Path
    state: State = "waiting"
    numbers: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    version: str = ""


@dataclass(frozen=True)
class Spread:
    """A number over the seeds: its mean, its sample standard deviation (None for one seed), and how many seeds there are."""

    mean: float
    deviation: float | None
    count: int

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        return Spread(mean(values), stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True)
class Row:
    """All seeds of one combination of values.

    Attributes:
        settings: varied name -> value.
        cells: one per seed.
        numbers: key of a measure -> mean and spread over the seeds that have it.
    """

    settings: Mapping[str, Any]
    cells: tuple[SweepCell, ...]
    numbers: Mapping[str, Spread]

    def count(self, state: State) -> int:
        return sum(cell.state == state for cell in self.cells)


@dataclass(frozen=True)
class SweepResult:
    """What `sweep` returns.

    Attributes:
        recipe: as it was given; None for the defaults.
        changes: of all cells.
        twin: whether it is the recipe's CPU-size twin.
        axes: what was varied.
        seeds: of the runs.
        evaluation: what was measured: data (None for the recipe's own data.val), suites, limit, batch_size.
        cells: every run, in the order of the grid.
        versions: of this package and those it stands on.
    """

    recipe: str | None
    changes: tuple[str, ...]
    twin: bool
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    evaluation: Mapping[str, Any]
    cells: tuple[SweepCell, ...]
    versions: Mapping[str, str]

    @property
    def rows(self) -> list[Row]:
        """Mean and spread of each combination of values."""
        size = len(self.seeds)  # the seeds of a combination stand together
        return [_row(self.cells[start : start + size]) for start in range(0, len(self.cells), size)]

    @property
    def failed(self) -> list[SweepCell]:
        return [cell for cell in self.cells if cell.state == "failed"]

    @property
    def is_finished(self) -> bool:
        """Whether every cell is done."""
        return all(cell.state == "done" for cell in self.cells)

    @property
    def makers(self) -> list[str]:
        """The versions of this package that made the cells; numbers of several need not be comparable."""
        return sorted({cell.version for cell in self.cells if cell.version})

    @property
    def columns(self) -> list[str]:
        """The numbers that tables and figures show: clean, corrupted, retention, both over other sets, then further suites."""
        found = dict.fromkeys(name for cell in self.cells for name in cell.numbers)
        corrupted = [name for name in corrupted_accuracies() if name in found][:1]
        exact = [m for m in measures() if m.family in ("corruption", "retention") and m.refines and not m.is_detail]
        further = [measure.key for measure in in_ranking_order() if measure.family in ("shift", "sequence")]
        wanted = ["clean_accuracy", *corrupted, "retention", *(m.key for m in exact), "mean_corruption_error", *further]
        twice = {m.refines for m in exact if m.key in found and self._are_equal(m.key, m.refines)}
        return [name for name in dict.fromkeys(wanted) if name in found and name not in twice] or list(found)

    def _are_equal(self, name: str, other: str) -> bool:
        return all(cell.numbers.get(name) == cell.numbers.get(other) for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        """Plain values for sweep.json."""
        return {
            "recipe": self.recipe,
            "set": list(self.changes),
            "twin": self.twin,
            "vary": {axis.name: list(axis.values) for axis in self.axes},
            "seeds": list(self.seeds),
            "evaluation": dict(self.evaluation),
            "finished": self.is_finished,
            "cells": [{**asdict(cell), "folder": str(cell.folder)} for cell in self.cells],
            "rows": [
                {"settings": row.settings, "numbers": {name: asdict(spread) for name, spread in row.numbers.items()}}
                for row in self.rows
            ],
            "definitions": {
                **{m.key: m.meaning for m in measures() if any(m.key in cell.numbers for cell in self.cells)},
                "mean": "Over the seeds whose cells are done.",
                "deviation": "Sample standard deviation over these seeds (divided by their number less one).",
            },
            "versions": dict(self.versions),
        }


def _row(cells: Sequence[SweepCell]) -> Row:
    names = dict.fromkeys(name for cell in cells for name in cell.numbers)
    found = {name: [cell.numbers[name] for cell in cells if name in cell.numbers] for name in names}
    return Row(cells[0].settings, tuple(cells), {name: Spread.of(values) for name, values in found.items()})
