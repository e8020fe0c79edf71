"""The table of a sweep for readers: one row per combination of values, mean ± standard deviation over the seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from robustvit.metrics.measures import measure_of
from robustvit.runtime.files import write_whole
from robustvit.runtime.page_writers import page_writer
from robustvit.runtime.tables import write_csv
from robustvit.sweeping.grid import label_of
from robustvit.sweeping.result import Row, Spread, SweepResult

__all__ = ["heading_of", "save_sweep", "spread_text", "table_of"]


def heading_of(name: str) -> str:
    """What a column is called, with its unit."""
    return measure_of(name).heading


def spread_text(name: str, spread: Spread | None) -> str:
    """Mean ± standard deviation, in percent where the number is a share; the mean alone where there is one seed."""
    measure = measure_of(name)
    if spread is None:
        return measure.text(None)
    unit = replace(measure.unit, symbol="")
    text = unit.text(spread.mean)
    return text if spread.deviation is None else f"{text} ± {unit.text(spread.deviation)}"


def table_of(result: SweepResult) -> tuple[list[str], list[list[str]]]:
    """The headings, and one list of texts per row: values, numbers, and the number of seeds."""
    headings = [*(axis.name for axis in result.axes), *map(heading_of, result.columns), "seeds"]
    rows = []
    for row in result.rows:
        numbers = [spread_text(name, row.numbers.get(name)) for name in result.columns]
        rows.append([*map(label_of, row.settings.values()), *numbers, _seeds_text(row)])
    return headings, rows


def _seeds_text(row: Row) -> str:
    """ "3", or "1 of 3, 2 failed"."""
    done, failed = row.count("done"), row.count("failed")
    text = str(done) if done == len(row.cells) else f"{done} of {len(row.cells)}"
    return f"{text}, {failed} failed" if failed else text


def save_sweep(result: SweepResult, folder: Path) -> None:
    """Writes sweep.json, sweep.csv, sweep.md, sweep.png and sweep.svg, each of them whole."""
    write_csv(folder / "sweep.csv", _csv_rows(result))
    with write_whole(folder / "sweep.md") as file:
        file.write_text("\n".join(_markdown(result)) + "\n", encoding="utf-8", errors="backslashreplace")
    page_writer("sweep")(result, folder / "sweep.png", folder / "sweep.svg")
    with write_whole(folder / "sweep.json") as file:
        file.write_text(json.dumps(result.to_json(), indent=1, default=str) + "\n")


def _csv_rows(result: SweepResult) -> Iterator[Sequence[Any]]:
    names = list(dict.fromkeys(name for cell in result.cells for name in cell.numbers))
    yield [*(axis.name for axis in result.axes), "seed", "state", *names, "folder", "reason", "version"]
    for cell in result.cells:
        numbers = [cell.numbers.get(name, "") for name in names]
        end = [cell.folder, cell.reason, cell.version]
        yield [*map(label_of, cell.settings.values()), cell.seed, cell.state, *numbers, *end]


def _markdown(result: SweepResult) -> Iterator[str]:
    yield f"# Sweep of {result.recipe or 'the default recipe'}{' (its CPU-size twin)' if result.twin else ''}"
    yield ""
    evaluation = result.evaluation
    limit = f", {evaluation['limit']} images" if evaluation["limit"] else ""
    yield (
        f"Mean ± standard deviation over the seeds {', '.join(map(str, result.seeds))}. Measured on "
        f"{evaluation['data'] or 'data.val of the recipe'}{limit}: {', '.join(evaluation['suites'])}."
    )
    if result.changes:
        yield f"Changes of all cells: {', '.join(f'`{change}`' for change in result.changes)}."
    if len(result.makers) > 1:
        yield f"Cells were made by robustvit {', '.join(result.makers)}, so their numbers need not be comparable."
    yield ""
    headings, rows = table_of(result)
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(result.axes) + "---:|" * (len(headings) - len(result.axes))
    for row in rows:
        yield f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |"
    if result.failed:
        yield ""
        yield "Failed:"
        yield ""
    for cell in result.failed:
        yield f"- `{cell.folder.name}`: {cell.reason}"
