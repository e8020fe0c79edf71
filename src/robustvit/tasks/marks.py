"""Marks that a task draws on images besides the colours of classes, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Mark"]


@dataclass(frozen=True)
class Mark:
    """One kind of mark.

    Attributes:
        meaning: in a few words.
        form: of the box.
        colour: "#rrggbb"; empty for that of a class.
    """

    meaning: str
    form: Literal["solid", "dashed", "crossed"]
    colour: str = ""
