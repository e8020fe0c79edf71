"""ADL: the attention diversification loss. Queries should not all look at the same few tokens.

For each layer, the rows of the attention map (heads averaged) keep what is above `tau` times the uniform share (Eq. 1); the
loss is the mean cosine between every row and the centre of all rows (Eq. 2). Equations are those of "Robustifying Token
Attention for Vision Transformers", section 3.3; `docs/adl.md` says where the paper is silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["EPS", "Variant", "attention_diversification", "check_options", "keep_above", "layer_diversification"]

Variant = Literal["paper", "released"]
"""What the centre is: the mean of the thresholded rows (paper, Eq. 2), or the mean of the rows, thresholded (released)."""
EPS = 1e-8
"""Least product of norms in a cosine: a row without entries has cosine 0."""


def attention_diversification(
    attention: Sequence[Tensor],
    *,
    tau: float = 2.0,
    variant: Variant = "paper",
    prefix_tokens: int = 0,
    regions: Sequence[Tensor | None] | None = None,
    per_head: bool = False,
) -> Tensor:
    """ADL = 1/L sum_l L_l, a scalar with gradient (Eq. 2).

    Args:
        attention: per layer [B, heads, N, N] after softmax, rows are queries, as `record` gives them. Windows of Swin count as
            images of their own.
        tau: entries below tau / N do not count.
        variant: see `Variant`; they differ much where attention is diverse, and little where it is not.
        prefix_tokens: class and distillation tokens in front, whose rows and columns are left out without renormalising.
        regions: per layer None, or int [windows, N]: tokens with different numbers cannot see each other (shifted windows of
            Swin), and -1 marks padding, whose rows do not count. Windows repeat over the batch.
        per_head: treat every head by itself instead of their mean.

    Raises:
        ValueError: there are no layers, or they are not [B, heads, N, N].
    """
    check_options(tau, variant)
    if not len(attention):
        raise ValueError("there are no attention maps; record a forward pass first")
    of_layer = regions if regions is not None else [None] * len(attention)
    losses = []
    for maps, region in zip(attention, of_layer, strict=True):
        if maps.ndim != 4 or maps.shape[-1] != maps.shape[-2]:
            raise ValueError(f"attention must be [B, heads, N, N], got {list(maps.shape)}")
        A = maps[..., prefix_tokens:, prefix_tokens:].to(torch.promote_types(maps.dtype, torch.float32))
        A = A.flatten(0, 1) if per_head else A.mean(1)  # B N N
        if region is not None:
            windows = region.repeat_interleave(maps.shape[1], 0) if per_head else region
            region = windows.repeat(A.shape[0] // windows.shape[0], 1)  # B N
        with torch.autocast(A.device.type, enabled=False):  # in half precision EPS would be 0
            losses.append(layer_diversification(A, tau=tau, variant=variant, regions=region))
    return torch.stack(losses).mean()


def layer_diversification(A: Tensor, *, tau: float, variant: Variant, regions: Tensor | None = None) -> Tensor:
    """L_l of one layer: the mean over rows and images of cos(row, centre).

    Args:
        A: [B, N, N], rows are queries.
        tau, variant: see `attention_diversification`.
        regions: int [B, N] or None for one region.
    """
    if regions is None:
        threshold = tau / A.shape[-1]
        rows = keep_above(A, threshold, variant)  # B N N
        centre = rows.mean(1, keepdim=True) if variant == "paper" else keep_above(A.mean(1, keepdim=True), threshold, variant)
        return F.cosine_similarity(rows, centre, dim=-1, eps=EPS).mean()
    together = regions[:, :, None] == regions[:, None, :]  # B N N: R_ij
    size = together.sum(-1, keepdim=True)  # B N 1: N_i
    threshold_of_row = tau / size
    rows = keep_above(A, threshold_of_row, variant)
    averaged = rows if variant == "paper" else A
    centre = together.to(A.dtype) @ averaged / size  # c_i
    if variant == "released":
        centre = keep_above(centre, threshold_of_row, variant)
    counted = ((regions >= 0) & (size[..., 0] > tau)).to(A.dtype)  # in smaller regions nothing can pass the threshold
    cosine = F.cosine_similarity(rows, centre, dim=-1, eps=EPS)
    return (cosine * counted).sum() / counted.sum().clamp(min=1)


def check_options(tau: float, variant: str) -> None:
    """Raises ValueError for what ADL cannot do."""
    if variant not in get_args(Variant):
        raise ValueError(f"variant={variant!r} is not known; choose one of {', '.join(get_args(Variant))}")
    if tau < 0:
        raise ValueError(f"tau={tau:g} is not possible; give 0 or more")


def keep_above(values: Tensor, threshold: float | Tensor, variant: Variant) -> Tensor:
    """What is above the threshold; the choice itself has no gradient."""
    kept = values >= threshold if variant == "paper" else values > threshold
    return values * kept.to(values.dtype)
