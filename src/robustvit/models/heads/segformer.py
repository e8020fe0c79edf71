"""SegFormer's head: every level becomes equally wide, then all of them are read together at the finest stride.

As published, each level is embedded, enlarged to the finest stride and concatenated, and one wide product reads all of them:
four fifths of the operations of a segmenter with a small backbone. Embedding, enlarging and that product are linear, and a
product over channels commutes with enlarging. So here both products of a level are one, at the level's own stride, and their
results are enlarged and added: the same to rounding, without the concatenated map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

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
        bias, weights = self._products()
        by_size: dict[tuple[int, int], Tensor] = {}
        for i, (weight, level) in enumerate(zip(weights, levels, strict=True)):
            size = (level.shape[2], level.shape[3])
            z = F.linear(map_to_tokens(level), weight, None if i else bias)  # enlarging keeps a constant
            z = tokens_to_map(z, size)
            by_size[size] = by_size[size].add_(z) if size in by_size else z
        (finest, total), *others = by_size.items()
        for _, z in others:
            total = total.add_(F.interpolate(z, finest, mode="bilinear", align_corners=False))
        return self.classifier(self.drop(self.fuse.finish(total)))

    def _products(self) -> tuple[Tensor, list[Tensor]]:
        """Embedding and wide product in one: a bias [E] for all levels, and a weight [E, C_i] of each, finest first."""
        conv, embeds = self.fuse.conv, [cast(nn.Linear, embed) for embed in self.embeds]
        parts = conv.weight[:, :, 0, 0].chunk(len(embeds), dim=1)[::-1]  # E E; the concatenation has the last level first
        biases = [part @ embed.bias for part, embed in zip(parts, embeds, strict=True)]
        biases += [conv.bias] if conv.bias is not None else []  # of a folded BatchNorm
        return torch.stack(biases).sum(0), [part @ embed.weight for part, embed in zip(parts, embeds, strict=True)]
