"""Settings are numbers that can be computed with: finite, and no larger than anything sensible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

__all__ = ["check_numbers"]

LARGEST = 2**31 - 1
"""Of whole numbers, but for seeds."""
LARGEST_SEED = 2**63 - 1


def check_numbers(value: Any, where: str = "") -> None:
    """Looks through settings: dataclasses, dictionaries and lists, one inside another.

    Args:
        value: of any kind; only numbers are looked at.
        where: its name, with dots.

    Raises:
        ValueError: a number in it is infinite, NaN or too large.
    """
    inside: Iterable[tuple[Any, Any]] = ()
    if is_dataclass(value):
        inside = [(entry.name, getattr(value, entry.name)) for entry in fields(value)]
    elif isinstance(value, Mapping):
        inside = value.items()
    elif isinstance(value, list | tuple):
        for entry in value:
            check_numbers(entry, where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where}={value} is not possible; give a finite number")
    elif isinstance(value, int):
        most = LARGEST_SEED if where.rpartition(".")[2] == "seed" else LARGEST
        if abs(value) > most:
            shown = value if abs(value) < 10**40 else "a number of many digits"
            raise ValueError(f"{where}={shown} is not possible; give at most {most}")
    for name, entry in inside:
        check_numbers(entry, f"{where}.{name}" if where else str(name))
