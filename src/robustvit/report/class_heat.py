"""Which classes are lost first: classes x corruptions or conditions, coloured by how much of a class is left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robustvit.corruptions.registry import CORRUPTIONS
from robustvit.evaluation.results import Measurement, ModelResults
from robustvit.metrics.measures import measure_of
from robustvit.report.attacks import attack_label
from robustvit.report.charts import heat_colours
from robustvit.report.comparison import stars
from robustvit.report.conditions import own_conditions, own_label
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
    """The classes of one measurement that images have, those that lose the largest share first.

    Attributes:
        suites: of the measurement.
        title: heading of the section.
        caption: what numbers and colours are.
        measure: what the numbers are.
        groups: (group of corruptions, how many columns it has), over all columns; empty without groups.
        columns: their headings; the first two are plain numbers.
        rows: the classes.
        scale: (text, background, letters) of the legend.
    """

    suites: str
    title: str
    caption: str
    measure: str
    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    scale: tuple[tuple[str, str, str], ...]


def has_heat(measured: Measurement) -> bool:
    """Whether there are classes, and they are known under every corruption, or every condition of a suite."""
    return bool(_present(measured)) and (_has_corruptions(measured) or bool(_own(measured)))


def class_heats(model: ModelResults) -> tuple[ClassHeat, ...]:
    """One for each measurement whose classes are known under every corruption, or every condition of a suite."""
    found = (measured for measured in model.measurements if has_heat(measured))
    return tuple(_heat(measured) if _has_corruptions(measured) else _condition_heat(measured) for measured in found)


def _has_corruptions(measured: Measurement) -> bool:
    return any(one.corruptions for one in measured.class_accuracies)


def _present(measured: Measurement) -> list[ClassResult]:
    """The classes that images have: of the others, nothing can be lost."""
    return [one for one in measured.class_accuracies if one.images]


def _own(measured: Measurement) -> dict[str, str]:
    """Conditions of a suite of its own -> their labels, that of all images last."""
    names = dict.fromkeys(name for one in measured.class_accuracies for name in one.values)
    return {name: own_label(name, suite) for suite in measured.suites for name in own_conditions(names, suite)}


def _condition_heat(measured: Measurement) -> ClassHeat:
    names = _own(measured)
    classes = sorted(_present(measured), key=lambda one: _overall(one, names))
    top = _top(classes, list(names))
    measure = measure_of(next(key for one in classes for key in one.measures)).label
    told = f"{measure} of each class in percent, the lowest first."
    rows = ((one, (_cell(one, name, top, label) for name, label in names.items())) for one in classes[:MOST_ROWS])
    return ClassHeat(
        suites=", ".join(measured.suites),
        title="Which classes are lost in which condition",
        caption=told + _left_out(len(measured.class_accuracies) - len(classes)) + _some(len(classes)),
        measure=measure,
        groups=(),
        columns=("images", *names.values()),
        rows=tuple(HeatRow(one.name, (HeatCell(count(one.images)), *cells)) for one, cells in rows),
        scale=heat_scale(top),
    )


def _overall(one: ClassResult, names: Mapping[str, str]) -> float:
    """Of a class in all images, or the mean over the conditions; infinite where there is no number."""
    numbers = [number for number in map(one.number, names) if number is not None]
    whole = one.number(list(names)[-1])
    return whole if whole is not None else sum(numbers) / len(numbers) if numbers else math.inf


def _heat(measured: Measurement) -> ClassHeat:
    classes = sorted(_present(measured), key=_share_left)
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
        title="Which classes are lost first",
        caption=_caption(measure, has_clean) + _left_out(len(measured.class_accuracies) - len(classes)) + _some(len(classes)),
        measure=measure_of(measure).label,
        groups=(("", 1 + len(ends)), *((g, len(own)) for g, own in groups.items()), ("", len(others) + 1 + len(ends))),
        columns=("images", *ends, *map(words, names), *map(attack_label, others), "mean", *(("left",) if has_clean else ())),
        rows=tuple(map(row, classes[:MOST_ROWS])),
        scale=heat_scale(1.0 if has_clean else top),
    )


def _caption(key: str, has_clean: bool) -> str:
    label = measure_of(key).label
    told = f"{label} of each class in percent, averaged over severities."
    order = " The classes that lose the largest share of it come first." if has_clean else " The lowest come first."
    colours = f" Colours and the last column say how much of the clean {label} is left." if has_clean else ""
    return told + order + colours


def _left_out(classes: int) -> str:
    """That so many classes are not shown, as nothing is labelled with them."""
    if not classes:
        return ""
    return f" {count(classes)} {'class that no image has is' if classes == 1 else 'classes that no image has are'} left out."


def _some(classes: int) -> str:
    return f" {MOST_ROWS} of {count(classes)} classes; all are in results.json." if classes > MOST_ROWS else ""


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


def _cell(one: ClassResult, condition: str, top: float, label: str = "") -> HeatCell:
    """A number of a class; coloured by the share of the clean one, where there is one.

    Args:
        one: the class.
        condition: of the number.
        top: where the colours end without clean numbers.
        label: of the condition; by default its name.
    """
    value = one.number(condition)
    left = _left(one, value)
    shades = ("", "")
    if one.clean is None:
        shades = heat_colours(value, top)
    elif left is not None:
        shades = heat_colours(left, 1.0)
    told = "mean over corruptions" if condition == CORRUPTED else label or words(condition)
    detail = f"{one.name}, {told}: {percent(value)}" + (f", {percent(left, 0)} of clean" if left is not None else "")
    return HeatCell(percent(value, sign=False), *shades, detail=detail)


def compared_classes(models: Sequence[ModelResults]) -> list[tuple[str, str, Heat]]:
    """(suites, caption, class x network) for each measurement of several networks whose classes are known under corruption,
    or in the conditions of a suite. There is no mean: that of the classes' means is not the mean of the table of networks.
    """
    shared: dict[tuple[str, ...], list[tuple[ModelResults, Measurement]]] = {}
    for model in models:
        for measured in model.measurements:
            if has_heat(measured):
                shared.setdefault(measured.suites, []).append((model, measured))
    return [(", ".join(suites), *_compared(members)) for suites, members in shared.items()]


def _compared(members: Sequence[tuple[ModelResults, Measurement]]) -> tuple[str, Heat]:
    tables = [{one.name: _under_all(one, measured) for one in _present(measured)} for _, measured in members]
    classes = list(dict.fromkeys(name for table in tables for name in table))
    numbers = {name: [table.get(name) for table in tables] for name in classes}
    top = max([LEAST_TOP, *(number for row in numbers.values() for number in row if number is not None)])

    def row(label: str) -> HeatRow:
        values = numbers[label]
        told = [f"{model.name}, {label}" for model, _ in members]
        cells = (heat_cell(v, top, text, star) for v, text, star in zip(values, told, stars(values), strict=True))
        return HeatRow(label, tuple(cells))

    hardest = sorted(classes, key=lambda name: mean(numbers[name]) or 0.0)[:MOST_ROWS]
    first = members[0][1]
    measure = measure_of(next(key for one in first.class_accuracies for key in one.measures)).label
    where = "under corruption" if _has_corruptions(first) else "over all conditions"
    told = f"{measure} of each class {where} in percent, hardest class first. ★ marks the best network of a row."
    left_out = _left_out(len({one.name for _, measured in members for one in measured.class_accuracies}) - len(classes))
    columns = tuple(model.name for model, _ in members)
    return told + left_out + _some(len(classes)), Heat(columns, (("", tuple(map(row, hardest))),), None, heat_scale(top))


def _under_all(one: ClassResult, measured: Measurement) -> float | None:
    """The number of a class averaged over corruptions, or that of all conditions."""
    if _has_corruptions(measured):
        return one.corrupted
    overall = _overall(one, _own(measured))
    return overall if math.isfinite(overall) else None
