"""Ctrl-C, SIGTERM and SIGHUP end a command in order: the step under way is finished or dropped, and what is done is kept.

Only the command line catches signals (`catching_signals`). From Python, Ctrl-C is the KeyboardInterrupt that it always is;
whoever wants training to finish its update and save writes

    with catching_signals():
        rv.train(config, "runs/one")

SIGHUP comes from a terminal that is closed. What was ignored before, as by `nohup` or for a job in the background of a script,
stays ignored.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, Literal

from robustvit.runtime.files import discard_unfinished

__all__ = [
    "Interruption",
    "StoppedInOrder",
    "WorkersEnd",
    "catching_signals",
    "check_interrupted",
    "end_with_torchrun",
    "finishing_steps",
    "interruptible",
    "leave_signals_to_parent",
    "postponing_signals",
    "starting_workers",
    "stop_this_process",
]

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
ONE_SIGNAL_SECONDS = 1.0
"""Signals within this time are one: `timeout` and some schedulers send theirs to a process and again to its group."""
LOOK_SECONDS = 1.0
"""How often a worker looks whether it is to end."""
GRACE_SECONDS = 600.0
"""How long a process whose partners are gone may take to save what it has: on a busy machine, or to a slow disk."""
Answer = Literal["leave", "raise", "note"]


class StoppedInOrder(KeyboardInterrupt):
    """Work stopped after a signal and kept what it had, but it is not finished, so nothing that needs its end may follow."""


class Interruption:
    """The wish that this process stops.

    Attributes:
        received: number of the signal, None before there is one.
    """

    def __init__(self, answer: Answer) -> None:
        self.received: int | None = None
        self.answer: Answer = answer
        self._when: float | None = None
        self._process = os.getpid()

    @property
    def exit_code(self) -> int:
        """As shells count: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
        return 128 + (self.received or signal.SIGINT)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a process forked from this one, which ends it
            return
        if self._when is not None:
            if time.monotonic() - self._when > ONE_SIGNAL_SECONDS:
                self.received = number
                self._leave("stopped at once; what was saved stays")
            return
        self._when = time.monotonic()
        if self.received is None:  # else this process stops already, because another one was told to
            self.received = number
            self.act()

    def act(self) -> None:
        """Stops here and now, if a signal has come that was not to be noted only."""
        if self.received is not None and self.answer == "raise":
            raise KeyboardInterrupt
        if self.received is not None and self.answer == "leave":
            self._leave("stopped")

    def agree(self, received: list[int | None]) -> bool:
        """Whether one of several processes is to stop; then this one is, too.

        Args:
            received: what all of them had received at the same point. A signal that came since then waits for the next one:
                all must come to the same answer.
        """
        agreed = next((number for number in received if number), None)
        self.received = self.received or agreed
        return agreed is not None

    def _leave(self, message: str) -> None:
        """Without another line of Python elsewhere: what is imported or cleaned up may be in any state."""
        discard_unfinished()
        cursor = "\x1b[?25h" if sys.stderr is not None and sys.stderr.isatty() else ""  # which a progress bar hides
        with suppress(OSError):
            os.write(2, f"{cursor}{message}\n".encode())
        os._exit(self.exit_code)


_caught: Interruption | None = None
"""Of the `catching_signals` around; None where nobody catches signals."""


@contextmanager
def catching_signals(*, is_program: bool = False) -> Iterator[Interruption]:
    """While the body runs, the first signal raises KeyboardInterrupt, or is noted in `finishing_steps`; another one, a second
    later, ends the process at once. Does nothing outside the main thread, where Python allows no handlers.

    Args:
        is_program: the body is all that this process does: then a signal ends it at once outside of `interruptible` and
            `finishing_steps`, where there is nothing to keep, and also after the body.
    """
    global _caught
    interruption = Interruption("leave" if is_program else "raise")
    if _caught is not None or threading.current_thread() is not threading.main_thread():
        yield _caught or interruption
        return
    before: dict[int, Any] = {}
    for number in SIGNALS:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            before[number] = signal.signal(number, interruption.on_signal)
    _caught = interruption
    try:
        yield interruption
    finally:
        _caught = None
        for number, handler in before.items() if not is_program else ():
            signal.signal(number, handler)


