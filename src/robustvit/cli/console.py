"""What commands say: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn, track

from robustvit.interruption import check_interrupted, interruptible

__all__ = ["going_on", "note", "print_json", "progress_bar", "steps", "tables", "working"]

Item = TypeVar("Item")
PIPE_WIDTH = 140
"""Columns of a table that goes to a file or a pipe, unless COLUMNS says how wide the window is."""


def tables() -> Console:
    """Where results for a reader go."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=PIPE_WIDTH)


def print_json(value: Any) -> None:
    """The result for a program: the only thing on stdout when `--json` is given."""
    json.dump(value, sys.stdout, indent=2, default=str)
    print()


def note(message: str) -> None:
    """A remark for the reader, on stderr."""
    print(message, file=sys.stderr)


@contextmanager
def going_on(advice: str) -> Iterator[None]:
    """The work of a command, which keeps what is done when it is interrupted.

    Args:
        advice: how to go on then.
    """
    try:
        with interruptible():
            yield
    except KeyboardInterrupt as error:
        error.add_note(advice)
        raise
    except Exception as error:  # may have come of the signal: other processes have left, an import was cut short
        try:
            check_interrupted()
        except KeyboardInterrupt as stop:
            stop.add_note(advice)
            stop.add_note(f"meanwhile: {error}")
            raise
        raise


def steps(items: Sequence[Item], description: str) -> Iterator[Item]:
    """Goes through `items` with a bar on stderr, silent off a terminal."""
    console = Console(stderr=True)
    yield from track(items, description, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Gives a function to be told (what is being done, steps done, steps in all), and shows it with the time left on stderr.

    Off a terminal, a line a minute.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
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
            note(f"{what}: {done} of {total} ({done / max(total, 1):.0%})")

    return report


@contextmanager
def working(description: str) -> Iterator[None]:
    """Shows what is being done while the body runs, on stderr, silent off a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(description):
        yield
