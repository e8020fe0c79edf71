"""What `robustvit eval` and `robustvit attack` have in common: the run with its progress, and how its result is printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustvit.cli.console import going_on, note, note_untrained, tables
from robustvit.runtime.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from robustvit.evaluation.results import Difference, Results

__all__ = ["measure", "print_results", "tell_notes"]


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
    note_untrained([model.name for model in results.models if model.is_untrained])
    for model in results.models:
        if lost := sum(cell.no_answer for cell in model.cells):
            told = f"{model.name} gave {lost} answers that are not finite numbers; they count as wrong"
            console.print(told, highlight=False)


def tell_notes(results: Results, output: Path) -> None:
    """Says on stderr what to know before using the numbers, and where they are."""
    from robustvit.report.page import REMARK_TITLES

    for names, remark in results.remarks():
        note(f"{REMARK_TITLES[remark.kind]}{f' ({names})' if names else ''}: {remark.text}")
        if remark.file:
            note(f"{output / remark.file} has the classes with the outputs that were taken for them: edit it, and give it")
    note(f"{output}/report.html shows it; {output}/results.json and results.csv have the numbers")


def _differences(results: Results, compared: Callable[[Difference], Sequence[str]]) -> Table:
    """Every two networks, with paired intervals."""
    from rich.table import Table

    from robustvit.report.numbers import change, change_interval, verdict

    table = Table(header_style="bold", pad_edge=False)
    for heading in ("difference", "of", "points", "95 % interval", ""):
        table.add_column(heading, justify="right" if heading == "points" else "left")
    for difference in results.differences:
        for name in compared(difference):
            value = difference.summary[name]
            numbers = (change(name, value.value), change_interval(name, value), verdict(value))
            table.add_row(f"{difference.first} - {difference.second}", name.replace("_", " "), *numbers)
    return table
