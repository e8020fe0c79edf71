"""What `robustvit eval` prints below the summary: by corruption or condition, and by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from robustvit.evaluation.results import Measurement, ModelResults, Results, Value
    from robustvit.tasks.per_class import ClassResult

__all__ = ["detail_numbers", "detail_tables", "has_own_class_measure"]

MOST_CLASSES = 30
"""That are printed; classes.csv has all."""
MOST_COLUMNS = 8
"""Of numbers, in the table of the classes; with more, every network has a table of its own."""


def has_own_class_measure(results: Results) -> bool:
    """Whether single classes have another measure than the whole, as IoU is to mIoU: then a total without them says little."""
    measured = (one for model in results.models for part in model.measurements for one in part.class_accuracies)
    return any(key != results.primary for one in measured for key in one.measures)


def detail_numbers(results: Results) -> Iterator[Group]:
    """The numbers of the summary that only say more about others, where there are any."""
    from robustvit.report.comparison import detail_table

    if rows := detail_table(results.models):
        table = _table([model.name for model in results.models])
        for label, texts in rows:
            table.add_row(label, *texts)
        yield _titled("Further numbers", table)


def detail_tables(results: Results) -> Iterator[Group]:
    """For each measurement: corruptions (the mean over severities) or other conditions, and up to `MOST_CLASSES` classes."""
    several = len(results.models[0].measurements) > 1
    for place, first in enumerate(results.models[0].measurements):
        parts = [model.measurements[place] for model in results.models]
        where = f" ({', '.join(first.suites)})" if several else ""
        rows = _by_condition(results, parts, first.suites)
        if len(rows) > 1:
            yield _condition_table(results, rows, first, where)
        yield from _class_tables([model.name for model in results.models], parts, where)


def _by_condition(results: Results, parts: Sequence[Measurement], suites: Sequence[str]) -> dict[str, list[Value | None]]:
    """Condition -> the primary measure of each network: clean, corruptions, and conditions without severity."""
    cells = [_cells(model, suites, results.primary) for model in results.models]
    found = [{**own, **part.corruption_accuracies} for own, part in zip(cells, parts, strict=True)]
    return {name: [one.get(name) for one in found] for name in dict.fromkeys(name for one in found for name in one)}


def _cells(model: ModelResults, suites: Sequence[str], primary: str) -> dict[str, Value]:
    """Of conditions without severity, clean images first."""
    cells = [cell for cell in model.cells if cell.suite in suites and not cell.severity and primary in cell.values]
    return {cell.condition: cell.values[primary] for cell in sorted(cells, key=lambda cell: cell.condition != "clean")}


def _condition_table(results: Results, rows: dict[str, list[Value | None]], measured: Measurement, where: str) -> Group:
    from robustvit.metrics.measures import measure_of
    from robustvit.report.numbers import quantity

    by = "corruption, mean over severities" if measured.corruption_accuracies else "condition"
    table = _table([model.name for model in results.models])
    for name, label in zip(rows, _labels(list(rows), measured.suites), strict=True):
        table.add_row(label, *(quantity(results.primary, value.value) if value else "" for value in rows[name]))
    return _titled(f"{measure_of(results.primary).label} by {by}{where}", table)


def _labels(conditions: Sequence[str], suites: Sequence[str]) -> list[str]:
    """What conditions are called. One named like a suite that has others besides, as "acdc" and "acdc fog", is all of them."""
    from robustvit.report.numbers import condition_label

    wholes = {name for name in conditions if any(other.startswith(f"{name} ") for other in conditions)} & set(suites)
    return ["all images" if name in wholes else condition_label(name, suites) for name in conditions]


def _class_tables(names: Sequence[str], parts: Sequence[Measurement], where: str) -> Iterator[Group]:
    """All networks in one table, or each in its own where that would be too wide."""
    from robustvit.metrics.measures import measure_of

    known = {name: part.class_accuracies for name, part in zip(names, parts, strict=True)}
    shown = {name: {one.name: one for one in classes if one.images} for name, classes in known.items()}
    if not 0 < max(map(len, shown.values())) <= MOST_CLASSES:
        return
    conditions = list(dict.fromkeys(name for classes in shown.values() for one in classes.values() for name in one.values))
    is_narrow = len(names) * len(conditions) <= MOST_COLUMNS
    for group in [names] if is_narrow else [[name] for name in names]:
        alone = f", {group[0]}" if len(names) > 1 and not is_narrow else ""
        absent = max(len(known[name]) - len(shown[name]) for name in group)
        told = f"{'1 class is' if absent == 1 else f'{absent} classes are'} in no image" if absent else ""
        key = next(key for name in group for one in shown[name].values() for key in one.measures)
        table = _class_table({name: shown[name] for name in group}, conditions, parts[0].suites, key)
        yield _titled(f"{measure_of(key).label} by class{where}{alone}", table, told)


def _class_table(
    shown: dict[str, dict[str, ClassResult]], conditions: Sequence[str], suites: Sequence[str], key: str
) -> Table:
    """One row per class, in the measure `key`; a column per network and condition."""
    from robustvit.report.numbers import quantity

    every = {name: one for classes in reversed(shown.values()) for name, one in classes.items()}
    labels = _labels(conditions, suites)
    headings = labels if len(shown) == 1 else [f"{name}\n{label}" for name in shown for label in labels]
    table = _table(["images", *headings])
    for name, one in every.items():
        own = [classes.get(name) for classes in shown.values()]
        numbers = [found.number(condition, key) if found else None for found in own for condition in conditions]
        table.add_row(name, str(one.images), *(quantity(key, number) for number in numbers))
    return table


def _table(columns: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(header_style="bold", pad_edge=False)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    return table


def _titled(title: str, table: Table, remark: str = "") -> Group:
    """The table below its title, which may be wider; and a remark."""
    from rich.console import Group
    from rich.text import Text

    return Group(Text(title, style="bold"), table, *([Text(remark)] if remark else []))
