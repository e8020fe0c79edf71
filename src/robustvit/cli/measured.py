"""What `robustvit eval` and `robustvit attack` have in common: the run with its progress, and how its result is printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustvit.cli.console import going_on, progress_bar, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from robustvit.evaluation.results import Difference, Results

__all__ = ["measure", "print_results"]


def measure(networks: dict[str, Any], data: str, output: Path, how: dict[str, Any]) -> Results:
    """`evaluate` with its progress on stderr; an interruption says how to go on."""
    from robustvit.evaluation.evaluate import evaluate

    advice = f"what is done is kept in {output}, and the same command with --resume goes on from there"
    with going_on(advice), progress_bar() as report:
        return evaluate(networks, data, output=output, report=report, **how)


def print_results(results: Results, table: Table, compared: Callable[[Difference], Sequence[str]]) -> None:
    """Prints the table, how networks differ, and what went wrong.

    Args:
        results: of the run.
        table: its numbers.
        compared: which numbers of a difference are shown.
    """
    console = tables()
    console.print(table)
    if results.differences:
        console.print(_differences(results, compared))
    skipped = sum(len(model.skipped) for model in results.models)
    if skipped:
        console.print(f"{skipped} pictures could not be read; results.json names them", highlight=False)
    for model in results.models:
        if lost := sum(cell.no_answer for cell in model.cells):
            told = f"{model.name} gave {lost} answers that are not finite numbers; they count as wrong"
            console.print(told, highlight=False)


def _differences(results: Results, compared: Callable[[Difference], Sequence[str]]) -> Table:
    """Every two networks, with paired intervals."""
    from rich.table import Table

    from robustvit.report.numbers import change, change_interval, is_clear

    table = Table(header_style="bold", pad_edge=False)
    for heading in ("difference", "of", "points", "95 % interval", ""):
        table.add_column(heading, justify="right" if heading == "points" else "left")
    for difference in results.differences:
        for name in compared(difference):
            value = difference.summary[name]
            remark = "may be chance" if is_clear(value) is False else ""
            numbers = (change(name, value.value), change_interval(name, value))
            table.add_row(f"{difference.first} - {difference.second}", name.replace("_", " "), *numbers, remark)
    return table
