"""Suites with conditions of their own, as the fog, night, rain and snow of ACDC: each by itself, for one network or several.

Their cells are called "SUITE CONDITION", and that of all images together "SUITE".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from robustvit.evaluation.results import CellResult, ModelResults, Value
from robustvit.metrics.measures import measure_of
from robustvit.report.charts import PLAIN, Bar, bars
from robustvit.report.comparison import in_order, marked
from robustvit.report.differences import GroupTable
from robustvit.report.figures import Panel
from robustvit.report.numbers import condition_label, percent

__all__ = ["ALL_IMAGES", "cell_label", "condition_panels", "condition_tables", "own_conditions", "own_label"]

ALL_IMAGES = "all images"


def own_conditions(names: Iterable[str], suite: str) -> list[str]:
    """Those of these conditions that are a suite's own, then that of all its images; empty where it has none."""
    found = list(names)
    own = [name for name in found if name.startswith(f"{suite} ")]
    return [*own, *([suite] if suite in found else [])] if own else []


def cell_label(cell: CellResult, model: ModelResults) -> str:
    """What the page calls the condition of a cell, beside its suite."""
    own = own_conditions((c.condition for c in model.cells if c.suite == cell.suite), cell.suite)
    return own_label(cell.condition, cell.suite) if cell.condition in own else condition_label(cell.condition, ())


def own_label(condition: str, suite: str) -> str:
    """What the page calls one of `own_conditions`."""
    return ALL_IMAGES if condition == suite else condition_label(condition, [suite])


def condition_panels(model: ModelResults, place: int) -> tuple[Panel, ...]:
    """For each suite with conditions of its own: bars with intervals.

    Args:
        model: the network.
        place: number of its colour.
    """
    label, panels = measure_of(model.primary).label, []
    for suite, cells in _suites(model).items():
        rows = []
        for cell in cells.values():
            value, series = cell.main or Value(math.nan), PLAIN if cell.condition == suite else place
            rows.append(Bar(own_label(cell.condition, suite), value.value, value.low, value.high, series=series))
        told = ", ".join(f"{row.label} {percent(row.value)}" for row in rows)
        panels.append(Panel(suite, "", bars(rows, f"{label} of {suite}: {told}", top=1.0)))
    return tuple(panels)


def condition_tables(models: Sequence[ModelResults]) -> list[GroupTable]:
    """For each suite with conditions of its own: network x condition, with intervals."""
    ordered, tables = in_order(models), []
    found = {place: _suites(model) for place, model in ordered}
    for suite in dict.fromkeys(suite for suites in found.values() for suite in suites):
        members = [(place, model) for place, model in ordered if suite in found[place]]
        names = list(dict.fromkeys(name for place, _ in members for name in found[place][suite]))
        columns = [marked([_value(found[place][suite].get(name)) for place, _ in members]) for name in names]
        rows = tuple((*pair, tuple(column[k] for column in columns)) for k, pair in enumerate(members))
        tables.append(GroupTable(suite, tuple(own_label(name, suite) for name in names), rows))
    return tables


def _value(cell: CellResult | None) -> Value | None:
    return cell.main if cell else None


def _suites(model: ModelResults) -> dict[str, dict[str, CellResult]]:
    """Suite with conditions of its own -> condition -> its cell."""
    found: dict[str, dict[str, CellResult]] = {}
    for suite in dict.fromkeys(cell.suite for cell in model.cells):
        cells = {cell.condition: cell for cell in model.cells if cell.suite == suite}
        if own := own_conditions(cells, suite):
            found[suite] = {name: cells[name] for name in own}
    return found