@contextmanager
def _answering(answer: Answer) -> Iterator[Interruption]:
    interruption = _caught or Interruption(answer)
    before, interruption.answer = interruption.answer, answer
    try:
        yield interruption
    finally:
        interruption.answer = before


@contextmanager
def interruptible() -> Iterator[None]:
    """A signal raises KeyboardInterrupt in the body, which keeps what it has."""
    with _answering("raise"):
        yield


@contextmanager
def finishing_steps() -> Iterator[Interruption]:
    """A signal is only noted: the body looks at `received` after each step, and stops in order.

    Where nobody catches signals, there is never anything to see.
    """
    with _answering("note") as interruption:
        yield interruption


def check_interrupted() -> None:
    """Raises KeyboardInterrupt if there was a signal that was not to be noted only: before the next piece of work, or where an
    error may come of it.

    Long loops call it, because the KeyboardInterrupt of a signal is lost where Python can only print it: in `__del__`, in
    callbacks of weak references and in some of C.
    """
    if _caught is not None and _caught.received is not None and _caught.answer != "note":
        raise KeyboardInterrupt


@contextmanager
def starting_workers() -> Iterator[None]:
    """Processes that start in the body never see a signal that reaches all of the group: this one ends them.

    They call `leave_signals_to_parent` when they can. This process sees its signals after the body.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        with _answering("note"):  # other threads may take the signal, and Python handles it here nevertheless
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if _caught is not None:
        _caught.act()


@contextmanager
def postponing_signals() -> Iterator[None]:
    """A signal that comes in the body, which takes no time, is seen after it."""
    known = _caught is not None and _caught.received is not None
    with _answering("note"):
        yield
    if _caught is not None and not known:
        _caught.act()


class WorkersEnd:
    """How a process ends workers whatever happens to its SIGTERM.

    Signals do not queue: one that is sent while that of the whole group still waits to be seen is lost with its sender.
    A worker gets this object by a fork, or as an argument of its process.
    """

    def __init__(self) -> None:
        self._told, self._tell = multiprocessing.Pipe(duplex=False)

    def tell(self) -> None:
        """Ends those workers that live still, within `LOOK_SECONDS`."""
        with suppress(OSError):
            self._tell.send_bytes(b".")  # which nobody takes out, so that all see it

    @property
    def is_told(self) -> bool:
        return self._told.poll()

    def __getstate__(self) -> Connection:
        return self._told

    def __setstate__(self, told: Connection) -> None:
        self._told = told


def leave_signals_to_parent(end: WorkersEnd) -> None:
    """In a worker process: only its parent can end it, by SIGTERM, by its own end, or by `end`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if not hasattr(signal, "sigtimedwait"):  # macOS: nobody can tell where a signal comes from
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return
    threading.Thread(target=_end_when_told, args=(end, os.getppid()), daemon=True).start()


def _end_when_told(end: WorkersEnd, parent: int) -> None:
    while not end.is_told:
        seen = signal.sigtimedwait({signal.SIGTERM}, LOOK_SECONDS)
        if seen is not None and seen.si_pid == parent:
            break
    os._exit(128 + signal.SIGTERM)


def end_with_torchrun() -> None:
    """In a process that torchrun started: ends it in order when that is gone, as nobody else would."""
    global _is_watching
    if _is_watching or "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    _is_watching = True
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


_is_watching = False
_stopping = threading.Lock()
"""Taken by the first thread that stops this process: another SIGTERM would be a second one."""


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    stop_this_process("torchrun is gone")


def stop_this_process(reason: str) -> None:
    """From any thread: as if SIGTERM had come; a while later at once, where that ends nothing.

    Args:
        reason: for the reader.
    """
    if not _stopping.acquire(blocking=False):
        return
    with suppress(OSError):
        os.write(2, f"{reason}; process {os.getpid()} stops\n".encode())
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    discard_unfinished()
    with suppress(OSError):
        os.write(2, f"process {os.getpid()} has not stopped in {GRACE_SECONDS:.0f} s, and is ended\n".encode())
    os._exit(128 + signal.SIGTERM)
