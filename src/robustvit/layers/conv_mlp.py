"""FAN's MLP: two linear layers with a pair of depth-wise convolutions between them.

There is no activation outside the convolutions; theirs is the only non-linearity (FAN paper, Eq. 2, has a plain GELU MLP).
"""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional as F

from robustvit.layers.image_groups import in_image_groups
from robustvit.layers.map_gelu import MapGELU
from robustvit.layers.token_grid import Grid, map_to_tokens, tokens_to_map

__all__ = ["ConvMlp", "init_by_fan_out"]


def init_by_fan_out(conv: nn.Conv2d) -> None:
    """Normal weights of std sqrt(2 / (k * k * out / groups)), zero bias."""
    fan_out = math.prod(conv.kernel_size) * conv.out_channels // conv.groups
    nn.init.normal_(conv.weight, std=math.sqrt(2 / fan_out))
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)


class DepthwisePair(nn.Module):
    """3x3 depth-wise convolution, GELU, BatchNorm, 3x3 depth-wise convolution, in this order."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)
        self.act = MapGELU()
        self.norm = nn.BatchNorm2d(dim)
        self.conv2 = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)
        init_by_fan_out(self.conv1)
        init_by_fan_out(self.conv2)

    def forward(self, x: Tensor, gamma: Tensor | None) -> Tensor:
        """Channels-last [B, C, Hp, Wp] -> the same, times `gamma` [C].

        Scaling the 9 weights of a channel instead of its map saves a pass over the map here, three in the backward pass, and
        a map to be kept for it.
        """
        x = self.norm(self.act(self.conv1(x)))
        if gamma is None:
            return self.conv2(x)
        weight, bias = gamma[:, None, None, None] * self.conv2.weight, gamma * self.conv2.bias  # type: ignore[operator]
        return F.conv2d(x, weight, bias, padding=1, groups=x.shape[1])


class ConvMlp(nn.Module):
    """`fc2(t + gamma * DW(t))` with `t = fc1(x)`; without `residual` (FAN-Swin), `fc2(gamma * DW(t))`."""

    gamma: nn.Parameter | None

    def __init__(self, dim: int, *, hidden_dim: int, residual: bool = True, drop: float = 0.0) -> None:
        super().__init__()
        self.residual = residual
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.dwconv = DepthwisePair(hidden_dim)
        self.gamma = nn.Parameter(self.fc1.weight.new_ones(hidden_dim))
        self.fc2 = nn.Linear(hidden_dim, dim)
        self.drop = nn.Dropout(drop) if drop > 0 else nn.Identity()

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        """[B, N, C] -> [B, N, C]."""
        widest = x.shape[1] * self.fc1.out_features
        return in_image_groups(self, lambda t: self._forward(t, grid), x, widest=widest)

    def _forward(self, x: Tensor, grid: Grid) -> Tensor:
        t = self.fc1(x)
        y = self.drop(map_to_tokens(self.dwconv(tokens_to_map(t, grid), self.gamma)))
        return self.drop(self.fc2(t + y if self.residual else y))

    def fold(self) -> None:
        """Moves gamma into the second convolution. The BatchNorm stays: zero padding follows its shift."""
        if self.gamma is not None:
            conv = self.dwconv.conv2
            conv.weight.data.mul_(self.gamma.data[:, None, None, None])
            conv.bias.data.mul_(self.gamma.data)  # type: ignore[union-attr]
            self.gamma = None
