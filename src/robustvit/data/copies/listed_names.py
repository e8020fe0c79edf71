"""Names of files in lists that have a line for each: any name that a file system allows, and back.

As `sha256sum` has it: a name with a backslash or the end of a line in it is escaped, and its line begins with a backslash.
Bytes that are no UTF-8 are written as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

__all__ = ["checksum_line", "listed_checksum", "listed_line", "open_list", "parsed_line"]

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


def open_list(path: Path, mode: str = "r") -> IO[str]:
    """Such a list as a text file, whose lines end with nothing but a newline."""
    return path.open(mode, encoding="utf-8", errors="surrogateescape", newline="\n")


def listed_line(before: str, name: str) -> str:
    """The line of a name, with what stands before it."""
    escaped = "".join(_ESCAPES.get(character, character) for character in name)
    return f"{'' if escaped == name else chr(92)}{before}{escaped}\n"


def parsed_line(line: str) -> str | None:
    """What `listed_line` was given, in one text; None for a line that a kill cut."""
    if not line.endswith("\n"):
        return None
    if not line.startswith("\\"):
        return line[:-1]
    parts = line[1:-1].split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\r", "\r") for part in parts)


def checksum_line(digest: str, name: str) -> str:
    """A line that `sha256sum -c` reads."""
    return listed_line(f"{digest}  ", name)


def listed_checksum(line: str) -> str | None:
    """The name in such a line; None for a line that a kill cut."""
    text = parsed_line(line)
    return None if text is None else text[66:]
