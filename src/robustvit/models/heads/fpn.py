"""Feature pyramid: four levels of a backbone -> maps of one width at strides 4 to 64; fine ones have seen the coarser."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["PYRAMID_STRIDES", "FeaturePyramid"]

PYRAMID_STRIDES = (4, 8, 16, 32, 64)
"""Of the maps; the last one is only for proposals."""


class FeaturePyramid(nn.Module):
    """1x1 laterals, top-down by nearest pixels, 3x3 outputs; the fifth map is every second pixel of the fourth.

    Args:
        channels: of the levels, finest first.
        strides: of the levels. Those of a network with one stride throughout, as ViT, are first brought to 4, 8, 16 and 32 by
            bilinear enlarging or by the mean of the pixels.
        width: of all maps.
    """

    def __init__(self, channels: Sequence[int], strides: Sequence[int], width: int = 256) -> None:
        super().__init__()
        self.is_pyramid = tuple(strides) == PYRAMID_STRIDES[: len(strides)]
        self.strides = tuple(strides)
        self.laterals = nn.ModuleList(nn.Conv2d(dim, width, 1) for dim in channels)
        self.outputs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in channels)
        for layer in (*self.laterals, *self.outputs):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, levels: Sequence[Tensor]) -> list[Tensor]:
        """Maps [B, C_i, H_i, W_i] -> five maps [B, width, ...]."""
        if not self.is_pyramid:
            levels = self._at_pyramid_strides(levels)
        maps = [lateral(level) for lateral, level in zip(self.laterals, levels, strict=True)]
        for i in range(len(maps) - 1, 0, -1):
            maps[i - 1] = maps[i - 1] + F.interpolate(maps[i], size=maps[i - 1].shape[2:], mode="nearest")
        outputs = [output(z) for output, z in zip(self.outputs, maps, strict=True)]
        return [*outputs, F.max_pool2d(outputs[-1], 1, stride=2)]

    def _at_pyramid_strides(self, levels: Sequence[Tensor]) -> list[Tensor]:
        out = []
        for level, own, wanted in zip(levels, self.strides, PYRAMID_STRIDES, strict=False):
            size = (-(-level.shape[2] * own // wanted), -(-level.shape[3] * own // wanted))
            if own < wanted:
                level = F.adaptive_avg_pool2d(level, size)
            elif own > wanted:
                level = F.interpolate(level, size=size, mode="bilinear", align_corners=False)
            out.append(level)
        return out
