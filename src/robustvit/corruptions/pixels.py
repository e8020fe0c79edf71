"""From bytes to the unit interval and back, and what a corruption is told besides its picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from robustvit.corruptions.parameters import Family
from robustvit.corruptions.randomness import Draws

__all__ = ["Setting", "empty_bytes", "store_bytes", "strips", "to_unit"]


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


def empty_bytes(images: Tensor) -> Tensor:
    """New uint8 memory of the shape of `images`, on their device, contiguous.

    On CPUs it comes from NumPy, which asks for huge pages: touching a large batch for the first time costs a quarter.
    """
    if images.device.type == "cpu":
        return torch.from_numpy(np.empty(tuple(images.shape), np.uint8))
    return torch.empty(images.shape, dtype=torch.uint8, device=images.device)


def to_unit(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """uint8 -> 0 .. 1."""
    return images.to(dtype).div_(255)


def store_bytes(values: Tensor, out: Tensor, *, cut: bool = True) -> None:
    """Grey levels of floating point, cut to 0 .. 255 and truncated, not rounded, as published. Overwrites `values`.

    `cut=False` is for values that lie within 0 .. 255, give or take a rounding error.
    """
    if cut:
        values.clamp_(0, 255)
    if values.device.type == "cpu":
        np.copyto(out.numpy(), values.numpy(), casting="unsafe")  # five times as fast as the conversion of torch
    else:
        out.copy_(values)


def strips(H: int, row: int, values: int = 2**16) -> list[slice]:
    """The rows of a picture in groups of about so many values, which stay in the cache between two operations.

    Args:
        H: rows.
        row: values in each.
        values: at least one row is taken; a picture of up to three times as many stays whole.
    """
    if H * row <= 3 * values:
        return [slice(0, H)]
    height = max(values // row, 1)
    return [slice(start, min(start + height, H)) for start in range(0, H, height)]
