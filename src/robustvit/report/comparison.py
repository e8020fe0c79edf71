"""The numbers of the summaries as cards, and several networks side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from robustvit.attacks.attack import score_key
from robustvit.attacks.registry import ATTACKS
from robustvit.evaluation.results import ModelResults, Results, Value
from robustvit.metrics.measures import SHARE, Unit, base_key, corrupted_accuracies, in_display_order, measure_of
from robustvit.report.attacks import attack_label
from robustvit.report.charts import PLAIN, Bar, Series, bars, curves, gauge
from robustvit.report.figures import (
    Heat,
    HeatRow,
    Panel,
    heat_cell,
    heat_scale,
    last_number,
    main_number,
    sequence_label,
    sequence_measure,
    severity_points,
    severity_ticks,
)
from robustvit.report.grids import Grid, grids_of, sequence_cells
from robustvit.report.headline import rank, ranking_measure
from robustvit.report.numbers import interval, is_number, mean, percent, quantity, quantity_interval, words

__all__ = [
    "Card",
    "Entry",
    "Ranking",
    "cards",
    "compared_curves",
    "compared_heats",
    "compared_sequences",
    "detail_names",
    "detail_table",
    "in_order",
    "marked",
    "overview",
    "ranking",
    "shared_grids",
    "stars",
    "summary_names",
]


@dataclass(frozen=True)
class Card:
    """One number of a summary, with its interval in words and as a drawing."""

    name: str
    label: str
    text: str
    interval: str
    is_lower_better: bool
    chart: Markup | None


@dataclass(frozen=True)
class Entry:
    """A number in the table of networks. `order` sorts it."""

    text: str
    interval: str
    is_best: bool
    order: float | None


@dataclass(frozen=True)
class Ranking:
    """The table of networks: (name, label, whether lower is better) of the columns; (place, network, numbers) of the rows."""

    columns: tuple[tuple[str, str, bool], ...]
    rows: tuple[tuple[int, ModelResults, tuple[Entry, ...]], ...]


@dataclass(frozen=True)
class Overview:
    """Clean, corrupted and attacked accuracy of one network."""

    place: int
    name: str
    chart: Markup


def detail_names(models: Sequence[ModelResults]) -> list[str]:
    """The numbers of the summaries that only say more about others, in the order of the page."""
    return in_display_order(dict.fromkeys(n for model in models for n in model.summary if measure_of(n).is_detail))


def detail_table(models: Sequence[ModelResults]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(label, a text for each network) of `detail_names`."""
    return tuple(
        (measure_of(name).label, tuple(quantity(name, _number(model.summary.get(name))) for model in models))
        for name in detail_names(models)
    )


def summary_names(models: Sequence[ModelResults]) -> list[str]:
    """All other numbers of the summaries, in the order of the page."""
    found = dict.fromkeys(n for model in models for n in model.summary if not measure_of(n).is_detail)
    for exact in [name for name in found if measure_of(name).refines]:
        vague = exact.replace(base_key(exact), measure_of(exact).refines)
        if all(exact in m.summary and m.summary[exact] == m.summary.get(vague) for m in models):
            found.pop(vague, None)  # the same number under its more exact name
    return in_display_order(found)


def cards(model: ModelResults) -> tuple[Card, ...]:
    """The summary of one network."""
    return tuple(_card(name, model.summary[name]) for name in summary_names([model]))


def _card(name: str, value: Value) -> Card:
    measure = measure_of(name)
    reach = quantity_interval(name, value)
    fits = is_number(value.value) and 0 <= value.value <= 1 and measure.unit.symbol == "%"
    chart = gauge(value.value, value.low, value.high, f"{measure.label}: {percent(value.value)} {reach}") if fits else None
    return Card(name, measure.label, quantity(name, value.value), reach, not measure.higher_is_better, chart)


def in_order(models: Sequence[ModelResults]) -> list[tuple[int, ModelResults]]:
    """(place as given, network), best first."""
    measure = ranking_measure(models)
    ranked = rank(models, measure) if measure else list(models)
    places = {id(model): place for place, model in enumerate(models)}
    return [(places[id(model)], model) for model in ranked]


def ranking(models: Sequence[ModelResults]) -> Ranking:
    """All summaries in one table, the best of each column marked."""
    names = summary_names(models)
    ordered = in_order(models)
    entries = [_ranked(name, [model.summary.get(name) for _, model in ordered]) for name in names]
    columns = tuple((name, measure_of(name).label, not measure_of(name).higher_is_better) for name in names)
    rows = tuple((*pair, tuple(column[k] for column in entries)) for k, pair in enumerate(ordered))
    return Ranking(columns, rows)


def _ranked(name: str, values: Sequence[Value | None]) -> tuple[Entry, ...]:
    """One number of several networks, the best marked."""
    measure, numbers = measure_of(name), [_number(value) for value in values]
    best = stars(numbers, measure.unit, higher=measure.higher_is_better)
    texts = ((quantity(name, n), quantity_interval(name, v)) for n, v in zip(numbers, values, strict=True))
    return tuple(Entry(*text, star, n) for text, star, n in zip(texts, best, numbers, strict=True))


def marked(values: Sequence[Value | None]) -> tuple[Entry, ...]:
    """One share of several networks, the best marked."""
    numbers = [_number(value) for value in values]
    texts = ((percent(n), interval(v)) for n, v in zip(numbers, values, strict=True))
    return tuple(Entry(*text, star, n) for text, star, n in zip(texts, stars(numbers), numbers, strict=True))


def _number(value: Value | None) -> float | None:
    return value.value if value and is_number(value.value) else None


