"""Ctrl-C and SIGTERM as a wish to stop: the update that is under way ends, a checkpoint is written, then the run stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Interruption", "interruptible"]


class Interruption:
    """Whether somebody wants the run to stop. A second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.wanted = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Catches the signals while the body runs; does nothing outside the main thread, where Python allows no handlers."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before: dict[int, Any] = {number: signal.signal(number, interruption.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
