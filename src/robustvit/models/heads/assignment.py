"""Which candidate answers for which labelled box, and which candidates a loss is taken of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.ops import box_iou

__all__ = ["NEGATIVE", "Assigner", "Sampled", "everything", "sample"]

NEITHER, NEGATIVE = -2, -1


@dataclass(frozen=True)
class Assigner:
    """By the largest overlap.

    Attributes:
        positive: IoU from which on a candidate is positive, for the box that it overlaps most.
        negative: IoU below which it is negative; in between it is neither.
        low_quality: IoU from which on the candidates that overlap a box most, all of them in case of ties, are positive
            for it whatever they overlap otherwise; None for no such rule.
    """

    positive: float
    negative: float
    low_quality: float | None = None

    def __call__(self, candidates: Tensor, boxes: Tensor) -> Tensor:
        """Candidates [n, 4], labelled boxes [m, 4] -> int64 [n]: a box, or `NEGATIVE`, or `NEITHER`."""
        if not len(boxes):
            return torch.full((len(candidates),), NEGATIVE, device=candidates.device)
        overlaps = box_iou(boxes, candidates)  # m n
        best, which = overlaps.max(0)
        found = torch.full_like(which, NEITHER)
        found[best < self.negative] = NEGATIVE
        found = torch.where(best >= self.positive, which, found)
        if self.low_quality is not None and len(candidates):
            for i, most in enumerate(overlaps.amax(1).tolist()):  # later boxes override
                if most >= self.low_quality:
                    found[overlaps[i] == most] = i
        return found


class Sampled(NamedTuple):
    """Candidates that a loss is taken of: positions of the positive ones and of the negative ones."""

    positive: Tensor
    negative: Tensor

    @property
    def all(self) -> Tensor:
        """Positive ones first."""
        return torch.cat([self.positive, self.negative])


def sample(assigned: Tensor, count: int, positive_share: float) -> Sampled:
    """At random `count` of the candidates of `Assigner`, at most this share of them positive."""
    positive = _some(assigned >= 0, int(count * positive_share))
    return Sampled(positive, _some(assigned == NEGATIVE, count - len(positive)))


def everything(assigned: Tensor) -> Sampled:
    """All candidates of `Assigner` that are positive or negative."""
    return Sampled((assigned >= 0).nonzero().flatten(), (assigned == NEGATIVE).nonzero().flatten())


def _some(chosen: Tensor, most: int) -> Tensor:
    positions = chosen.nonzero().flatten()
    if len(positions) > most:
        positions = positions[torch.randperm(len(positions), device=positions.device)[:most]]
    return positions
