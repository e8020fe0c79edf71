"""The command line: a table of commands, one file each.

Help and a misspelt command need none of the heavy packages: the module of a command is imported when it runs, and imports
torch only after its arguments are understood (but for `attack`, whose flags are the options of the attacks).
"""

from __future__ import annotations

import difflib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import NamedTuple, TextIO

from robustvit.cli.one_line_warnings import one_line_warnings
from robustvit.runtime.interruption import Interruption, catching_signals
from robustvit.runtime.kept_memory import keep_memory
from robustvit.runtime.ranks import is_first_process

__all__ = ["COMMANDS", "Command", "main"]


class Command(NamedTuple):
    """The function named like the command in `module`; its signature and docstring are the command's options and help."""

    module: str
    summary: str


COMMANDS = {
    "models": Command("robustvit.cli.models", "list the networks: size, input, strides, published weights"),
    "export": Command("robustvit.cli.export", "write a network to an ONNX or PyTorch (.pt2) file, checked against eager"),
    "recipes": Command("robustvit.cli.recipes", "list the recipes that train and sweep accept by name, with their scores"),
    "train": Command("robustvit.cli.train", "train a network from a recipe: TAP, ADL, AFAT, STL on any backbone"),
    "eval": Command("robustvit.cli.eval", "measure how much of a classifier's accuracy survives corruptions and shifts"),
    "predict": Command("robustvit.cli.predict", "write what a network says about images or a film: maps, overlays, answers"),
    "analyze": Command("robustvit.cli.analyze", "look inside networks: attention, stability, token clusters, noise"),
    "sweep": Command("robustvit.cli.sweep", "train and measure a grid of settings and seeds (ablations): mean and spread"),
    "attack": Command("robustvit.cli.attack", "measure how much of a network's accuracy survives attacks on its images"),
    "corrupt": Command("robustvit.cli.corrupt", "write a corrupted copy of a dataset: ImageNet-C, Cityscapes-C, COCO-C"),
    "demo": Command("robustvit.cli.demo", "train a plain and a robust network in minutes, measure both, write a report"),
}

USER_ERRORS = (ValueError, OSError, RuntimeError, MemoryError)
"""Raised for wrong arguments, files and checkpoints, and missing packages. Any other exception is a bug: traceback."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code: 0, 2 for a user error, 130 after Ctrl-C, 143 after SIGTERM.

    Args:
        arguments: what follows `robustvit`; None takes the arguments of the process.
    """
    for stream in (sys.stdout, sys.stderr):  # file names may contain bytes that are not text
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    name, *rest = [*(sys.argv[1:] if arguments is None else arguments)] or ["--help"]
    if name in ("-h", "--help"):
        print(_help())
        return 0
    if name == "--version":
        from robustvit import __version__

        print(f"robustvit {__version__}")
        return 0
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else ""
        print(f"error: unknown command {name!r}{hint} (commands: {', '.join(COMMANDS)})", file=sys.stderr)
        return 2
    keep_memory()
    plain = nullcontext() if sys.flags.dev_mode else one_line_warnings()
    with plain, catching_signals(is_program=arguments is None) as interruption:
        return _run(name, rest, interruption)


def _help() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            "usage: robustvit COMMAND [OPTIONS]",
            "",
            "Vision transformers that keep working when the image does not.",
            "",
            "commands:",
            *(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()),
            "",
            "robustvit COMMAND --help shows the options of a command; robustvit --version shows the version.",
        ]
    )


def _run(name: str, arguments: list[str], interruption: Interruption) -> int:
    try:
        import tyro

        function = getattr(importlib.import_module(COMMANDS[name].module), name)
        tyro.cli(function, prog=f"robustvit {name}", args=arguments, config=(tyro.conf.FlagCreatePairsOff,))
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        _say_stopped(getattr(error, "__notes__", ()))
        return interruption.exit_code
    except USER_ERRORS as error:
        if isinstance(error, BrokenPipeError) and _has_lost_its_reader(sys.stdout):  # as in `robustvit models | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        if sys.flags.dev_mode:  # python -X dev -m robustvit ...
            raise
        with suppress(OSError):  # stderr may be closed
            print("; ".join([f"error: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 2
    return 0


def _has_lost_its_reader(stream: TextIO) -> bool:
    """Whether the reader of this stream is gone; the pipe that broke may be another one."""
    try:
        stream.flush()
    except BrokenPipeError:
        return True
    return False


def _say_stopped(notes: Sequence[str]) -> None:
    """Once, even if several processes stop; stderr may be closed."""
    if is_first_process():
        with suppress(OSError):
            print("; ".join(["stopped", *notes]), file=sys.stderr)
