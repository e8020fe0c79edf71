"""Warnings for the terminal: `warning: TEXT`, one line, each once, without Python source."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from robustvit.runtime.ranks import is_first_process

__all__ = ["one_line_warnings"]


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """While it is active, warnings from `warnings` or `logging` are printed as single lines on stderr.

    Under torchrun only the first process prints: all do the same.
    """
    said: set[str] = set()
    is_first = is_first_process()

    def say(kind: str, message: object) -> None:
        line = f"{kind}: {' '.join(str(message).split())}"
        if is_first and line not in said:
            said.add(line)
            print(line, file=sys.stderr)

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        say("warning", message)

    def emit(handler: logging.StreamHandler[Any], record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING and _is_stderr(handler.stream):
            say(record.levelname.lower(), record.getMessage())
        else:
            as_before(handler, record)

    # Packages give their loggers handlers of their own when they are imported (torch gives it forty), and loggers without one
    # share Python's last resort. All of these are StreamHandlers, so this is the one place that sees every line.
    as_before = logging.StreamHandler.emit
    with warnings.catch_warnings():
        warnings.showwarning = show
        setattr(logging.StreamHandler, "emit", emit)  # noqa: B010  what a type checker does not want to see
        try:
            yield
        finally:
            setattr(logging.StreamHandler, "emit", as_before)  # noqa: B010


def _is_stderr(stream: object) -> bool:
    """Also where a progress bar stood in its place when the handler was made."""
    return stream is sys.stderr or getattr(stream, "name", None) == "<stderr>"
