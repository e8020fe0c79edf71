"""JSON files of results that notice when they were damaged: they carry a checksum of their values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robustvit.runtime.files import write_whole

__all__ = ["CHECKSUM", "read_checked_json", "write_checked_json"]

CHECKSUM = "checksum"
"""Its key; it does not depend on the order of the others or on spaces."""


def write_checked_json(path: Path, values: Mapping[str, Any], *, allow_nan: bool = True) -> None:
    """Writes an object, whole or not at all, with a checksum as its last value."""
    text = json.dumps(values, allow_nan=allow_nan)
    with write_whole(path) as file:
        file.write_text(json.dumps({**values, CHECKSUM: _checksum(json.loads(text))}, indent=1) + "\n")


def read_checked_json(path: Path) -> dict[str, Any]:
    """The object in a file, without its checksum; one that has none, as of an earlier version, is taken as it is.

    Raises:
        ValueError: it is not JSON, no object, or not what was written.
    """
    stored = json.loads(path.read_text())
    if not isinstance(stored, dict):
        raise ValueError(f"it holds a {type(stored).__name__}, not an object")
    stated = stored.pop(CHECKSUM, None)
    if stated is not None and stated != _checksum(stored):
        raise ValueError(
            f'its values are not those that were written; remove "{CHECKSUM}" from it if they were edited on purpose'
        )
    return stored


def _checksum(values: Any) -> str:
    return hashlib.blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=16).hexdigest()
