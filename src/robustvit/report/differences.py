"""Group means of several networks, and how far the best one is from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robustvit.evaluation.results import Difference, ModelResults, Results, Value
from robustvit.metrics.measures import measure_of
from robustvit.report.comparison import Entry, in_order, marked, shared_grids, summary_names
from robustvit.report.numbers import change, change_interval, is_clear, verdict

__all__ = ["Apart", "DifferenceTable", "GroupTable", "difference_tables", "group_tables"]


@dataclass(frozen=True)
class GroupTable:
    """The primary measure by group or condition: (place, network, numbers) of the rows, best network first."""

    suites: str
    groups: tuple[str, ...]
    rows: tuple[tuple[int, ModelResults, tuple[Entry, ...]], ...]


@dataclass(frozen=True)
class Apart:
    """One difference. It is clear where its interval does not include 0; else the verdict says what it may be."""

    text: str
    interval: str
    is_clear: bool
    verdict: str


@dataclass(frozen=True)
class DifferenceTable:
    """The best network minus each of the others.

    Attributes:
        suites: of the measurement.
        best: the network.
        columns: (place of the other network, its name, images that both saw).
        rows: (label, whether lower is better, the differences).
    """

    suites: str
    best: str
    columns: tuple[tuple[int, str, int], ...]
    rows: tuple[tuple[str, bool, tuple[Apart, ...]], ...]


def group_tables(models: Sequence[ModelResults]) -> list[GroupTable]:
    """For each grid of more than one group: its means, with intervals."""
    ranks = {place: rank for rank, (place, _) in enumerate(in_order(models))}
    tables = []
    for suites, members in shared_grids(models).items():
        groups = tuple(dict.fromkeys(group for _, _, grid in members for group in grid.groups))
        ordered = sorted(members, key=lambda member: ranks[member[0]])
        columns = [marked([grid.of_group(group) for _, _, grid in ordered]) for group in groups]
        rows = tuple((place, model, tuple(c[k] for c in columns)) for k, (place, model, _) in enumerate(ordered))
        if len(groups) > 1:
            tables.append(GroupTable(", ".join(suites), groups, rows))
    return tables


def difference_tables(results: Results) -> list[DifferenceTable]:
    """For each measurement of which two networks have images in common: the best network against the others."""
    (_, best), *others = in_order(results.models)
    found: dict[tuple[str, ...], list[tuple[int, Difference]]] = {}
    for place, other in others:
        for difference in results.between(best.name, other.name):
            found.setdefault(difference.suites, []).append((place, difference))
    order = summary_names(results.models)
    return [_table(best.name, suites, pairs, order, results.primary) for suites, pairs in found.items()]


def _table(
    best: str, suites: Sequence[str], pairs: Sequence[tuple[int, Difference]], order: Sequence[str], primary: str
) -> DifferenceTable:
    names = [name for name in order if any(name in difference.summary for _, difference in pairs)]
    groups = list(dict.fromkeys(group for _, difference in pairs for group in difference.group_accuracies))
    rows = []
    for name in names:
        entries = tuple(_apart(name, difference.summary.get(name)) for _, difference in pairs)
        rows.append((measure_of(name).label, not measure_of(name).higher_is_better, entries))
    for group in groups if len(groups) > 1 else ():  # of one group, the mean says the same
        entries = tuple(_apart(primary, difference.group_accuracies.get(group)) for _, difference in pairs)
        rows.append((f"{measure_of(primary).label}, {group}", False, entries))
    columns = tuple((place, difference.second, difference.images) for place, difference in pairs)
    return DifferenceTable(", ".join(suites), best, columns, tuple(rows))


def _apart(name: str, value: Value | None) -> Apart:
    shown = change(name, value.value if value else None)
    return Apart(shown, change_interval(name, value), is_clear(value) is True, verdict(value))
