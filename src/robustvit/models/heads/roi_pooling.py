"""What a region shows: aligned RoIAlign on the map that fits its size, with as many samples as a bin has pixels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchvision.ops import roi_align

__all__ = ["pool_regions", "region_levels"]

FINEST_SCALE = 56
"""Regions of twice this side and less are read on the finest map."""


def region_levels(boxes: Tensor, levels: int = 4) -> Tensor:
    """int64 [n]: which map each box [n, 4] is read on."""
    side = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).sqrt()
    return (side / FINEST_SCALE + 1e-6).log2().floor().clamp(0, levels - 1).long()


def pool_regions(maps: Sequence[Tensor], strides: Sequence[int], boxes: Sequence[Tensor], side: int) -> Tensor:
    """The regions of all images, one after the other: [sum of n, C, side, side].

    Args:
        maps: [B, C, H_i, W_i], finest first.
        strides: of the maps.
        boxes: [n, 4] of each image, in pixels of the input.
        side: of the result.
    """
    everything = torch.cat(list(boxes))
    owners = torch.cat([torch.full((len(b), 1), float(i), device=b.device) for i, b in enumerate(boxes)])
    regions = torch.cat([owners.to(everything.dtype), everything], dim=1)
    levels = region_levels(everything, len(maps))
    pooled = maps[0].new_zeros(len(everything), maps[0].shape[1], side, side)
    for i, (level, stride) in enumerate(zip(maps, strides, strict=True)):
        places = (levels == i).nonzero().flatten()
        if len(places) or level.requires_grad:  # an unread map still gets its gradient, which is 0
            # in float32 whatever the maps: half precision would move a box by pixels
            own = roi_align(level.float(), regions[places].float(), side, 1 / stride, sampling_ratio=0, aligned=True)
            pooled = pooled.index_put((places,), own.to(pooled.dtype))
    return pooled
