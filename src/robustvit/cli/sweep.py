"""`robustvit sweep`: a grid of settings and seeds, trained and measured."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from robustvit.cli.console import going_on, note, print_json, tables, working
from robustvit.cli.task_flags import flags_class, task_options
from robustvit.evaluation.settings import Settings
from robustvit.runtime.progress import EveryMinute
from robustvit.runtime.ranks import is_first_process
from robustvit.tasks.options import TASK_OPTIONS

if TYPE_CHECKING:
    from robustvit.sweeping.result import SweepResult
    from robustvit.sweeping.sweep import SweepProgress

    class TaskFlags:
        """Made from the options of the tasks, below."""


__all__ = ["sweep"]

Pairs = tyro.conf.UseAppendAction[tuple[str, ...]]


def sweep(
    recipe: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="RECIPE")] = None,
    *,
    vary: Annotated[Pairs, tyro.conf.arg(metavar="NAME=V1,V2")],
    seeds: Annotated[tuple[str, ...], tyro.conf.arg(metavar="S1,S2")] = ("0",),
    set: Annotated[Pairs, tyro.conf.arg(metavar="NAME=VALUE")] = (),  # noqa: A002
    twin: bool = False,
    data: Annotated[str | None, tyro.conf.arg(metavar="PATH")] = None,
    suite: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = ("clean", "common15"),
    limit: Annotated[int | None, tyro.conf.arg(metavar="N")] = Settings.limit,
    batch_size: Annotated[int, tyro.conf.arg(metavar="B")] = Settings.batch_size,
    output: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/sweep"),
    resume: bool = False,
    plan: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
    flags: Annotated[TaskFlags, tyro.conf.arg(name="")],
) -> None:
    """Train and measure every combination of settings with every seed; mean and spread at the end.

    robustvit sweep tapadl/fan_hybrid_base_adl --vary methods.adl.tau=1,2,3,5 --seeds 0,1,2

    Ctrl-C keeps finished work; the same command with --resume continues. A run that fails does not stop the others.

    Args:
        recipe: a name or YAML file, as for `robustvit train`; by default fan_vit_nano on the embedded dataset.
        vary: a setting and its values (YAML); may be repeated to run every combination.
        seeds: of the runs, as 0,1,2 or 0 1 2.
        set: change a setting of all runs; may be repeated.
        twin: use the recipe's CPU-size twin, to try it out.
        data: dataset to measure the runs on, as for `robustvit eval`; by default the recipe's data.val.
        suite: what to measure, as for `robustvit eval`.
        limit: measure on this many images, the same for every run.
        batch_size: images per batch when measuring.
        output: folder for the runs, sweep.json, sweep.csv, sweep.md, sweep.png and sweep.svg.
        resume: continue the sweep in the folder; failed runs are tried again, and you may add values and seeds.
        plan: only show the runs and which of them are done.
        as_json: print JSON.
    """
    with working("Loading"):
        from robustvit.sweeping.grid import parse_seeds
        from robustvit.sweeping.plan import Measuring, plan_sweep
        from robustvit.sweeping.sweep import planned_result
        from robustvit.sweeping.sweep import sweep as run_sweep
        from robustvit.training.config_io import load_config

    given = (recipe, vary, parse_seeds(seeds))
    asked: dict[str, Any] = task_options(flags, load_config(recipe, set, twin=twin).task)
    if plan:
        measuring = Measuring(data, tuple(dict.fromkeys(suite)), limit, batch_size, asked)
        _print_plan(planned_result(plan_sweep(*given, measuring, output, changes=set, twin=twin)), as_json)
        return
    how = dict(data=data, suite=suite, limit=limit, batch_size=batch_size, changes=set, twin=twin, task_options=asked)
    advice = f"finished work is kept in {output}; run the same command with --resume to continue"
    with going_on(advice), _progress() as report:
        result = run_sweep(*given, output=output, resume=resume, report=report, **how)  # type: ignore[arg-type]
    if is_first_process():
        _show(result, output, as_json)


def _show(result: SweepResult, output: Path, as_json: bool) -> None:
    """Prints the result; runs that failed are an error."""
    if as_json:
        print_json(result.to_json())
    else:
        _print(result)
        if len(result.makers) > 1:
            note(f"cells were made by robustvit {', '.join(result.makers)}, so their numbers may not be comparable")
        note(f"figure: {output}/sweep.png; numbers: {output}/sweep.json, sweep.csv and sweep.md")
    if result.failed:
        told = "; ".join(f"{cell.folder.name}: {cell.reason}" for cell in result.failed)
        raise RuntimeError(f"{len(result.failed)} of {len(result.cells)} runs failed (--resume tries them again): {told}")


def _print(result: SweepResult) -> None:
    from rich.table import Table
    from rich.text import Text

    from robustvit.sweeping.table import table_of

    headings, rows = table_of(result)
    table = Table(header_style="bold", pad_edge=False)
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i < len(result.axes) else "right")
    for row in rows:
        table.add_row(*map(Text, row))  # values may contain brackets, which are not markup here
    tables().print(table)


def _print_plan(result: SweepResult, as_json: bool) -> None:
    if as_json:
        print_json(result.to_json())
        return
    for cell in result.cells:
        print(f"{cell.state:<8}{cell.folder.name}{f': {cell.reason}' if cell.reason else ''}")
    done = sum(cell.state == "done" for cell in result.cells)
    note(f"{len(result.cells)} runs, {done} of them done")


@contextmanager
def _progress() -> Iterator[Callable[[SweepProgress], None] | None]:
    """Shows the current run, its steps and the time left on stderr; without a terminal, its stages and one line per minute."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    if not is_first_process():
        yield None
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), TextColumn("{task.fields[told]}"), console=Console(stderr=True)) as bar:
        task, shown = bar.add_task("", total=None, told=""), ""

        def report(progress: SweepProgress) -> None:
            nonlocal shown
            text = _which(progress)
            if progress.stage in ("done", "failed"):
                bar.console.print(f"{text}{f': {progress.told}' if progress.told else ''}", markup=False, highlight=False)
            elif text != shown:
                bar.reset(task, description=text, total=progress.total or None, told="")
                shown = text
            bar.update(task, completed=progress.done, total=progress.total or None, told=progress.told)

        yield report


def _which(progress: SweepProgress) -> str:
    return f"run {progress.number} of {progress.cells}, {progress.name}: {progress.stage}"


def _lines() -> Callable[[SweepProgress], None]:
    minute, shown = EveryMinute(), ""

    def report(progress: SweepProgress) -> None:
        nonlocal shown
        text = _which(progress)
        if minute.is_due(anyway=text != shown):
            steps = f" {progress.done} of {progress.total}" if progress.total else ""
            told = f": {progress.told}" if progress.stage == "failed" else ""
            note(f"{text}{steps if text == shown else ''}{told}")
            shown = text

    return report


if not TYPE_CHECKING:
    TaskFlags = flags_class([TASK_OPTIONS], inspect.signature(sweep).parameters)
