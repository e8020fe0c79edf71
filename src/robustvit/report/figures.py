"""The figures of one network: bars by corruption, the heat map, curves over severity, sequences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from robustvit.evaluation.results import CellResult, ModelResults, Results, Value
from robustvit.metrics.measures import SHARE, Measure, measure_of
from robustvit.report.charts import PLAIN, Bar, Series, bars, curves, heat_colours
from robustvit.report.grids import Grid, grids_of, sequence_cells
from robustvit.report.numbers import count, interval, is_number, mean, percent, points, quantity, words

__all__ = [
    "Heat",
    "HeatCell",
    "HeatRow",
    "Panel",
    "bar_panels",
    "extremes",
    "grid_heat",
    "heat_top",
    "last_number",
    "main_number",
    "sequence_bars",
    "sequence_measure",
    "severity_curves",
]


@dataclass(frozen=True)
class Panel:
    """A chart with a heading and a short remark."""

    title: str
    remark: str
    chart: Markup


@dataclass(frozen=True)
class HeatCell:
    """One cell: text, colours (empty without a number), what a pointer shows, and whether it is the best of its row."""

    text: str
    background: str = ""
    letters: str = ""
    detail: str = ""
    is_best: bool = False


@dataclass(frozen=True)
class HeatRow:
    """One row of a heat map."""

    label: str
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True)
class Heat:
    """A table with coloured cells.

    Attributes:
        columns: their headings.
        groups: (group, its rows).
        foot: the row of means; None where there is none.
        scale: (text, background, letters) of the legend.
    """

    columns: tuple[str, ...]
    groups: tuple[tuple[str, tuple[HeatRow, ...]], ...]
    foot: HeatRow | None
    scale: tuple[tuple[str, str, str], ...]


def heat_top(results: Results) -> float:
    """Where the colour scale ends: the best accuracy of all networks, the same for every heat map of a page."""
    numbers = [0.05]
    for grid in (grid for model in results.models for grid in grids_of(model)):
        numbers += [grid.clean.value] if grid.clean and is_number(grid.clean.value) else []
        numbers += [c.main.value for c in grid.cells.values() if c.main and is_number(c.main.value)]
    return max(numbers)


def heat_scale(top: float) -> tuple[tuple[str, str, str], ...]:
    """The legend of a heat map."""
    return tuple((percent(top * k / 4, 0), *heat_colours(top * k / 4, top)) for k in range(5))


def heat_cell(value: float | None, top: float, detail: str = "", is_best: bool = False) -> HeatCell:
    return HeatCell(percent(value, sign=False), *heat_colours(value, top), detail=detail, is_best=is_best)


def grid_heat(grid: Grid, top: float) -> Heat:
    """Corruption x severity with the means of rows and columns."""

    def row(corruption: str) -> HeatRow:
        cells = [heat_cell(grid.score(corruption, s), top, _detail(grid.cells.get((corruption, s)))) for s in grid.severities]
        average = grid.of_corruption(corruption)
        detail = f"{words(corruption)}, mean over severities"
        if reach := interval(average):
            detail += f", 95 % interval {reach}"
        return HeatRow(words(corruption), (*cells, heat_cell(average.value if average else None, top, detail)))

    foot = [heat_cell(grid.mean(severity=s), top, f"mean over corruptions, severity {s}") for s in grid.severities]
    return Heat(
        columns=(*(str(s) for s in grid.severities), "mean"),
        groups=tuple((group, tuple(row(name) for name in names)) for group, names in grid.groups.items()),
        foot=HeatRow("mean", (*foot, heat_cell(grid.mean(), top, "mean over all cells"))),
        scale=heat_scale(top),
    )


def bar_panels(grid: Grid) -> tuple[Panel, ...]:
    """A bar chart for each group: accuracy by corruption, averaged over severities, against the clean one."""
    clean = grid.clean.value if grid.clean and is_number(grid.clean.value) else None
    return tuple(_bar_panel(grid, group, names, clean) for group, names in grid.groups.items())


def _bar_panel(grid: Grid, group: str, names: Sequence[str], clean: float | None) -> Panel:
    values = {name: grid.of_corruption(name) or Value(math.nan) for name in names}
    rows = [Bar("clean", clean, *_reach(grid.clean), series=PLAIN)] if clean is not None else []
    rows += [Bar(words(name), v.value, *_reach(v), reference=clean, series=_series(group)) for name, v in values.items()]
    told = ", ".join(f"{words(name)} {percent(value.value)}" for name, value in values.items())
    remark = _group_remark(grid.of_group(group), clean)
    return Panel(group, remark, bars(rows, f"Under {group}, clean {percent(clean)}: {told}", top=1.0))


def _group_remark(average: Value | None, clean: float | None) -> str:
    """The mean of a group, its interval, and how far it is from clean."""
    if average is None:
        return f"mean {percent(None)}"
    reach = interval(average)
    remark = f"mean {percent(average.value)}" + (f" ({reach})" if reach else "")
    if clean is None or not is_number(average.value):
        return remark
    return f"{remark}, {100 * abs(clean - average.value):.1f} points {'below' if average.value <= clean else 'above'} clean"


_SERIES = {"noise": 0, "blur": 1, "weather": 2, "digital": 3}


def _series(group: str) -> int:
    return _SERIES.get(group, 4)


def _reach(value: Value | None) -> tuple[float | None, float | None]:
    return (value.low, value.high) if value else (None, None)


def severity_ticks(grids: Iterable[Grid]) -> list[tuple[int, str]]:
    """The steps of curves: clean where it is known, then the severities."""
    found = list(grids)
    severities = sorted({s for grid in found for s in grid.severities})
    clean = any(grid.clean and is_number(grid.clean.value) for grid in found)
    return [(0, "clean")] * clean + [(s, str(s)) for s in severities]


def severity_points(
    grid: Grid, corruptions: Sequence[str] | None, ticks: Sequence[tuple[int, str]]
) -> tuple[tuple[int, float | None], ...]:
    """The curve of these corruptions (None: all), starting at the clean accuracy."""
    clean = grid.clean.value if grid.clean else None
    return tuple((x, clean if x == 0 else grid.mean(corruptions, x)) for x, _ in ticks)


def last_number(points: Sequence[tuple[int, float | None]]) -> float | None:
    """Where a curve ends; of some corruptions the highest severities may not have been measured."""
    return next((y for _, y in reversed(points) if is_number(y)), None)


def severity_curves(grid: Grid) -> Markup:
    """Accuracy over severity, one line per group."""
    ticks = severity_ticks([grid])
    lines = []
    for group, names in grid.groups.items():
        points = severity_points(grid, names, ticks)
        lines.append(Series(group, points, _series(group), f"{group} {percent(last_number(points), 0, sign=False)}"))
    told = "; ".join(f"{line.name} {' '.join(percent(y) for _, y in line.points)}" for line in lines)
    return curves(lines, ticks, f"Over severity ({', '.join(label for _, label in ticks)}): {told}", right=76.0)


def extremes(grid: Grid) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """(heading, (corruption, accuracy and loss)) of the corruptions that cost most and least, at most three each."""
    measured = [(value, name) for name in grid.corruptions if (value := grid.mean([name])) is not None]
    most = min(3, len(measured) // 2)
    if not most:
        return ()
    ordered = sorted(measured)
    clean = grid.clean.value if grid.clean and is_number(grid.clean.value) else None

    def told(value: float) -> str:
        return percent(value) + ("" if clean is None else f" ({points(value - clean)} points)")

    def listed(pairs: Sequence[tuple[float, str]]) -> tuple[tuple[str, str], ...]:
        return tuple((words(name), told(value)) for value, name in pairs)

    return ("Costs most", listed(ordered[:most])), ("Costs least", listed(ordered[: -most - 1 : -1]))


def sequence_bars(model: ModelResults) -> Markup | None:
    """The main number by sequence type, and their mean; None without sequences."""
    cells = sequence_cells(model)
    if not cells:
        return None
    rows = [Bar(sequence_label(cell), main_number(cell)) for cell in cells]
    rows.append(Bar("mean", mean(map(main_number, cells)), series=PLAIN))
    told = ", ".join(f"{row.label} {percent(row.value)}" for row in rows)
    return bars(rows, f"{sequence_measure([model]).label}: {told}")


def sequence_measure(models: Sequence[ModelResults]) -> Measure:
    """What sequences, which one of the networks has, are measured in."""
    return measure_of(next(iter(next(cell for model in models for cell in sequence_cells(model)).values)))


def main_number(cell: CellResult) -> float | None:
    """The value of the main measure of a cell."""
    return cell.main.value if cell.main else None


def sequence_label(cell: CellResult) -> str:
    return words(cell.condition) + (f" {cell.severity}" if cell.severity else "")


def _detail(cell: CellResult | None) -> str:
    if cell is None:
        return "not measured"
    parts = [f"{words(cell.condition)}, severity {cell.severity}: {percent(main_number(cell))}"]
    if reach := interval(cell.main):
        parts.append(f"95 % interval {reach}")
    further = [key for key in list(cell.values)[1:] if measure_of(key).unit is SHARE and not measure_of(key).is_detail]
    parts += [f"{measure_of(key).words} {quantity(key, cell.values[key].value)}" for key in further]
    return ", ".join([*parts, f"{count(cell.images)} images"])
