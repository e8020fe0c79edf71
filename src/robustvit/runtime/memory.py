"""Batches that do not fit memory: an error that says how large they were and what lowers that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["fits_memory", "is_out_of_memory"]

SIGNS = ("not enough memory", "can't allocate memory", "cannot allocate memory", "out of memory")
"""In a RuntimeError of PyTorch, for devices that do not raise an OutOfMemoryError."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it says that something did not fit memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in SIGNS)


@contextmanager
def fits_memory(pictures: int, size: tuple[int, int], remedy: str = "") -> Iterator[None]:
    """Says what to do where the work inside does not fit memory.

    Args:
        pictures: worked on at once.
        size: (H, W) of each, in pixels.
        remedy: what to do; by default, to lower their number or, of a single one, its size.

    Raises:
        RuntimeError: they do not fit.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
        if not is_out_of_memory(error):
            raise
        H, W = size
        pieces = "1 image" if pictures == 1 else f"{pictures} images"
        hint = remedy or ("--img-size lowers the size" if pictures == 1 else "--batch-size lowers the number")
        raise RuntimeError(f"{pieces} of {H}x{W} pixels at once do not fit memory; {hint}, or use another --device") from error
