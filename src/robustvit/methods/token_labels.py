"""STL: self-emerging token labels. A labeler says what every token shows; the student learns it beside the image label.

Stage 1 trains the labeler with the image label on the class token and on the mean of its tokens (Eq. 2). Stage 2 turns the
labeler's token logits into hard labels by a Gumbel draw (Eq. 4) and trains the student on them (Eq. 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from robustvit.methods.base import draw_uniform
from robustvit.tasks.classification import soft_cross_entropy
from robustvit.tasks.mixing import Mix

__all__ = [
    "LabelKind",
    "draw_exponential",
    "mix_labels",
    "pooled_loss",
    "resize_labels",
    "token_accuracy",
    "token_loss",
    "token_targets",
]

LabelKind = Literal["gumbel", "argmax", "soft"]
"""A draw from the labeler's distribution, its best class, or the distribution itself."""


def pooled_loss(token_logits: Tensor, target: Tensor) -> Tensor:
    """The token term of Eq. 2: the image label on the mean of the tokens; no single token is told anything.

    Args:
        token_logits: [B, N, K].
        target: mixed and smoothed [B, K].
    """
    return soft_cross_entropy(token_logits.float().mean(1), target)


def token_loss(token_logits: Tensor, labels: Tensor) -> Tensor:
    """The token term of Eq. 5: every token on a label of its own.

    Args:
        token_logits: [B, N, K].
        labels: of the tokens [B, N, K], from `token_targets`.
    """
    if token_logits.shape != labels.shape:
        raise ValueError(
            f"the student has token logits {list(token_logits.shape)} and the labels are {list(labels.shape)}; resize the "
            "labels to the student's grid, see `resize_labels`"
        )
    return soft_cross_entropy(token_logits, labels)


@torch.no_grad()
def token_accuracy(token_logits: Tensor, labels: Tensor) -> float:
    """Share of tokens whose best class is that of their label.

    Args:
        token_logits: [B, N, K].
        labels: of the tokens [B, N, K], or one for all tokens of an image [B, 1, K].
    """
    return float((token_logits.argmax(-1) == labels.argmax(-1)).float().mean())


def draw_exponential(seeds: Sequence[int], logits: Tensor) -> Tensor:
    """Exp(1) numbers [B, N, K] in float32, each sample from its own seed."""
    u = draw_uniform(seeds, tuple(logits.shape[1:]), "token labels", logits.float())
    return -torch.log1p(-u.clamp(min=2**-25))  # a drawn 0 stands for [0, 2^-24): an E of 0 would beat any logit


@torch.no_grad()
def token_targets(
    logits: Tensor, kind: LabelKind = "gumbel", *, smoothing: float = 0.1, exponential: Tensor | None = None
) -> Tensor:
    """What the tokens should answer: [B, N, K], without gradient.

    Args:
        logits: of the labeler [B, N, K].
        kind: see `LabelKind`. A Gumbel draw keeps the labeler's best class with the probability that the labeler gives it.
        smoothing: s: hard labels become (1 - s) onehot + s / K; soft ones stay as they are.
        exponential: E of the Gumbel draw [B, N, K], from `draw_exponential`; the other kinds draw nothing.
    """
    if kind not in get_args(LabelKind):
        raise ValueError(f"kind={kind!r} is not known; choose one of {', '.join(get_args(LabelKind))}")
    a, K = logits.float(), logits.shape[-1]
    if kind == "soft":
        return a.softmax(-1)
    if kind == "gumbel":
        if exponential is None:
            raise ValueError("kind='gumbel' draws labels: give the numbers, `exponential=draw_exponential(seeds, logits)`")
        a = a - exponential.float().log()  # Eq. 4: a + G, G = -log E; tau does not change the arg max
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


def mix_labels(labels: Tensor, mix: Mix, grid: tuple[int, int], img_size: tuple[int, int]) -> Tensor:
    """Label maps mixed as the images were, which STL does not do: mixup blends them, cutmix takes what a cell shows.

    Args:
        labels: [B, N, K] with N = Hp Wp of `grid`, of images that were mixed among themselves.
        mix: how the images were mixed.
        grid: (Hp, Wp).
        img_size: (H, W) of the images, in which the box is.
    """
    if mix.box is None:
        return mix.lam * labels + (1 - mix.lam) * labels.flip(0)
    top, bottom, left, right = mix.box
    rows, columns = _coverage(top, bottom, grid[0], img_size[0]), _coverage(left, right, grid[1], img_size[1])
    pasted = torch.outer(rows, columns).reshape(1, -1, 1).to(labels)  # 1 N 1: share of each cell inside the box
    return (1 - pasted) * labels + pasted * labels.flip(0)


def _coverage(start: int, stop: int, cells: int, pixels: int) -> Tensor:
    """The share [cells] of each of `cells` equal parts of a side of `pixels` that lies in start .. stop."""
    edges = torch.arange(cells + 1) * (pixels / cells)
    inside = edges.clamp(start, max(start, stop))
    return inside.diff() / edges.diff()
