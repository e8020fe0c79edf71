"""Label maps that a function of a user returned, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from robustvit.metrics.iou import IGNORED

__all__ = ["given_maps"]


def given_maps(answer: Any, images: Tensor, classes: int, function: str) -> list[np.ndarray]:
    """Label maps uint8 [H, W] from what a function answered to images.

    Args:
        answer: a sequence of tensors or arrays [H, W] of integers, or one of [B, H, W].
        images: [B, 3, H, W].
        classes: K; labels are 0 .. K - 1, and 255 for pixels without a class.
        function: its name, for the message.

    Raises:
        ValueError: it is anything else.
    """
    B, _, H, W = images.shape
    expected = f"expected {B} integer label maps [{H}, {W}] with values below {classes}, or {IGNORED}"
    if not isinstance(answer, Tensor | np.ndarray | Sequence) or len(answer) != B:
        given = f"{len(answer)} answers" if hasattr(answer, "__len__") else f"a {type(answer).__name__}"
        raise ValueError(f"{function} returned {given} for {B} images; {expected}")
    return [_checked(one, (H, W), classes, f"{function} returned", expected) for one in answer]


def _checked(given: Any, size: tuple[int, int], classes: int, told: str, expected: str) -> np.ndarray:
    if not isinstance(given, Tensor | np.ndarray):
        raise ValueError(f"{told} a {type(given).__name__} for an image; {expected}")
    labels = given.detach().cpu().numpy() if isinstance(given, Tensor) else given
    if labels.shape != size or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{told} {labels.dtype} {list(labels.shape)} for an image; {expected}")
    if (odd := labels[((labels < 0) | (labels >= classes)) & (labels != IGNORED)]).size:
        raise ValueError(f"{told} the label {int(odd.flat[0])}; {expected}")
    return labels.astype(np.uint8)
