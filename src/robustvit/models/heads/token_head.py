"""The token head of STL: a second classifier, shared by all patch tokens."""

from __future__ import annotations

from torch import Tensor

__all__ = ["fuse_token_logits"]


def fuse_token_logits(class_logits: Tensor, token_logits: Tensor) -> Tensor:
    """STL's published evaluation rule: class logits plus half of the largest token logit of each class.

    The paper does not mention it; its training chooses checkpoints by the class logits alone.

    Args:
        class_logits: [B, K].
        token_logits: [B, N, K].
    """
    return class_logits + 0.5 * token_logits.amax(dim=1)
