"""The hybrid patch embedding of FAN: two ConvNeXt stages, then a strided projection to the width of the tokens.

Everything stays channels-last: LayerNorm and the two 1x1 convolutions (as linear layers) work on [B, H, W, C] without a copy.
All norms are true LayerNorms; the released one divides by the unbiased variance on some memory layouts, which moves
logits by up to 9e-3.
"""

from __future__ import annotations

from typing import Any

import torch
from timm.layers import LayerNorm2d, Mlp, trunc_normal_
from timm.models import checkpoint_seq
from torch import Tensor, nn

from robustvit.layers.image_groups import in_image_groups
from robustvit.layers.patch_embed import check_image
from robustvit.layers.residual import add_branch
from robustvit.layers.token_grid import Grid, grid_of_image

__all__ = ["ConvNeXtStem"]


class ConvNeXtBlock(nn.Module):
    """`x + gamma * MLP(LN(DW7x7(x)))`."""

    gamma: nn.Parameter | None

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv_dw = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, 4 * dim)
        self.gamma = nn.Parameter(self.norm.weight.new_full((dim,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        """Channels-last [B, C, H, W] -> the same."""
        y = self.mlp(self.norm(self.conv_dw(x).permute(0, 2, 3, 1)))  # B C H W -> B H W C
        return add_branch(x.permute(0, 2, 3, 1), y, self.gamma, nn.Identity()).permute(0, 3, 1, 2)

    def fold(self) -> None:
        """Moves gamma into the last linear layer."""
        if self.gamma is not None:
            self.mlp.fc2.weight.data.mul_(self.gamma.data[:, None])
            self.mlp.fc2.bias.data.mul_(self.gamma.data)
            self.gamma = None


class ConvNeXtStage(nn.Module):
    """Blocks of one width, after halving the map where the width changes."""

    def __init__(self, in_dim: int, dim: int, depth: int) -> None:
        super().__init__()
        self.grad_checkpointing = False
        self.downsample: nn.Module = nn.Identity()
        if in_dim != dim:
            self.downsample = nn.Sequential(LayerNorm2d(in_dim, eps=1e-6), nn.Conv2d(in_dim, dim, 2, stride=2))
        self.widest_per_pixel = 4 * dim // (4 if in_dim != dim else 1)  # of the map that comes in
        self.blocks = nn.Sequential(*(ConvNeXtBlock(dim) for _ in range(depth)))

    def forward(self, x: Tensor) -> Tensor:
        """Channels-last [B, in_dim, H, W] -> [B, dim, H', W']."""
        return in_image_groups(self, self._forward, x, widest=self.widest_per_pixel * x.shape[2] * x.shape[3])

    def _forward(self, x: Tensor) -> Tensor:
        x = self.downsample(x)
        return checkpoint_seq(self.blocks, x) if self.grad_checkpointing else self.blocks(x)


class ConvNeXtStem(nn.Module):
    """Strides `stem_patch`, `2 * stem_patch` (the two stages) and `4 * stem_patch` (the tokens).

    Args:
        dim: width of the tokens.
        depths: ConvNeXt blocks in each stage.
        widths: channels of each stage.
        stem_patch: kernel and stride of the first convolution.
        in_chans: channels of the image.
    """

    def __init__(
        self,
        dim: int,
        *,
        depths: tuple[int, int] = (3, 3),
        widths: tuple[int, int] = (128, 256),
        stem_patch: int = 4,
        in_chans: int = 3,
    ) -> None:
        super().__init__()
        self.in_chans, self.stem_patch = in_chans, stem_patch
        self.widths, self.patch_size = widths, 4 * stem_patch
        self.smallest = self.patch_size
        self.stem = nn.Sequential(nn.Conv2d(in_chans, widths[0], stem_patch, stem_patch), LayerNorm2d(widths[0], eps=1e-6))
        self.stages: Any = nn.ModuleList(
            ConvNeXtStage(before, width, depth)
            for before, width, depth in zip((widths[0], *widths), widths, depths, strict=False)
        )
        for module in [*self.stem.modules(), *self.stages.modules()]:
            if isinstance(module, nn.Conv2d | nn.Linear):
                trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        self.proj: Any = nn.Conv2d(widths[1], dim, 2, stride=2)

    def grid_of(self, size: Grid) -> Grid:
        return grid_of_image(size, [(self.stem_patch, self.stem_patch, 0), (2, 2, 0), (2, 2, 0)])

    def forward_levels(self, x: Tensor) -> list[Tensor]:
        """[B, in_chans, H, W] -> the raw output of both stages and the token map, all channels-last [B, C, H', W']."""
        check_image(x, self.in_chans, self.smallest, "this hybrid network")
        x = self.stem(x.contiguous(memory_format=torch.channels_last))
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        return [*levels, self.proj(x)]

    def forward(self, x: Tensor) -> Tensor:
        """[B, in_chans, H, W] -> channels-last [B, dim, Hp, Wp]."""
        return self.forward_levels(x)[-1]
