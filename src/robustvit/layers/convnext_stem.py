"""The hybrid patch embedding of FAN: two ConvNeXt stages, then a strided projection to the width of the tokens.

The blocks are timm's, in their channels-last form: LayerNorm and the two 1x1 convolutions (as linear layers) work on
[B, H, W, C] without a copy. All norms are true LayerNorms; the released one divides by the unbiased variance on some
memory layouts, which moves logits by up to 9e-3.
"""

from __future__ import annotations

from functools import partial

import torch
from timm.layers import LayerNorm, LayerNorm2d, trunc_normal_
from timm.models.convnext import ConvNeXtBlock, ConvNeXtStage
from torch import Tensor, nn

from robustvit.layers.patch_embed import check_image
from robustvit.layers.token_grid import Grid, grid_of_image

__all__ = ["ConvNeXtStem"]


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
        norm = partial(LayerNorm2d, eps=1e-6)
        self.stem = nn.Sequential(nn.Conv2d(in_chans, widths[0], stem_patch, stem_patch), norm(widths[0]))
        self.stages = nn.ModuleList(
            ConvNeXtStage(
                before,
                width,
                stride=stride,
                depth=depth,
                ls_init_value=1e-6,
                norm_layer=norm,
                norm_layer_cl=partial(LayerNorm, eps=1e-6),
            )
            for before, width, stride, depth in zip((widths[0], widths[0]), widths, (1, 2), depths, strict=True)
        )
        for module in [*self.stem.modules(), *self.stages.modules()]:
            if isinstance(module, nn.Conv2d | nn.Linear):
                trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        self.proj = nn.Conv2d(widths[1], dim, 2, stride=2)

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

    def fold(self) -> None:
        for block in self.stages.modules():
            if isinstance(block, ConvNeXtBlock) and block.gamma is not None:
                block.mlp.fc2.weight.data.mul_(block.gamma.data[:, None])
                block.mlp.fc2.bias.data.mul_(block.gamma.data)
                block.gamma = None
