"""Fourier position encoding: a function of the grid alone, so that any resolution works without interpolation."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from robustvit.layers.token_grid import Grid, map_to_tokens

__all__ = ["FourierPosition"]


class FourierPosition(nn.Module):
    """Sines and cosines of the row and the column at 16 frequencies, projected to the width of the tokens.

    Any grid is stretched onto (0, 2 pi] on both axes. Frequencies come in pairs: `w_j = 10000 ** (2 * floor(j / 2) / 32)`.
    (The published segmentation and detection copies leave the floor out; `paired=False` computes that.)
    """

    features = 32

    def __init__(self, dim: int, *, paired: bool = True) -> None:
        super().__init__()
        self.paired = paired
        self.proj = nn.Conv2d(2 * self.features, dim, 1)

    def forward(self, grid: Grid) -> Tensor:
        """Returns [1, N, C] in the dtype of the weights; the angles are always float32."""
        device = self.proj.weight.device
        j = torch.arange(self.features, dtype=torch.float32, device=device)
        w = 10000 ** (2 * ((j / 2).floor() if self.paired else j / 2) / self.features)

        def encode(n: int) -> Tensor:  # [n, features], sine at even j, cosine at odd j
            position = torch.arange(1, n + 1, dtype=torch.float32, device=device)
            angle = (2 * math.pi * position / (n + 1e-6))[:, None] / w
            return torch.stack((angle[:, 0::2].sin(), angle[:, 1::2].cos()), dim=2).flatten(1)

        rows, columns = encode(grid[0]), encode(grid[1])
        features = torch.cat((rows[:, None].expand(-1, grid[1], -1), columns[None].expand(grid[0], -1, -1)), dim=2)
        features = features.permute(2, 0, 1)[None].to(self.proj.weight.dtype)  # 1 2F Hp Wp
        return map_to_tokens(self.proj(features))
