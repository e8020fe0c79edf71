"""What a network with a token head says about every patch (STL Fig. 2 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from robustvit.methods.token_labels import draw_exponential
from robustvit.models.heads.token_head import has_token_head
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.runtime.randomness import keyed_seed

__all__ = ["SURE", "TokenLabels", "token_labels"]

SURE = 0.5
"""Confidence from which a token of the foreground counts as sure; the paper leaves a gap between 0.2 and 0.7."""
DEFINITION = (
    "label: the class with the largest logit of a token; confidence: its softmax; foreground: the label is the image's; "
    "drawn: the label of one Gumbel draw instead"
)


@dataclass(frozen=True)
class TokenLabels:
    """Maps [B, Hp, Wp].

    Attributes:
        labels: int64, the best class of each token.
        confidences: its softmax.
        foreground: bool, where the label is the image's own.
        drawn_foreground: bool, where one Gumbel draw is the image's own.
    """

    labels: Tensor
    confidences: Tensor
    foreground: Tensor
    drawn_foreground: Tensor

    def levels(self, sure: float = SURE) -> Tensor:
        """int64: 0 background, 1 foreground of low confidence, 2 foreground of high confidence."""
        return self.foreground.long() * (1 + (self.confidences >= sure).long())


def token_labels(
    model: Any, images: Tensor, labels: Tensor, *, seed: int = 0, sample_ids: Sequence[int | str] | None = None
) -> TokenLabels:
    """The labels of the tokens of a batch.

    Args:
        model: a network with a token head (`token_head=True`); left as it was.
        images: normalised [B, 3, H, W].
        labels: int64 [B], of the images.
        seed, sample_ids: the Gumbel draw of an image depends on (seed, its id) alone; ids are 0, 1, ... by default.

    Raises:
        ValueError: the network has no token head.
    """
    if not has_token_head(model):
        raise ValueError(
            f"{type(model).__name__} has no token head, so its tokens have no labels; build it with token_head=True and load "
            "weights of an STL training"
        )
    with evaluation_mode(model):
        _, logits = model.forward_tokens(images)
    grid = model.token_grid(images.shape[-2], images.shape[-1])
    ids = range(len(images)) if sample_ids is None else sample_ids
    drawn = logits.float() - draw_exponential([keyed_seed(seed, i, "token labels") for i in ids], logits).log()
    confidences, best = logits.float().softmax(-1).max(-1)
    maps = [x.unflatten(1, grid) for x in (best, confidences, best == labels[:, None], drawn.argmax(-1) == labels[:, None])]
    return TokenLabels(*maps)
