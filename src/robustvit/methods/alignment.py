"""AFAT's alignment loss: the features of an image should not change when some of its patches are covered (Eq. 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["AlignmentVariant", "alignment_loss"]

AlignmentVariant = Literal["paper", "released"]
"""The mean over L blocks: the sum divided by L, or by L + 1e-4 as in the released code (a relative 1e-4 / L less)."""


def alignment_loss(
    clean: Sequence[Tensor],
    corrupted: Sequence[Tensor],
    *,
    prefix_tokens: int = 0,
    variant: AlignmentVariant = "paper",
) -> Tensor:
    """`(1 / L) sum_l mean over (b, t, d) of (F_l(x^) - F_l(x))^2`, in float32, with gradients into both.

    The paper writes a squared norm; its lambda of 0.005 belongs to the mean over all elements, as released.

    Args:
        clean: F_l(x), per block [B, prefix + N, C].
        corrupted: F_l(x^), the same.
        prefix_tokens: class and distillation tokens in front, which take no part.
        variant: see `AlignmentVariant`.
    """
    if variant not in get_args(AlignmentVariant):
        raise ValueError(f"variant={variant!r} is not known; choose one of {', '.join(get_args(AlignmentVariant))}")
    if not clean or len(clean) != len(corrupted):
        raise ValueError(f"features of {len(clean)} clean and {len(corrupted)} corrupted blocks; give the same blocks of both")
    L = len(clean)
    losses = [_block_loss(a[:, prefix_tokens:], b[:, prefix_tokens:]) for a, b in zip(clean, corrupted, strict=True)]
    return torch.stack(losses).sum() / (L if variant == "paper" else L + 1e-4)


def _block_loss(clean: Tensor, corrupted: Tensor) -> Tensor:
    if clean.shape != corrupted.shape:
        raise ValueError(f"clean features {list(clean.shape)} and corrupted {list(corrupted.shape)} must have one shape")
    return F.mse_loss(corrupted.float(), clean.float())
