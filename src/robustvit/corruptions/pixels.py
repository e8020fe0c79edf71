"""From bytes to the unit interval and back, and the setting that a corruption gets besides its images."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from robustvit.corruptions.parameters import Family
from robustvit.runtime.randomness import Draws

__all__ = ["Setting", "empty_bytes", "store_bytes", "strips", "to_unit"]


@dataclass(frozen=True)
class Setting:
    """What a corruption gets besides images and parameters.

    Attributes:
        family: whose rules apply where the families differ in more than parameters.
        draws: the randomness, for as many images as there are.
        frost_folder: photographs of frost to use instead of the generated ones.
    """

    family: Family
    draws: Draws
    frost_folder: Path | None = None


def empty_bytes(images: Tensor) -> Tensor:
    """uint8 memory of the shape of `images`, on their device, contiguous, with anything in it."""
    if images.device.type == "cpu":
        return torch.from_numpy(_BUFFERS.take(images.numel())).view(images.shape)
    return torch.empty(images.shape, dtype=torch.uint8, device=images.device)


class _Buffers:
    """Memory of earlier results that are no longer referenced, for the next results of the same size.

    A system hands out new memory page by page, which takes longer than a cheap corruption. At most `most` bytes are kept.
    Whether a buffer is free is told by its references: the tensor made of it, and whatever shares its memory, holds one.
    """

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most
        self.arrays: list[np.ndarray] = []
        self.lock = threading.Lock()

    def take(self, count: int) -> np.ndarray:
        """uint8 [count], not in use elsewhere."""
        if not self.least <= count <= self.most:
            return np.empty(count, np.uint8)
        with self.lock:
            free = [i for i in range(len(self.arrays)) if sys.getrefcount(self.arrays[i]) == _UNUSED]
            found = next((self.arrays[i] for i in free if len(self.arrays[i]) == count), None)
            if found is not None:
                return found
            for i in reversed(free):  # another size is wanted now
                del self.arrays[i]
            array = np.empty(count, np.uint8)  # large ones come in huge pages
            if sum(map(len, self.arrays)) + count <= self.most:
                self.arrays.append(array)
            return array


_PROBE = [np.empty(0)]
_UNUSED = sys.getrefcount(_PROBE[0])
"""References to an array that only a list has, while they are counted."""
_BUFFERS = _Buffers(least=2**20, most=2**26)


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
    """The rows of an image in groups of about so many values, which stay in the cache between two operations.

    Args:
        H: rows.
        row: values in each.
        values: at least one row is taken; an image of up to three times as many stays whole.
    """
    if H * row <= 3 * values:
        return [slice(0, H)]
    height = max(values // row, 1)
    return [slice(start, min(start + height, H)) for start in range(0, H, height)]
