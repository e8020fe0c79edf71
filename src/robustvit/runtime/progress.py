"""A progress bar on stderr for long work, from the command line and from Python."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["EveryMinute", "progress_bar"]


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Gives a callback for (what is being done, steps done, steps in all), and shows it with the time left on stderr.

    Off a terminal, one line per minute.
    """
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield _lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report


class EveryMinute:
    """Says when it is time for another line, where there is no terminal for a bar."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def is_due(self, *, anyway: bool = False) -> bool:
        """Whether a minute has passed since this was last true, or there is another reason for a line."""
        now = time.monotonic()
        if anyway or now - self._said >= 60:
            self._said = now
            return True
        return False


def _lines() -> Callable[[str, int, int], None]:
    minute = EveryMinute()

    def report(what: str, done: int, total: int) -> None:
        if minute.is_due():
            print(f"{what}: {done} of {total} ({done / max(total, 1):.0%})", file=sys.stderr)  # noqa: T201

    return report
