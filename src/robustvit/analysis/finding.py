"""What an analysis found about a network, in a form that can be stored and drawn."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from robustvit.files import write_whole

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """One analysis of one network.

    Attributes:
        definition: what was computed.
        numbers: name -> a number, a list of them or a text; what a reader would quote. None where there is no number.
        arrays: name -> array; what figures are drawn from.
        skipped: id -> why a picture could not be read.
    """

    definition: str
    numbers: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", {name: _finite(value) for name, value in self.numbers.items()})

    def save(self, path: Path) -> None:
        """Writes an .npz file."""
        texts = json.dumps({"definition": self.definition, "numbers": self.numbers, "skipped": dict(self.skipped)})
        with write_whole(path) as file, file.open("wb") as stream:
            np.savez_compressed(stream, texts=np.array(texts), **self.arrays)  # type: ignore[arg-type]

    @staticmethod
    def load(path: Path) -> Finding:
        """Reads what `save` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            texts = json.loads(str(stored["texts"]))
            arrays = {name: stored[name] for name in stored.files if name != "texts"}
        return Finding(texts["definition"], texts["numbers"], arrays, texts["skipped"])


def _finite(value: Any) -> Any:
    """As JSON has it: None instead of NaN and infinity."""
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
