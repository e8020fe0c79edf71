"""metrics.jsonl: a line for every logged update and every validation, in order, without gaps or repeats after a resume."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robustvit.runtime.files import explained, write_whole

__all__ = ["MetricsLog", "read_metrics"]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a log; damaged ones, and one that was cut off by a crash, are left out."""
    return [entry for entry in map(_entry, _lines(path)) if entry is not None]


def _lines(path: Path) -> list[bytes]:
    """Without the last one, if it was cut off."""
    return path.read_bytes().split(b"\n")[:-1] if path.is_file() else []


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    is_one = isinstance(entry, dict) and all(isinstance(entry.get(name), int | float) for name in ("update", "epoch"))
    return entry if is_one and ("loss" not in entry or {"terms", "lr"} <= entry.keys()) else None


class MetricsLog:
    """Appends to metrics.jsonl, and to TensorBoard's events where asked.

    Args:
        folder: of the run.
        updates_done: what comes after this update is dropped: the run goes on from here.
        tensorboard: also write events (extra `track`).

    Attributes:
        notes: lines of before that were damaged, and are dropped.
    """

    def __init__(self, folder: Path, updates_done: int, tensorboard: bool = False) -> None:
        self.path = folder / "metrics.jsonl"
        damaged = [str(number) for number, line in enumerate(_lines(self.path), start=1) if _entry(line) is None]
        self.notes = [f"lines of metrics.jsonl were damaged and are gone: {', '.join(damaged)}"] if damaged else []
        kept = [entry for entry in read_metrics(self.path) if entry["update"] <= updates_done]
        with write_whole(self.path) as file:
            file.write_text("".join(json.dumps(entry) + "\n" for entry in kept))
        self.events = _events(folder / "tensorboard", updates_done) if tensorboard else None

    def write(self, entry: Mapping[str, Any]) -> None:
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(_finite(entry)) + "\n")
        except OSError as error:
            raise explained(error, self.path.parent) from error
        if self.events is not None:
            for name, value in _flat(entry).items():
                self.events.add_scalar(name, value, entry["update"])

    def close(self) -> None:
        if self.events is not None:
            self.events.close()


def _finite(value: Any) -> Any:
    """With None for what JSON cannot say: a norm that overflowed, which the loss scaler takes care of."""
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _events(folder: Path, updates_done: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise RuntimeError("loop.tensorboard needs TensorBoard: pip install 'robustvit[track]'") from error
    return SummaryWriter(str(folder), purge_step=updates_done + 1)


def _flat(entry: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    flat: dict[str, float] = {}
    for name, value in entry.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{name}/"))
        elif isinstance(value, int | float) and name not in ("update", "epoch"):
            flat[f"{prefix}{name}"] = float(value)
    return flat
