"""What commands say: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import track

from robustvit.runtime.interruption import check_interrupted, interruptible
from robustvit.runtime.progress import progress_bar

__all__ = ["going_on", "note", "note_untrained", "print_json", "progress_bar", "steps", "tables", "working"]

Item = TypeVar("Item")
PIPE_WIDTH = 140
"""Width of a table that is written to a file or a pipe, unless COLUMNS gives another."""


def tables() -> Console:
    """The console for results that people read."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=PIPE_WIDTH)


def print_json(value: Any) -> None:
    """The result for programs: with `--json`, the only output on stdout."""
    json.dump(value, sys.stdout, indent=2, default=str)
    print()


def note(message: str) -> None:
    """Prints a message on stderr."""
    print(message, file=sys.stderr)


@contextmanager
def going_on(advice: str) -> Iterator[None]:
    """Around the work of a command that can be resumed: an interruption is reported with advice.

    Args:
        advice: how to resume.
    """
    try:
        with interruptible():
            yield
    except KeyboardInterrupt as error:
        error.add_note(advice)
        raise
    except Exception as error:  # may be a consequence of the signal: other processes have left, an import was cut short
        try:
            check_interrupted()
        except KeyboardInterrupt as stop:
            stop.add_note(advice)
            stop.add_note(f"meanwhile: {error}")
            raise
        raise


def note_untrained(names: Sequence[str]) -> None:
    """Names the networks of a result that have random weights, if any."""
    if names:
        note(f"untrained: the weights of {', '.join(names)} are random, so these numbers mean nothing")


def steps(items: Sequence[Item], description: str) -> Iterator[Item]:
    """Iterates over `items` with a progress bar on stderr; silent without a terminal."""
    console = Console(stderr=True)
    yield from track(items, description, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def working(description: str) -> Iterator[None]:
    """Shows a status on stderr while the body runs; silent without a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(description):
        yield
