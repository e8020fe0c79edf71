"""Checkpoints of a run: whole or not at all, the last good one always there, read as weights only.

Everything random is a function of (seed, update), so a checkpoint holds no generator: network, averages, optimizer, loss
scaler, the methods' own state, and the number of updates done.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from robustvit.runtime.files import write_whole
from robustvit.runtime.weights import CheckpointError, load_checked, reader_error

__all__ = ["Checkpoints", "Found", "method_state"]

FORMAT = "robustvit training 2"
_NAME = re.compile(r"checkpoint-(\d+)\.pt")


@dataclass(frozen=True)
class Found:
    """The newest checkpoint that can be used.

    Attributes:
        state: what was saved.
        path: its file.
        passed_over: newer files that cannot be used, with the reason.
    """

    state: dict[str, Any]
    path: Path
    passed_over: tuple[tuple[Path, str], ...]


class Checkpoints:
    """The checkpoints in a folder.

    Args:
        folder: made with the first checkpoint.
        keep: how many of the latest to keep.
        fingerprint: of the run's configuration: checkpoints of another run are passed over; "" takes those of any.
    """

    def __init__(self, folder: Path, keep: int, fingerprint: str = "") -> None:
        self.folder, self.keep, self.fingerprint = folder, max(1, keep), fingerprint

    def files(self) -> list[Path]:
        """The files, newest first."""
        files = self.folder.glob("checkpoint-*.pt") if self.folder.is_dir() else ()
        return sorted((f for f in files if _NAME.fullmatch(f.name) and f.is_file()), key=_update_of, reverse=True)

    def save(self, state: dict[str, Any]) -> Path:
        """Writes a checkpoint, and removes the oldest only then."""
        if not self.folder.parent.is_dir():
            raise FileNotFoundError(f"the folder of the run, {self.folder.parent}, is gone; the run cannot be saved and stops")
        self.folder.mkdir(exist_ok=True)
        path = self.folder / f"checkpoint-{state['update']:08d}.pt"
        with write_whole(path) as file:
            about = {"format": FORMAT, "fingerprint": self.fingerprint, "parts": _digest_of_parts(state)}
            _save({**about, **state}, file)
        done = [file for file in self.files() if _update_of(file) <= state["update"]]  # newer ones could not be used
        for old in done[self.keep :]:
            old.unlink(missing_ok=True)
        return path

    def newest(self, use: Callable[[dict[str, Any]], None] | None = None) -> Found | None:
        """The newest usable checkpoint; None where there is none at all.

        Args:
            use: takes the state; one that it raises CheckpointError for is passed over.

        Raises:
            CheckpointError: there are checkpoints, and none can be used.
        """
        passed_over: list[tuple[Path, str]] = []
        for path in self.files():
            try:
                state = self._load(path)
                if use is not None:
                    use(state)
                return Found(state, path, tuple(passed_over))
            except CheckpointError as error:
                passed_over.append((path, str(error)))
        if passed_over:
            told = "; ".join(f"{path.name}: {reason}" for path, reason in passed_over)
            raise CheckpointError(f"no checkpoint in {self.folder} can be used ({told}); start the run in another folder")
        return None

    def _load(self, path: Path) -> dict[str, Any]:
        state = _load(path)
        stored = state.get("fingerprint")
        if self.fingerprint and stored and stored != self.fingerprint:
            raise CheckpointError("it is of a run with another configuration")
        return state


def method_state(place: str | Path, method: str) -> dict[str, Any]:
    """What a method of a run has learned.

    Args:
        place: the folder of the run, whose newest checkpoint counts, or a checkpoint.
        method: its name, e.g. "afat".

    Raises:
        FileNotFoundError: there is nothing at `place`.
        CheckpointError: it is no run, or one without this method.
    """
    path = Path(place)
    if path.is_dir():
        found = Checkpoints(path / "checkpoints", 1).newest()
        if found is None:
            raise CheckpointError(f"there are no checkpoints in {path / 'checkpoints'}; give the folder of a training run")
        state, path = found.state, found.path
    elif path.is_file():
        try:
            state = _load(path)
        except CheckpointError as error:
            raise CheckpointError(f"{path} cannot be used: {error}") from error
    else:
        raise FileNotFoundError(f"there is no {path}; give the folder of a training run, or one of its checkpoints")
    methods = state.get("methods")
    if not isinstance(methods, dict):
        raise CheckpointError(f"{path} lacks the state of its methods; it is damaged, or was not saved by a training run")
    if method not in methods:
        known = ", ".join(map(str, methods)) or "none"
        raise CheckpointError(f"{path} is of a run without {method} (its methods: {known}); train with methods.{method}={{}}")
    return methods[method]


def _save(state: dict[str, Any], file: Path) -> None:
    with file.open("wb") as stream:  # Python's own, which says what is wrong with the disk
        try:
            torch.save(state, stream)
        except RuntimeError as error:  # after a write that failed, torch raises another error about what is missing
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def _update_of(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else -1


def _load(path: Path) -> dict[str, Any]:
    """Reads a checkpoint, weights only, after checking the sums of all its parts."""
    try:
        state = load_checked(path)
    except Exception as error:  # torch.load raises nearly anything for a file that is not its own
        raise CheckpointError(f"it cannot be read: {reader_error(error)}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"it is not a checkpoint of a training run (expected {FORMAT!r})")
    about = ("format", "fingerprint", "parts")
    if state.get("parts") != _digest_of_parts({name: part for name, part in state.items() if name not in about}):
        raise CheckpointError("parts of it are missing, or are not those that were saved")
    return state


def _digest_of_parts(state: Any) -> str:
    """Of the names, shapes and plain values in it; the contents of tensors have sums of their own in the file."""
    digest = hashlib.blake2b(digest_size=16)

    def add(name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            digest.update(f"{name} {tuple(value.shape)} {value.dtype}\n".encode())
        elif isinstance(value, Mapping | list | tuple):
            pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
            digest.update(f"{name} {len(value)}\n".encode())
            for key, entry in pairs:
                add(f"{name}/{key!r}", entry)
        else:
            digest.update(f"{name} {value!r}\n".encode())

    add("", state)
    return digest.hexdigest()
