"""STL: self-emerging token labels. A labeler says what every token shows; the student learns it beside the image label.

Stage 1 trains the labeler with the image label on the class token and on the mean of its tokens (Eq. 2). Stage 2 turns the
labeler's token logits into hard labels by a Gumbel draw (Eq. 4) and trains the student on them (Eq. 5); `stl.md` 3 to 5.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["LabelKind", "labeler_loss", "resize_labels", "soft_cross_entropy", "student_loss", "token_targets"]

LabelKind = Literal["gumbel", "argmax", "soft"]
"""A draw from the labeler's distribution, its best class, or the distribution itself."""


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """The mean over rows of `-sum_k t_k log_softmax(x)_k`; logits and target [..., K], computed in float32."""
    return -(target.float() * F.log_softmax(logits.float(), dim=-1)).sum(-1).mean()


def labeler_loss(class_logits: Tensor, token_logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(class term, pooled term) of Eq. 2: the image label on the class token, and on the mean of the tokens.

    Args:
        class_logits: [B, K].
        token_logits: [B, N, K].
        target: mixed and smoothed [B, K].
    """
    return soft_cross_entropy(class_logits, target), soft_cross_entropy(token_logits.float().mean(1), target)


def student_loss(class_logits: Tensor, token_logits: Tensor, target: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(class term, token term) of Eq. 5.

    Args:
        class_logits: [B, K].
        token_logits: [B, N, K].
        target: mixed and smoothed [B, K].
        labels: of the tokens [B, N, K], from `token_targets`.
    """
    if token_logits.shape != labels.shape:
        raise ValueError(
            f"the student has token logits {list(token_logits.shape)} and the labels are {list(labels.shape)}; resize the "
            "labels to the student's grid, see `resize_labels`"
        )
    return soft_cross_entropy(class_logits, target), soft_cross_entropy(token_logits, labels)


@torch.no_grad()
def token_targets(
    logits: Tensor,
    kind: LabelKind = "gumbel",
    *,
    smoothing: float = 0.1,
    generator: torch.Generator | None = None,
    exponential: Tensor | None = None,
) -> Tensor:
    """What the tokens should answer: [B, N, K], without gradient.

    Args:
        logits: of the labeler [B, N, K].
        kind: see `LabelKind`. A Gumbel draw keeps the labeler's best class with the probability that the labeler gives it.
        smoothing: s: hard labels become (1 - s) onehot + s / K; soft ones stay as they are.
        generator: of the draw.
        exponential: instead of a draw, the Exp(1) numbers [B, N, K] to use.
    """
    if kind not in get_args(LabelKind):
        raise ValueError(f"kind={kind!r} is not known; choose one of {', '.join(get_args(LabelKind))}")
    a, K = logits.float(), logits.shape[-1]
    if kind == "soft":
        return a.softmax(-1)
    if kind == "gumbel":
        drawn = torch.empty_like(a).exponential_(generator=generator) if exponential is None else exponential.float()
        a = a - drawn.clamp(min=torch.finfo(torch.float32).tiny).log()  # a + G, G = -log E
    return F.one_hot(a.argmax(-1), K).float() * (1 - smoothing) + smoothing / K


def resize_labels(labels: Tensor, grid: tuple[int, int], to: tuple[int, int]) -> Tensor:
    """Label maps on another grid, each token the mean of what it covers (or the nearest, where the grid grows).

    Args:
        labels: [B, N, K] with N = Hp Wp of `grid`.
        grid, to: (Hp, Wp) now and wanted.
    """
    if grid == to:
        return labels
    maps = labels.transpose(1, 2).unflatten(2, grid)  # B K Hp Wp
    return F.adaptive_avg_pool2d(maps, to).flatten(2).transpose(1, 2)
