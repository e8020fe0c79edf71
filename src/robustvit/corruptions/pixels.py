"""From bytes to the unit interval and back, and what a corruption is told besides its picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from robustvit.corruptions.parameters import Family
from robustvit.corruptions.randomness import Draws

__all__ = ["Setting", "to_bytes", "to_unit"]


@dataclass(frozen=True)
class Setting:
    """What a corruption is told besides pictures and parameters.

    Attributes:
        family: whose rules apply where the families differ in more than parameters.
        draws: the randomness, for as many pictures as there are.
        frost_folder: photographs of frost to use instead of the generated ones.
    """

    family: Family
    draws: Draws
    frost_folder: Path | None = None


def to_unit(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """uint8 -> 0 .. 1."""
    return images.to(dtype).div_(255)


def to_bytes(values: Tensor) -> Tensor:
    """0 .. 1 -> uint8: cut to the interval, then truncated, not rounded, as published. Overwrites `values`."""
    return values.clamp_(0, 1).mul_(255).to(torch.int16).to(torch.uint8)  # the direct conversion is not vectorised
