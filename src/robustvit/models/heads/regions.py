"""Regions in one stage of a detector: which of them a loss is taken of, and where they move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from robustvit.models.heads.assignment import Assigner, everything, sample
from robustvit.models.heads.box_coder import BoxCoder, clip_boxes

__all__ = ["Regions", "Stage", "moved", "sampled_regions"]

Target = Mapping[str, Tensor]
"""Of an image: boxes [m, 4], labels int64 [m], and masks [m, H, W] where they are learned."""


@dataclass(frozen=True)
class Stage:
    """How one stage is trained.

    Attributes:
        assigner: which regions are positive.
        coder: of the offsets.
        weight: of its losses.
    """

    assigner: Assigner
    coder: BoxCoder
    weight: float = 1.0


class Regions(NamedTuple):
    """n regions of an image, the positive ones first.

    Attributes:
        boxes: [n, 4].
        owners: int64 [positive], the labelled object of each positive one.
        labels: int64 [n], the class; that of the background for negative ones.
        is_given: bool [n], of the labelled boxes themselves, which are regions as well.
    """

    boxes: Tensor
    owners: Tensor
    labels: Tensor
    is_given: Tensor

    @property
    def positive(self) -> Tensor:
        """Boxes of the positive ones."""
        return self.boxes[: len(self.owners)]


@torch.no_grad()
def sampled_regions(
    stage: Stage, proposals: Tensor, target: Target, background: int, *, count: int | None, positive_share: float
) -> Regions:
    """The regions that a stage learns from: some of the proposals [n, 4] and of the labelled boxes.

    Args:
        stage: decides which are positive.
        proposals: boxes [n, 4].
        target: of the image.
        background: class of the negative ones.
        count: of regions at most; None for all.
        positive_share: of them at most.
    """
    labelled = target["boxes"].to(proposals.dtype)
    own = torch.arange(len(labelled), device=labelled.device)
    assigned = torch.cat([own, stage.assigner(proposals, labelled)])
    chosen = everything(assigned) if count is None else sample(assigned, count, positive_share)
    owners = assigned[chosen.positive]
    labels = torch.full((len(chosen.all),), background, device=proposals.device)
    labels[: len(owners)] = target["labels"][owners]
    return Regions(torch.cat([labelled, proposals])[chosen.all], owners, labels, chosen.all < len(labelled))


@torch.no_grad()
def moved(
    boxes: Tensor, logits: Tensor, deltas: Tensor, coder: BoxCoder, size: tuple[int, int], labels: Tensor | None = None
) -> Tensor:
    """Where regions go in the next stage: by the offsets of their own class, clipped to the image.

    Args:
        boxes: [n, 4].
        logits: [n, K + 1]; the background is last.
        deltas: [n, K, 4].
        coder: of the stage.
        size: (h, w) of the image.
        labels: int64 [n]; regions of the background, and all where it is None, go by their best class.
    """
    best = logits[:, :-1].argmax(1)
    classes = best if labels is None else torch.where(labels == logits.shape[1] - 1, best, labels)
    own = deltas[torch.arange(len(boxes), device=boxes.device), classes]
    return clip_boxes(coder.decode(boxes, own.float()), size)
