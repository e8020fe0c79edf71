"""Tables for other programs: CSV in which a text stays a text."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from robustvit.runtime.files import write_whole

__all__ = ["csv_cell", "csv_text", "write_csv"]

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""With these, spreadsheets take a text for a formula and run it."""


def write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Writes rows, the heading first, whole or not at all."""
    with write_whole(path) as file, file.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
        csv.writer(stream).writerows([csv_cell(value) for value in row] for row in rows)


def csv_cell(value: Any) -> Any:
    """A value as it is written: None and NaN as nothing, a text that would be a formula behind an apostrophe.

    Texts that are numbers, such as "-1", are numbers.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str | Path) and str(value).startswith(_FORMULAS) and not _is_number(str(value)):
        return f"'{value}"
    return value


def csv_text(cell: str) -> str:
    """A text as it was before `csv_cell`."""
    return cell[1:] if cell.startswith("'") and csv_cell(cell[1:]) == cell else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
