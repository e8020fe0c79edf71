"""The cells of an evaluation, sorted into what the report draws: corruption x severity, sequences, and the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from robustvit.corruptions.registry import CORRUPTIONS, GROUPS
from robustvit.evaluation.attacking import ATTACK_SUITE
from robustvit.evaluation.results import CellResult, Measurement, ModelResults, Value
from robustvit.metrics.measures import SHARE, measure_of
from robustvit.report.numbers import mean

__all__ = ["Grid", "further_measures", "grids_of", "grouped", "other_cells", "sequence_cells"]


@dataclass(frozen=True)
class Grid:
    """Corruption x severity of one network.

    Attributes:
        suites: that measured it; several where they share no cell.
        clean: the primary measure on the same images without corruption, if it is known.
        cells: (corruption, severity) -> what was measured.
        sorted_into: "noise", "blur", ... -> its corruptions; others go by their own group.
        by_group: "noise", "blur", ... -> the mean with its interval, where that is known.
        by_corruption: corruption -> likewise, over its severities.
    """

    suites: tuple[str, ...]
    clean: Value | None
    cells: dict[tuple[str, int], CellResult]
    sorted_into: dict[str, tuple[str, ...]] = field(default_factory=dict)
    by_group: dict[str, Value] = field(default_factory=dict)
    by_corruption: dict[str, Value] = field(default_factory=dict)

    @cached_property
    def corruptions(self) -> tuple[str, ...]:
        """In the canonical order; unknown ones last."""
        known = {name: place for place, name in enumerate(CORRUPTIONS)}
        names = dict.fromkeys(name for name, _ in self.cells)
        return tuple(sorted(names, key=lambda name: known.get(name, len(known))))

    @cached_property
    def severities(self) -> tuple[int, ...]:
        return tuple(sorted({severity for _, severity in self.cells}))

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Group -> its corruptions, without empty groups."""
        return grouped(self.corruptions, self.sorted_into)

    def score(self, corruption: str, severity: int) -> float | None:
        """The primary measure in a cell."""
        cell = self.cells.get((corruption, severity))
        return cell.main.value if cell and cell.main else None

    def mean(self, corruptions: Sequence[str] | None = None, severity: int | None = None) -> float | None:
        """The primary measure, averaged over these corruptions (None: all), at one severity or over the measured ones."""
        names = self.corruptions if corruptions is None else corruptions
        if severity is not None:
            return mean(self.score(name, severity) for name in names)
        return mean(mean(self.score(name, s) for s in self.severities) for name in names)

    def of_group(self, group: str) -> Value | None:
        """The mean over a group, with its interval where that is known."""
        return self.by_group.get(group) or _plain(self.mean(self.groups.get(group, ())))

    def of_corruption(self, corruption: str) -> Value | None:
        """The mean over the severities, with its interval where that is known."""
        return self.by_corruption.get(corruption) or _plain(self.mean([corruption]))


def _plain(value: float | None) -> Value | None:
    return None if value is None else Value(value)


def grouped(corruptions: Sequence[str], known: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Group -> its corruptions, without empty groups.

    Args:
        corruptions: in the order that members of a group have.
        known: group -> corruptions, of the suite that measured them; others go by their own group.
    """
    own = {name: group for group, names in known.items() for name in names}
    found: dict[str, list[str]] = {group: [] for group in (*GROUPS, "other")}
    for name in corruptions:
        group = CORRUPTIONS[name].group if name in CORRUPTIONS else "other"
        found.setdefault(own.get(name, group), []).append(name)
    return {group: tuple(names) for group, names in found.items() if names}


def grids_of(model: ModelResults) -> tuple[Grid, ...]:
    """The grids of a network. Suites of the same measurement share one, unless they measured the same cells."""
    merged: list[tuple[Measurement | None, list[str], dict[tuple[str, int], CellResult]]] = []
    for suite in dict.fromkeys(cell.suite for cell in model.cells):
        cells = {(c.condition, c.severity): c for c in model.cells if c.suite == suite and _is_corruption(c, model)}
        if not cells:
            continue
        measured = next((m for m in model.measurements if suite in m.suites), None)
        place = next((known for known in merged if known[0] is measured and known[2].keys().isdisjoint(cells)), None)
        if place is None:
            merged.append((measured, [suite], cells))
        else:
            place[1].append(suite)
            place[2].update(cells)
    return tuple(_grid(model, measured, suites, cells) for measured, suites, cells in merged)


def _grid(
    model: ModelResults, measured: Measurement | None, suites: Sequence[str], cells: dict[tuple[str, int], CellResult]
) -> Grid:
    clean = _clean_of(model, suites)
    if measured is None:
        return Grid(tuple(suites), clean, cells)
    return Grid(tuple(suites), clean, cells, measured.groups, measured.group_accuracies, measured.corruption_accuracies)


def sequence_cells(model: ModelResults) -> tuple[CellResult, ...]:
    """Cells with a scoring of their own, not in the primary measure of the task: sequences, by flip probability."""
    return tuple(cell for cell in model.cells if _is_sequence(cell, model))


def other_cells(model: ModelResults) -> tuple[CellResult, ...]:
    """What is neither in a grid nor a sequence nor an attack: clean images, natural shifts, patches."""
    rest = (cell for cell in model.cells if cell.suite != ATTACK_SUITE and not _is_sequence(cell, model))
    return tuple(cell for cell in rest if not _is_corruption(cell, model))


def further_measures(models: Sequence[ModelResults]) -> list[str]:
    """Keys of the shares that clean and corrupted cells have besides the primary measure: of classifiers, calibration."""
    cells = [cell for model in models for cell in model.cells if not _is_sequence(cell, model) and cell.suite != ATTACK_SUITE]
    keys = dict.fromkeys(key for cell in cells for key in list(cell.values)[1:])  # the first is the primary one
    return [key for key in keys if measure_of(key).unit is SHARE and not measure_of(key).is_detail]


def _is_sequence(cell: CellResult, model: ModelResults) -> bool:
    return bool(cell.values) and model.primary not in cell.values


def _is_corruption(cell: CellResult, model: ModelResults) -> bool:
    return cell.severity > 0 and not _is_sequence(cell, model)


def _clean_of(model: ModelResults, suites: Sequence[str]) -> Value | None:
    clean = {cell.suite: cell.main for cell in model.cells if cell.condition == "clean" and cell.main}
    for suite in (*suites, "clean"):
        if suite in clean:
            return clean[suite]
    return model.clean
