"""Images as figures take them: which ones of a batch, and as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from robustvit.analysis.subject import Batch

__all__ = ["as_array", "in_8_bits", "places_in"]


def as_array(pixels: Tensor) -> np.ndarray:
    """[..., 3, H, W] -> [..., H, W, 3]."""
    return pixels.movedim(-3, -1).cpu().numpy()


def in_8_bits(pixels: Tensor) -> Tensor:
    """float in 0 .. 1 -> uint8."""
    return (pixels * 255).round().byte()


def places_in(batch: Batch, places: Mapping[str, int]) -> list[tuple[int, int]]:
    """(place in the batch, place in the figure) of the images of a batch that a figure shows.

    Args:
        batch: any.
        places: id -> place in the figure.
    """
    return [(i, places[name]) for i, name in enumerate(batch.ids) if name in places]
