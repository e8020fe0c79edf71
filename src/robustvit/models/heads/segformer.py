"""SegFormer's head: every level becomes equally wide, then all of them are read together at the finest stride."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustvit.layers.token_grid import map_to_tokens, tokens_to_map
from robustvit.models.heads.conv_unit import ConvUnit

__all__ = ["SegFormerHead"]


class SegFormerHead(nn.Module):
    """A linear layer per level, resizing to level 0, concatenation from the last level to the first, 1x1 unit, classifier.

    Args:
        channels: of the levels, finest first.
        num_classes: of the logits.
        embed_dim: width of every level; 768 in all published segmenters.
        drop_rate: of whole channels before the classifier.
    """

    def __init__(self, channels: Sequence[int], num_classes: int, *, embed_dim: int = 768, drop_rate: float = 0.1) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.embeds = nn.ModuleList(nn.Linear(dim, embed_dim) for dim in channels)
        self.fuse = ConvUnit(len(channels) * embed_dim, embed_dim, kernel=1)
        self.drop = nn.Dropout2d(drop_rate)
        self.reset_classifier(num_classes)

    def reset_classifier(self, num_classes: int) -> None:
        """A fresh classifier."""
        self.classifier = nn.Conv2d(self.embed_dim, num_classes, 1)

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        """Maps [B, C_i, H_i, W_i] -> logits [B, K, H_0, W_0]."""
        size = levels[0].shape[2:]
        maps = []
        for embed, level in zip(self.embeds, levels, strict=True):
            z = tokens_to_map(embed(map_to_tokens(level)), (level.shape[2], level.shape[3]))
            maps.append(z if z.shape[2:] == size else F.interpolate(z, size, mode="bilinear", align_corners=False))
        return self.classifier(self.drop(self.fuse(torch.cat(maps[::-1], dim=1))))
