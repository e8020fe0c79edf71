"""Commands in processes of their own that end at a chosen file operation, or at a chosen time.

Python tells audit hooks about every file that it opens, renames or removes. So a process can count what it does to its output
folder and send itself a signal right before the n-th operation: the moment is exact, and the program is the one that users
have. The processes are forked from a server that has imported everything, so each costs little.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from small_commands import shorten_demo

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGING = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.link", "os.symlink")
PRELOADED = [
    *("robustvit.cli.train", "robustvit.cli.eval", "robustvit.cli.attack", "robustvit.cli.analyze", "robustvit.cli.corrupt"),
    *("robustvit.cli.sweep", "robustvit.cli.demo", "robustvit.training.train", "robustvit.evaluation.evaluate"),
    *("robustvit.analysis.analyze", "robustvit.data.copies.corrupted_tree", "robustvit.sweeping.cell_run"),
    *("robustvit.sweeping.sweep", "robustvit.demo.contest", "robustvit.report.page", "robustvit.cli", "tyro"),
]
LONGEST_SECONDS = 300


@dataclass(frozen=True)
class Kill:
    """When a process gets which signal.

    Attributes:
        number: of the signal.
        operation: before which file operation, from 0; None never.
        whom: the process alone, or its group with all workers.
    """

    number: int
    operation: int | None
    whom: Literal["process", "group"] = "process"


@dataclass(frozen=True)
class Ended:
    """How a process ended: exit code, negative after a signal that it did not see; what it wrote; what it did to files."""

    code: int
    said: str
    operations: tuple[str, ...]
    seconds: float


def run_command(line: list[str], output: Path, scratch: Path, kill: Kill | None = None, seconds: float | None = None) -> Ended:
    """Runs `robustvit` with these arguments in a process and a process group of its own, and waits for it.

    Args:
        line: the arguments.
        output: the folder whose operations count.
        scratch: for what the process says.
        kill: the signal that it sends to itself, or gets.
        seconds: after which it gets that signal from here, instead of before an operation.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    scratch.mkdir(parents=True, exist_ok=True)
    child = context.Process(target=_run, args=(line, str(output), str(scratch), kill if seconds is None else None))
    started = time.monotonic()
    child.start()
    if seconds is not None and kill is not None:
        _signal_later(child, kill, seconds)
    child.join(LONGEST_SECONDS)
    if child.exitcode is None:
        child.kill()
        raise AssertionError(f"it does not end: robustvit {' '.join(line)}")
    said = (scratch / "said.txt").read_text(errors="replace") if (scratch / "said.txt").exists() else ""
    listed = scratch / "operations.txt"
    operations = listed.read_text(errors="replace").splitlines() if listed.exists() else []
    return Ended(child.exitcode, said, tuple(operations), time.monotonic() - started)


def _signal_later(child: Any, kill: Kill, seconds: float) -> None:
    child.join(seconds)
    if child.exitcode is None and child.pid is not None:
        with suppress(ProcessLookupError):  # it has just ended, or is not yet the head of its group
            os.killpg(child.pid, kill.number) if kill.whom == "group" else os.kill(child.pid, kill.number)


def _run(line: list[str], output: str, scratch: str, kill: Kill | None) -> None:
    """In the process."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    said = os.open(f"{scratch}/said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    import torch

    torch.set_num_threads(1)
    shorten_demo()
    from robustvit.cli import main

    _count_operations(output, scratch, kill)
    sys.argv = ["robustvit", *line]
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _count_operations(output: str, scratch: str, kill: Kill | None) -> None:
    """Notes every operation in `output`, and sends the signal before the chosen one."""
    notes = os.open(f"{scratch}/operations.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    process, count = os.getpid(), 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        told = _operation(event, arguments, output) if event == "open" or event in CHANGING else None
        if told is None or os.getpid() != process:
            return
        if kill is not None and count == kill.operation:
            os.killpg(0, kill.number) if kill.whom == "group" else os.kill(process, kill.number)
        count += 1
        os.write(notes, f"{event} {told}\n".encode(errors="backslashreplace"))

    sys.addaudithook(hook)


def _operation(event: str, arguments: tuple[Any, ...], output: str) -> str | None:
    """The place of a file operation below the folder; None for one elsewhere, or for reading."""
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & WRITING):
        return None
    named = arguments[1] if event in ("os.rename", "os.link", "os.symlink") else arguments[0]
    if isinstance(named, int):
        return None
    path, folder = os.fsdecode(named), arguments[-1]
    if not path.startswith("/") and event != "open" and isinstance(folder, int) and folder >= 0:
        path = f"{Path(f'/proc/self/fd/{folder}').readlink()}/{path}"  # as rmtree removes what is in a folder
    return path.removeprefix(output) if path.startswith(output) else None
