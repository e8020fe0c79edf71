"""What a study found out about a network, in a form that can be stored and drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from robustvit.runtime.stored_work import Part

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """One study of one network.

    Attributes:
        definition: what was computed.
        numbers: name -> a number, a list of them or a text; what a reader would quote. None where there is no number.
        arrays: name -> array; what figures are drawn from.
        skipped: id -> why a image could not be read.
        half_precision: number -> by how much half precision changed it at most, in a short trial; empty in fp32.
    """

    definition: str
    numbers: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    half_precision: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", {name: _finite(value) for name, value in self.numbers.items()})

    def to_part(self) -> Part:
        """For `StoredWork`."""
        from robustvit.runtime.stored_work import Part  # studies import this file before arguments are understood

        values = {"definition": self.definition, "numbers": self.numbers, "skipped": dict(self.skipped)}
        return Part({**values, "half_precision": dict(self.half_precision)}, self.arrays)

    @staticmethod
    def from_part(part: Part) -> Finding:
        values = part.values
        return Finding(
            values["definition"], values["numbers"], part.arrays, values["skipped"], values.get("half_precision", {})
        )


def _finite(value: Any) -> Any:
    """As JSON has it: None instead of NaN and infinity."""
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
