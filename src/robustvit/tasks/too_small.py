"""Images that are too small for a network that takes many sizes: they are left out and named, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from robustvit.corruptions.parameters import SMALLEST
from robustvit.models.functions import FunctionNetwork
from robustvit.runtime.memory import is_out_of_memory

__all__ = ["TooSmallError", "ask", "why_not_corrupted"]

Answer = TypeVar("Answer")
_REFUSALS = (ValueError, RuntimeError, AssertionError, IndexError)
"""What networks raise for sizes that they cannot take."""


class TooSmallError(ValueError):
    """A network cannot take images this small."""


def why_not_corrupted(images: Tensor) -> str:
    """Why images [B, 3, H, W] are too small to be corrupted; empty where they are not."""
    H, W = images.shape[2:]
    return f"it has {H}x{W} pixels, and corruptions need at least {SMALLEST}x{SMALLEST}" if min(H, W) < SMALLEST else ""


def ask(question: Callable[[Tensor], Answer], images: Tensor, network: nn.Module, own: tuple[int, int]) -> Answer:
    """`question(images)`.

    Args:
        question: to the network; must answer a black image of its own size.
        images: uint8 [B, 3, H, W].
        network: that is asked; a function of a user is never found to refuse a size.
        own: (H, W) that the network was made for.

    Raises:
        TooSmallError: the size is what is refused: there are fewer pixels than of the network's own size, at which a black
            image is answered.
    """
    try:
        return question(images)
    except _REFUSALS as error:
        H, W = images.shape[2:]
        is_smaller = images[0, 0].numel() < own[0] * own[1] and not isinstance(network, FunctionNetwork)
        if not is_smaller or is_out_of_memory(error) or not _answers(question, own):
            raise
        raise TooSmallError(str(error).partition("\n")[0] or f"the network cannot take {H}x{W} pixels") from error


def _answers(question: Callable[[Tensor], object], own: tuple[int, int]) -> bool:
    try:
        question(torch.zeros(1, 3, *own, dtype=torch.uint8))
    except _REFUSALS:
        return False
    return True