def stars(numbers: Sequence[float | None], unit: Unit = SHARE, *, higher: bool = True) -> tuple[bool, ...]:
    """Which of these numbers are the best, as a reader sees them in this unit; none where all look equal."""
    shown = [round(unit.factor * n, unit.digits) if n is not None and is_number(n) else None for n in numbers]
    kept = {n for n in shown if n is not None}
    best = None if len(kept) < 2 else max(kept) if higher else min(kept)
    return tuple(n is not None and n == best for n in shown)


def overview(models: Sequence[ModelResults]) -> tuple[Overview, ...]:
    """Bars of clean, corrupted and attacked accuracy for each network, best first."""
    mean_name = next((name for name in corrupted_accuracies() if any(name in model.summary for model in models)), None)
    shown = []
    for place, model in in_order(models):
        values = [("clean", model.clean, PLAIN)]
        if mean_name:
            values.append(("corrupted", model.summary.get(mean_name), place))
        values += [(attack_label(name), model.summary.get(score_key(name, model.primary)), place) for name in ATTACKS]
        rows = [Bar(label, v.value, v.low, v.high, series=series) for label, v, series in values if v is not None]
        told = ", ".join(f"{row.label} {percent(row.value)}" for row in rows)
        if rows:
            shown.append(Overview(place, model.name, bars(rows, f"{model.name}: {told}", top=1.0)))
    return tuple(shown)


def shared_grids(models: Sequence[ModelResults]) -> dict[tuple[str, ...], list[tuple[int, ModelResults, Grid]]]:
    """Suites -> the networks that have a grid of them."""
    shared: dict[tuple[str, ...], list[tuple[int, ModelResults, Grid]]] = {}
    for place, model in enumerate(models):
        for grid in grids_of(model):
            shared.setdefault(grid.suites, []).append((place, model, grid))
    return shared


def compared_curves(models: Sequence[ModelResults]) -> list[tuple[str, tuple[Panel, ...]]]:
    """For each grid: curves over severity, one line per network, over all corruptions and by group."""
    figures = []
    for suites, members in shared_grids(models).items():
        ticks = severity_ticks(grid for _, _, grid in members)
        groups = dict.fromkeys(group for _, _, grid in members for group in grid.groups)
        kinds = [EVERYTHING, *groups] if len(groups) > 1 else [*groups]
        figures.append((", ".join(suites), tuple(_curve_panel(kind, members, ticks) for kind in kinds)))
    return figures


def _curve_panel(kind: str, members: Sequence[tuple[int, ModelResults, Grid]], ticks: Sequence[tuple[int, str]]) -> Panel:
    lines = []
    for place, model, grid in members:
        names = _at_all(grid) if kind == EVERYTHING else grid.groups.get(kind, ())
        points = severity_points(grid, names, ticks)
        lines.append(Series(model.name, points, place, percent(last_number(points)) if len(members) <= CROWD else ""))
    if kind == EVERYTHING and any(_at_all(grid) is not None for _, _, grid in members):
        kind = "corruptions with all severities"
    told = "; ".join(f"{line.name}: {', '.join(percent(y) for _, y in line.points)}" for line in lines)
    return Panel(kind, "", curves(lines, ticks, f"Over severity, {kind}. {told}"))


def _at_all(grid: Grid) -> list[str] | None:
    """The corruptions with all severities of a grid, as a mean over others at each severity would jump; None for all."""
    whole = [name for name in grid.corruptions if all((name, s) in grid.cells for s in grid.severities)]
    return whole if 0 < len(whole) < len(grid.corruptions) else None


EVERYTHING = "all corruptions"
CROWD = 6
"""With more networks than this, curves have no numbers at their ends."""


def compared_heats(results: Results, top: float) -> list[tuple[str, Heat]]:
    """For each grid: corruption x network, averaged over severities."""
    return [(", ".join(suites), _compared_heat(members, top)) for suites, members in shared_grids(results.models).items()]


def _compared_heat(members: Sequence[tuple[int, ModelResults, Grid]], top: float) -> Heat:
    def row(label: str, corruptions: Sequence[str] | None) -> HeatRow:
        values = [grid.mean(corruptions) for _, _, grid in members]
        return HeatRow(
            label,
            tuple(
                heat_cell(v, top, f"{model.name}, {label}", star)
                for v, star, (_, model, _) in zip(values, stars(values), members, strict=True)
            ),
        )

    groups: dict[str, dict[str, None]] = {}
    for _, _, grid in members:
        for group, names in grid.groups.items():
            groups.setdefault(group, {}).update(dict.fromkeys(names))
    return Heat(
        columns=tuple(model.name for _, model, _ in members),
        groups=tuple((group, tuple(row(words(name), [name]) for name in names)) for group, names in groups.items()),
        foot=row("mean", None),
        scale=heat_scale(top),
    )


def compared_sequences(models: Sequence[ModelResults]) -> list[tuple[str, tuple[tuple[str, bool], ...]]]:
    """(sequence type, (main number, whether it is the best) of each network), and the mean at the end."""
    found: dict[str, dict[int, float | None]] = {}
    for place, model in enumerate(models):
        for cell in sequence_cells(model):
            found.setdefault(sequence_label(cell), {})[place] = main_number(cell)
    if not found:
        return []
    averages = {place: mean(row.get(place) for row in found.values()) for place in range(len(models))}
    table = []
    for label, row in [*found.items(), ("mean", averages)]:
        values = [row.get(place) for place in range(len(models))]
        best = stars(values, higher=sequence_measure(models).higher_is_better)
        table.append((label, tuple((percent(v), star) for v, star in zip(values, best, strict=True))))
    return table
