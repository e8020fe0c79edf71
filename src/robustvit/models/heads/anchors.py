"""Anchors: boxes of one size and three shapes at every place of a map, unrounded, centred on (column, row) x stride."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["RATIOS", "anchors_of", "base_anchors", "is_inside"]

RATIOS = (0.5, 1.0, 2.0)
"""Height over width; the area is the same for all."""


def base_anchors(side: float, ratios: Sequence[float] = RATIOS) -> Tensor:
    """[ratios, 4]: the anchors around the origin whose area is side^2."""
    heights = side * torch.tensor(ratios).sqrt()
    widths = side / torch.tensor(ratios).sqrt()
    return torch.stack([-widths, -heights, widths, heights], dim=1) / 2


def anchors_of(size: tuple[int, int], stride: int, base: Tensor) -> Tensor:
    """The anchors [h * w * ratios, 4] of a map of (h, w) places, in the order row, column, ratio."""
    y, x = (torch.arange(count, device=base.device, dtype=base.dtype) * stride for count in size)
    y, x = torch.meshgrid(y, x, indexing="ij")
    shifts = torch.stack([x, y, x, y], dim=-1)  # h w 4
    return (shifts[:, :, None] + base).reshape(-1, 4)


def is_inside(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Which boxes [n, 4] lie within an image of (h, w) pixels, whose far edges do not count as within."""
    h, w = size
    return (boxes[:, :2] >= 0).all(1) & (boxes[:, 2] < w) & (boxes[:, 3] < h)
