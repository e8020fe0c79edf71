"""A progress bar on stderr for long work, from the command line and from Python."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["progress_bar"]


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Gives a function to be told (what is being done, steps done, steps in all), and shows it with the time left on stderr.

    Off a terminal, a line a minute.
    """
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield _line_a_minute()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report


def _line_a_minute() -> Callable[[str, int, int], None]:
    said = time.monotonic()

    def report(what: str, done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said >= 60:
            said = time.monotonic()
            print(f"{what}: {done} of {total} ({done / max(total, 1):.0%})", file=sys.stderr)  # noqa: T201

    return report
