"""What all fuzzed cases have in common: where their randomness comes from, what is demanded of each, and how they are counted.

A case is a function of (seed, number). The number is in the name of its test, the seed is 0 unless FAULTS_SEED says
otherwise, so a case that failed is repeated by the name that pytest prints.
"""

from __future__ import annotations

import io
import os
import random
import re
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from robustvit.cli import main

SEED = int(os.environ.get("FAULTS_SEED", "0"))
LONGEST_SECONDS = 300
"""After which a case counts as one that would never end."""
MOST_MEMORY = 3 * 2**29
"""Bytes by which a case may raise what the process has needed so far."""
TEMPORARY = re.compile(r"\.robustvit-.*|\.unfinished.*|\..*-removed-.*|.*\.tmp|unfinished", re.DOTALL)
"""Names that no command may leave behind when it ends by itself."""


class EndlessError(BaseException):
    """Not an Exception: nobody is to take it for the error of a file."""


class Outcome(NamedTuple):
    """How a command or a call ended: "done" or "refused", what it said, and what it gave."""

    kind: str
    said: str
    value: Any = None


def draws_of(kind: str, number: int) -> random.Random:
    return random.Random(f"{SEED} {kind} {number}")


def numbered(count: int, short: int) -> Any:
    """A test for each number below `count`; those from `short` on are slow."""
    cases = [pytest.param(i, marks=() if i < short else pytest.mark.slow) for i in range(count)]
    return pytest.mark.parametrize("number", cases)


def _endless(*_: object) -> None:
    raise EndlessError(f"it has not ended after {LONGEST_SECONDS} seconds")


@contextmanager
def bounded() -> Iterator[None]:
    """The body ends, and does not fill the memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    handler = signal.signal(signal.SIGALRM, _endless)
    signal.alarm(LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < MOST_MEMORY, f"it took {grown:,} bytes"


def observed(call: Callable[[], Any]) -> Outcome:
    """What a call of the library gives; an error must be of a kind that is meant for users, and in words."""
    with bounded(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return Outcome("done", "", call())
        except (ValueError, OSError, RuntimeError) as error:
            said = "; ".join([str(error), *getattr(error, "__notes__", ())])
    _check_words(said)
    return Outcome("refused", said)


def command(*arguments: object) -> Outcome:
    """What a command does: exit code 0, or 2 with one message; anything else is a failure, an exception most of all."""
    out, err = io.StringIO(), io.StringIO()
    with bounded(), redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    said = err.getvalue()
    assert code in (0, 2), f"exit code {code}: {said}"
    assert "Traceback" not in said, said
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == (1 if code == 2 else 0), said
    if code == 2:
        _check_words(errors[0].removeprefix("error: "))
    return Outcome("refused" if code else "done", said, out.getvalue())


def _check_words(said: str) -> None:
    assert len(said.split()) >= 3, f"this says nothing: {said!r}"
    assert len(said) < 3000, f"this is too long to be read: {said[:300]!r}"
    assert "weights_only" not in said, said
    assert " object at 0x" not in said, said


def left_over(folder: Path) -> list[str]:
    """What is temporary in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if TEMPORARY.fullmatch(path.name))
