"""Boxes as offsets from other boxes, and how well two boxes agree: the arithmetic that all stages of a detector share.

Boxes are x1, y1, x2, y2 in pixels. An offset is (dx, dy) of the centres over the size, and the log of the ratio of the sizes,
divided by the standard deviations of the stage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["BoxCoder", "clip_boxes", "giou_losses"]

LARGEST_RATIO = math.log(1000 / 16)
"""Of the log of a ratio of sizes, upward and downward; torchvision's coder limits it upward only."""


@dataclass(frozen=True)
class BoxCoder:
    """Boxes <-> offsets.

    Attributes:
        stds: of dx, dy, dw, dh; the published ones of the third stage are .033 and .067, not the usual 1/30 and 1/15.
    """

    stds: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)

    def encode(self, boxes: Tensor, targets: Tensor) -> Tensor:
        """Offsets [n, 4] from `boxes` [n, 4] to `targets` [n, 4]."""
        (x, y, w, h), (tx, ty, tw, th) = _centres(boxes), _centres(targets)
        offsets = torch.stack([(tx - x) / w, (ty - y) / h, (tw / w).log(), (th / h).log()], dim=-1)
        return offsets / offsets.new_tensor(self.stds)

    def decode(self, boxes: Tensor, offsets: Tensor) -> Tensor:
        """The boxes [..., 4] that `offsets` [..., 4] lead to from `boxes`, which broadcast; they are not clipped."""
        dx, dy, dw, dh = (offsets * offsets.new_tensor(self.stds)).unbind(-1)
        x, y, w, h = _centres(boxes)
        dw, dh = (ratio.clamp(-LARGEST_RATIO, LARGEST_RATIO) for ratio in (dw, dh))
        cx, cy, w, h = x + w * dx, y + h * dy, w * dw.exp(), h * dh.exp()
        return torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], dim=-1)


def _centres(boxes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, y of the centre, width, height."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    return (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1


def clip_boxes(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes [..., 4] within an image of (h, w) pixels."""
    h, w = size
    return torch.minimum(boxes.clamp(min=0), boxes.new_tensor([w, h, w, h]))


def giou_losses(boxes: Tensor, targets: Tensor, eps: float = 1e-6) -> Tensor:
    """1 - generalised IoU of pairs of boxes [n, 4] -> [n]; boxes without area have a defined one."""
    corner = torch.maximum(boxes[:, :2], targets[:, :2])
    inner = (torch.minimum(boxes[:, 2:], targets[:, 2:]) - corner).clamp(min=0).prod(-1)
    outer = torch.maximum(boxes[:, 2:], targets[:, 2:]) - torch.minimum(boxes[:, :2], targets[:, :2])
    areas = [(box[:, 2:] - box[:, :2]).prod(-1) for box in (boxes, targets)]
    union = (areas[0] + areas[1] - inner).clamp(min=eps)
    hull = outer.clamp(min=0).prod(-1).clamp(min=eps)
    return 1 - (inner / union - (hull - union) / hull)
