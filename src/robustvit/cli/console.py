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


def note_untrained(names: Sequence[str]) -> None:
    """Says which networks of a result have random weights, if any."""
    if names:
        note(f"untrained: the weights of {', '.join(names)} are random, so these numbers are of no use but to try things out")


def steps(items: Sequence[Item], description: str) -> Iterator[Item]:
    """Goes through `items` with a bar on stderr, silent off a terminal."""
    console = Console(stderr=True)
    yield from track(items, description, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def working(description: str) -> Iterator[None]:
    """Shows what is being done while the body runs, on stderr, silent off a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(description):
        yield
