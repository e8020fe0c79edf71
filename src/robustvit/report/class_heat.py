"""Which classes are lost first: classes x corruptions, coloured by how much of a class is left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robustvit.corruptions.registry import CORRUPTIONS
from robustvit.evaluation.results import Measurement, ModelResults
from robustvit.metrics.measures import measure_of
from robustvit.report.attacks import attack_label
from robustvit.report.charts import heat_colours
from robustvit.report.comparison import best_of, is_best
from robustvit.report.figures import Heat, HeatCell, HeatRow, heat_cell, heat_scale
from robustvit.report.grids import grouped
from robustvit.report.numbers import count, is_number, mean, percent, words
from robustvit.tasks.per_class import CORRUPTED, ClassResult

__all__ = ["ClassHeat", "class_heats", "compared_classes", "has_heat"]

MOST_ROWS = 40
"""Of more classes, those that lose most are shown."""
LEAST_TOP = 0.05
"""Where the colours end at least, so that noise between classes that are all lost has no colours."""
LEAST_CLEAN = 0.01
"""A class with less than this has nothing to lose."""


@dataclass(frozen=True)
class ClassHeat:
    """The classes of one measurement, those that lose the largest share first.

    Attributes:
        suites: of the measurement.
        caption: what numbers and colours are.
        measure: what the numbers are.
        groups: (group of corruptions, how many columns it has), over all columns.
        columns: their headings; the first two are plain numbers.
        rows: the classes.
        scale: (text, background, letters) of the legend.
    """

    suites: str
    caption: str
    measure: str
    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    scale: tuple[tuple[str, str, str], ...]


def has_heat(measured: Measurement) -> bool:
    """Whether the classes are known under every corruption."""
    return any(one.corruptions for one in measured.class_accuracies)


def class_heats(model: ModelResults) -> tuple[ClassHeat, ...]:
    """One for each measurement whose classes are known under every corruption."""
    return tuple(_heat(measured) for measured in model.measurements if has_heat(measured))


def _heat(measured: Measurement) -> ClassHeat:
    classes = sorted(measured.class_accuracies, key=_share_left)
    groups = _grouped(classes, measured.groups)
    names = [name for members in groups.values() for name in members]
    others = list(dict.fromkeys(name for one in classes for name in one.attacked or {}))
    top = _top(classes, [*names, CORRUPTED])
    measure = next(key for one in classes for key in one.measures)
    has_clean = any(one.clean is not None for one in classes)

    def row(one: ClassResult) -> HeatRow:
        spoiled = [_cell(one, name, top) for name in (*names, *others, CORRUPTED)]
        plain = (HeatCell(count(one.images)), HeatCell(percent(one.clean, sign=False)))
        left = HeatCell(percent(_left(one, one.corrupted), 0, sign=False))
        return HeatRow(one.name, (*plain, *spoiled, left) if has_clean else (plain[0], *spoiled))

    ends = ("clean",) if has_clean else ()
    return ClassHeat(
        suites=", ".join(measured.suites),
        caption=_caption(measure, len(classes), has_clean),
        measure=measure_of(measure).label,
        groups=(("", 1 + len(ends)), *((g, len(own)) for g, own in groups.items()), ("", len(others) + 1 + len(ends))),
        columns=("images", *ends, *map(words, names), *map(attack_label, others), "mean", *(("left",) if has_clean else ())),
        rows=tuple(map(row, classes[:MOST_ROWS])),
        scale=heat_scale(1.0 if has_clean else top),
    )


def _caption(key: str, classes: int, has_clean: bool) -> str:
    label = measure_of(key).label
    told = f"{label} of each class in percent, averaged over severities."
    order = " The classes that lose the largest share of it come first." if has_clean else " The lowest come first."
    colours = f" Colours and the last column say how much of the clean {label} is left." if has_clean else ""
    some = f" {MOST_ROWS} of {count(classes)} classes; all are in results.json." if classes > MOST_ROWS else ""
    return told + order + colours + some


def _grouped(classes: Sequence[ClassResult], groups: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Group -> its corruptions, in the canonical order."""
    known = {name: place for place, name in enumerate(CORRUPTIONS)}
    names = sorted(dict.fromkeys(name for one in classes for name in one.corruptions), key=lambda n: known.get(n, len(known)))
    return grouped(names, groups)


def _left(one: ClassResult, value: float | None) -> float | None:
    """The share of the clean number that a number is; None where there was nothing to lose."""
    return value / one.clean if value is not None and one.clean is not None and one.clean >= LEAST_CLEAN else None


def _share_left(one: ClassResult) -> tuple[bool, float, float]:
    """Sorts: what loses the largest share first, what had nothing to lose last; without clean numbers, the lowest first."""
    left = one.corrupted if one.clean is None else _left(one, one.corrupted)
    return (left is None, math.inf if left is None else left, one.clean or 0.0)


def _top(classes: Sequence[ClassResult], names: Sequence[str]) -> float:
    numbers = [one.number(name) for one in classes for name in names]
    return max([LEAST_TOP, *(number for number in numbers if number is not None and is_number(number))])


def _cell(one: ClassResult, condition: str, top: float) -> HeatCell:
    """A number of a class; coloured by the share of the clean one, where there is one."""
    value = one.number(condition)
    left = _left(one, value)
    shades = ("", "")
    if one.clean is None:
        shades = heat_colours(value, top)
    elif left is not None:
        shades = heat_colours(left, 1.0)
    told = "mean over corruptions" if condition == CORRUPTED else words(condition)
    detail = f"{one.name}, {told}: {percent(value)}" + (f", {percent(left, 0)} of clean" if left is not None else "")
    return HeatCell(percent(value, sign=False), *shades, detail=detail)


def compared_classes(models: Sequence[ModelResults]) -> list[tuple[str, str, Heat]]:
    """(suites, measure, class x network under corruption) for each measurement of several networks that has it."""
    shared: dict[tuple[str, ...], list[tuple[ModelResults, Measurement]]] = {}
    for model in models:
        for measured in model.measurements:
            if has_heat(measured):
                shared.setdefault(measured.suites, []).append((model, measured))
    return [(", ".join(suites), *_compared(members)) for suites, members in shared.items()]


def _compared(members: Sequence[tuple[ModelResults, Measurement]]) -> tuple[str, Heat]:
    tables = [{one.name: one for one in measured.class_accuracies} for _, measured in members]
    classes = list(dict.fromkeys(name for table in tables for name in table))
    measure = next(key for table in tables for one in table.values() for key in one.measures)
    numbers = {name: [table[name].corrupted if name in table else None for table in tables] for name in classes}
    top = max([LEAST_TOP, *(number for row in numbers.values() for number in row if number is not None)])

    def row(label: str, values: Sequence[float | None]) -> HeatRow:
        best = best_of(values)
        told = [f"{model.name}, {label}" for model, _ in members]
        cells = (heat_cell(v, top, text, is_best(v, best)) for v, text in zip(values, told, strict=True))
        return HeatRow(label, tuple(cells))

    hardest = sorted(classes, key=lambda name: mean(numbers[name]) or 0.0)[:MOST_ROWS]
    averages = [mean(column) for column in zip(*numbers.values(), strict=True)]
    rows = tuple(row(name, numbers[name]) for name in hardest)
    columns = tuple(model.name for model, _ in members)
    return measure_of(measure).label, Heat(columns, (("", rows),), row("mean", averages), heat_scale(top))
