"""Cross-entropy over the pixels of label maps."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from robustvit.data.label_maps import IGNORED

__all__ = ["image_cross_entropies", "pixel_cross_entropy"]


def pixel_cross_entropy(
    logits: Tensor, labels: Tensor, divisor: Literal["all", "counted"] = "all", *, ignored: int = IGNORED
) -> Tensor:
    """The sum of -log softmax(logits)[label] over the pixels that count, divided by a number of pixels.

    The published segmenters divide by all pixels, so an image with many ignored ones weighs less. In a batch of which no pixel
    counts, loss and gradient are 0.

    Args:
        logits: [B, K, H, W]; the loss is computed in float32.
        labels: integers [B, H, W], in 0 .. K - 1 or `ignored`.
        divisor: "all" pixels, or the "counted" ones.
        ignored: label of pixels that do not count.

    Raises:
        ValueError: the sizes differ, or the divisor is unknown.
    """
    if divisor not in ("all", "counted"):
        raise ValueError(f"divisor={divisor!r} is unknown; choose all or counted")
    _check_sizes(logits, labels)
    total = F.cross_entropy(logits.float(), labels.long(), ignore_index=ignored, reduction="sum")
    if divisor == "all":
        return total / labels.numel()
    return total / (labels != ignored).sum().clamp(min=1)


def image_cross_entropies(logits: Tensor, labels: Tensor, *, ignored: int = IGNORED) -> Tensor:
    """The mean of -log softmax(logits)[label] over the labelled pixels of each image [B]; 0 where an image has none.

    Args:
        logits, labels, ignored: see `pixel_cross_entropy`.
    """
    _check_sizes(logits, labels)
    losses = F.cross_entropy(logits.float(), labels.long(), ignore_index=ignored, reduction="none")  # B H W
    return losses.flatten(1).sum(1) / (labels != ignored).flatten(1).sum(1).clamp(min=1)


def _check_sizes(logits: Tensor, labels: Tensor) -> None:
    if logits.ndim != 4 or (logits.shape[0], *logits.shape[2:]) != tuple(labels.shape):
        raise ValueError(
            f"logits of shape {list(logits.shape)} do not fit labels of shape {list(labels.shape)}; expected [B, K, H, W] and "
            "[B, H, W]: resize the logits to the labels"
        )
