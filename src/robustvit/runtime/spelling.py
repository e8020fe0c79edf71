"""The known names nearest to a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest"]

MARGIN = 0.15
"""Of the likeness from 0 to 1: names that are by so much less like the misspelt one than the nearest are not meant."""


def nearest(name: str, known: Iterable[str]) -> str:
    """ "; did you mean a, b or c?" for the names most like `name`, or nothing; not those that are much less like it."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    if close:
        bar = _likeness(name, close[0]) - MARGIN
        close = [other for other in close if _likeness(name, other) >= bar]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _likeness(name: str, other: str) -> float:
    """As `get_close_matches` computes it, whose words are the second sequence."""
    return difflib.SequenceMatcher(None, other, name).ratio()
