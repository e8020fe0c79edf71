"""Segmenters: a backbone of any family, and a head that gives every pixel its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from robustvit.models.dense import DenseNetwork
from robustvit.models.heads.segformer import SegFormerHead
from robustvit.models.heads.setr import SETRHead
from robustvit.models.levels import Backbone
from robustvit.models.published_tensors import segmentation_head_weights

__all__ = ["AUXILIARY_WEIGHT", "Segmenter", "build_segmenter"]

AUXILIARY_WEIGHT = 0.4
"""Of the loss of each auxiliary head."""
_NARROW = 128
"""A network whose widest level has no more channels gets a SegFormer head of this width: the nano sizes."""


class Segmenter(DenseNetwork):
    """A backbone with a segmentation head.

    Args:
        backbone: what gives the levels.
        num_classes: of the logits.
        decode_head: the levels it is said to take -> logits.
        auxiliary_heads: one for each of the first levels, which help in training only; they may be none.
        takes_levels: whether `decode_head` takes all levels, or the last one.
    """

    task = "segmentation"
    classifier = "decode_head.classifier"
    from_published = staticmethod(segmentation_head_weights)
    unread_parts = ("decode_head.conv_seg.weight", "decode_head.conv_seg.bias")
    called_besides_forward = ("forward_all", "forward_patches")
    """Methods by which it, or a block of it, is called in training; a sharded network must know them."""

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        decode_head: nn.Module,
        auxiliary_heads: Sequence[nn.Module] = (),
        *,
        takes_levels: bool = True,
    ) -> None:
        super().__init__(backbone, num_classes)
        self.decode_head, self.auxiliary_heads = decode_head, nn.ModuleList(auxiliary_heads)
        self.takes_levels = takes_levels

    @property
    def classifiers(self) -> tuple[str, ...]:
        return (self.classifier, *(f"auxiliary_heads.{i}.classifier" for i in range(len(self.auxiliary_heads))))

    def reset_classifier(self, num_classes: int) -> None:
        """Fresh classifiers for `num_classes`."""
        self.num_classes = num_classes
        for head in (self.decode_head, *self.auxiliary_heads):
            head.reset_classifier(num_classes)

    def forward_head(self, levels: Sequence[Tensor]) -> Tensor:
        """The levels of `forward_features` -> logits [B, K, H', W'] at the head's own stride."""
        return self.decode_head(levels if self.takes_levels else levels[-1])

    def forward_auxiliary(self, levels: Sequence[Tensor]) -> list[Tensor]:
        """Logits of the auxiliary heads, each of its level."""
        return [head(level) for head, level in zip(self.auxiliary_heads, levels, strict=False)]

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] -> logits [B, K, H, W]."""
        return _resized(self.forward_head(self.forward_features(images)), images)

    def forward_all(self, images: Tensor) -> list[Tensor]:
        """[B, 3, H, W] -> logits [B, K, H, W] of the head, and of each auxiliary head: what training compares with labels."""
        levels = self.forward_features(images)
        return [_resized(logits, images) for logits in (self.forward_head(levels), *self.forward_auxiliary(levels))]


def _resized(logits: Tensor, images: Tensor) -> Tensor:
    if logits.shape[2:] == images.shape[2:]:
        return logits
    return F.interpolate(logits, images.shape[2:], mode="bilinear", align_corners=False)


def _segformer(
    backbone: Backbone, num_classes: int, *, embed_dim: int | None = None, head_drop_rate: float = 0.1
) -> Segmenter:
    width = embed_dim if embed_dim is not None else (_NARROW if max(backbone.channels) <= _NARROW else 768)
    head = SegFormerHead(backbone.channels, num_classes, embed_dim=width, drop_rate=head_drop_rate)
    return Segmenter(backbone, num_classes, head)


def _setr(
    backbone: Backbone,
    num_classes: int,
    *,
    main: Mapping[str, int],
    auxiliary: Mapping[str, int],
    embed_dim: int | None = None,
) -> Segmenter:
    width = 256 if embed_dim is None else embed_dim
    head = SETRHead(backbone.channels[-1], num_classes, width=width, **main)
    others = [SETRHead(dim, num_classes, width=width, **auxiliary) for dim in backbone.channels[:-1]]
    return Segmenter(backbone, num_classes, head, others, takes_levels=False)


def _setr_pup(backbone: Backbone, num_classes: int, *, auxiliary_units: int = 1, **options: Any) -> Segmenter:
    auxiliary = dict(units=auxiliary_units, kernel=3, enlarge=4)
    return _setr(backbone, num_classes, main=dict(units=4, kernel=3, enlarge=2), auxiliary=auxiliary, **options)


def _setr_naive(backbone: Backbone, num_classes: int, **options: Any) -> Segmenter:
    naive = dict(units=1, kernel=1, enlarge=4)
    return _setr(backbone, num_classes, main=naive, auxiliary=naive, **options)


_HEADS: Mapping[str, Callable[..., Segmenter]] = {
    "segformer": _segformer,
    "setr_pup": _setr_pup,
    "setr_naive": _setr_naive,
}


OPTIONS: Mapping[str, tuple[str, ...]] = {
    "segformer": ("embed_dim", "head_drop_rate"),
    "setr_pup": ("embed_dim", "auxiliary_units"),
    "setr_naive": ("embed_dim",),
}
"""What each head can be built with."""


def build_segmenter(head: str, backbone: Backbone, num_classes: int, **options: Any) -> Segmenter:
    """The segmenter of a head of `SEGMENTATION_HEADS`, with the options of that head.

    Args:
        head: its name.
        backbone: of `build_backbone`.
        num_classes: of the logits.
        options: `embed_dim` (width of the head); of segformer `head_drop_rate`; of setr_pup `auxiliary_units` (1 or 2).

    Raises:
        ValueError: an option has a value that is not possible.
    """
    for name, value in options.items():
        if name in ("embed_dim", "auxiliary_units") and value is not None and value < 1:
            raise ValueError(f"{name}={value} is not possible for {head}; give at least 1")
    return _HEADS[head](backbone, num_classes, **options)
