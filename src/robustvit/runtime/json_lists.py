"""Long lists as JSON files, entry by entry: they need not fit into memory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from robustvit.runtime.files import write_whole

__all__ = ["write_json_list"]


def write_json_list(path: Path, entries: Iterable[Any]) -> None:
    """Writes a list, an entry per line, whole or not at all."""
    with write_whole(path) as file, file.open("w", encoding="utf-8") as stream:
        separator = "[\n"
        for entry in entries:
            stream.write(separator + json.dumps(entry, allow_nan=False))
            separator = ",\n"
        stream.write("[]\n" if separator == "[\n" else "\n]\n")
