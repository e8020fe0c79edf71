"""Convolutional patch embeddings: FAN-ViT's chain of strided convolutions and RVT's stem."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from robustvit.layers.image_groups import in_image_groups
from robustvit.layers.map_gelu import MapGELU
from robustvit.layers.token_grid import Grid, grid_of_image

__all__ = ["ConvPatchEmbed", "RVTStem", "check_image"]


def check_image(x: Tensor, in_chans: int, smallest: int, what: str) -> None:
    """Raises ValueError unless `x` is [B, in_chans, H, W] of floating point with both sides at least `smallest`."""
    if not x.is_floating_point():
        raise ValueError(f"{what} takes normalised floating-point images, got {x.dtype}; convert and normalise them first")
    if x.ndim != 4 or x.shape[1] != in_chans:
        raise ValueError(f"{what} takes images [B, {in_chans}, H, W], got {list(x.shape)}")
    if min(x.shape[2], x.shape[3]) < smallest:
        H, W = x.shape[2], x.shape[3]
        raise ValueError(f"{what} cannot take {H}x{W} pixels: it takes any size from {smallest}x{smallest} up")


class ConvPatchEmbed(nn.Module):
    """Units of 3x3 convolution with stride 2 and BatchNorm, GELU between them: 4 units for patches of 16, 3 for 8, 2 for 4.

    The padding makes the grid ceil(H / patch_size) x ceil(W / patch_size), for any image.
    """

    smallest = 1

    def __init__(self, dim: int, *, patch_size: int = 16, in_chans: int = 3) -> None:
        super().__init__()
        if patch_size not in (4, 8, 16):
            raise ValueError(f"patch_size={patch_size} is not possible: the strided convolutions give 4, 8 or 16")
        self.in_chans, self.patch_size = in_chans, patch_size
        widths = {16: [dim // 8, dim // 4, dim // 2, dim], 8: [dim // 4, dim // 2, dim], 4: [dim // 4, dim]}[patch_size]
        layers: list[nn.Module] = []
        for before, width in zip([in_chans, *widths], widths, strict=False):
            conv = nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False)
            layers += [nn.Sequential(conv, nn.BatchNorm2d(width)), MapGELU()]
        self.proj: Any = nn.Sequential(*layers[:-1])  # no activation after the last unit

    def grid_of(self, size: Grid) -> Grid:
        return grid_of_image(size, [(3, 2, 1)] * ((len(self.proj) + 1) // 2))

    def forward(self, x: Tensor) -> Tensor:
        """[B, in_chans, H, W] -> channels-last [B, C, Hp, Wp]."""
        check_image(x, self.in_chans, self.smallest, "this network")
        widest = self.proj[0][0].out_channels * x.shape[2] * x.shape[3] // 4
        return in_image_groups(self, self._forward, x, widest=widest)

    def _forward(self, x: Tensor) -> Tensor:
        return self.proj(x.contiguous(memory_format=torch.channels_last))

    def fold(self) -> None:
        for unit in self.proj:
            if isinstance(unit, nn.Sequential):
                conv, norm = unit
                if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                    unit[0], unit[1] = fuse_conv_bn_eval(conv, norm), nn.Identity()


class RVTStem(nn.Module):
    """7x7 convolution (stride 2, padding 2), BatchNorm, 3x3 max pool (stride 2), 4x4 convolution. No activation.

    `patch_size=4` is the branch for 32-pixel images: the last convolution becomes 1x1 with stride 1.
    """

    def __init__(self, dim: int, *, patch_size: int = 16, in_chans: int = 3) -> None:
        super().__init__()
        if patch_size not in (4, 16):
            raise ValueError(f"patch_size={patch_size} is not possible: the stem of RVT has stride 16 or 4")
        self.in_chans, self.patch_size = in_chans, patch_size
        last = patch_size // 4
        self.conv = nn.Conv2d(in_chans, 32, 7, stride=2, padding=2)
        self.norm: nn.Module = nn.BatchNorm2d(32)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.proj = nn.Conv2d(32, dim, last, stride=last)
        self.smallest = next(n for n in range(1, 64) if min(self.grid_of((n, n))) > 0)

    def grid_of(self, size: Grid) -> Grid:
        last = self.patch_size // 4
        return grid_of_image(size, [(7, 2, 2), (3, 2, 1), (last, last, 0)])

    def forward(self, x: Tensor) -> Tensor:
        """[B, in_chans, H, W] -> channels-last [B, C, Hp, Wp]."""
        check_image(x, self.in_chans, self.smallest, "this network")
        return in_image_groups(self, self._forward, x, widest=self.conv.out_channels * x.shape[2] * x.shape[3] // 4)

    def _forward(self, x: Tensor) -> Tensor:
        x = self.conv(x.contiguous(memory_format=torch.channels_last))
        return self.proj(self.pool(self.norm(x)))

    def fold(self) -> None:
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv, self.norm = fuse_conv_bn_eval(self.conv, self.norm), nn.Identity()
