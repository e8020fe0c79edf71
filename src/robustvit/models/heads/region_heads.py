"""What regions become: class logits with box offsets per class, and mask logits per class."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import roi_align

from robustvit.models.heads.conv_unit import ConvUnit

__all__ = ["BOX_SIDE", "MASK_SIDE", "BoxHead", "MaskHead", "mask_targets", "paste_masks"]

BOX_SIDE, MASK_SIDE = 7, 14
"""Of the regions that the heads read; masks come out twice as large."""


class BoxHead(nn.Module):
    """Convolutions with BatchNorm, linear layers, then a classifier (background last) and offsets for every class.

    Args:
        width: of the regions.
        num_classes: without background.
        convs, linears: how many of each: 4 and 1 in the published cascade, 0 and 2 in Mask R-CNN.
        hidden: width of the linear layers.
    """

    def __init__(self, width: int, num_classes: int, *, convs: int = 4, linears: int = 1, hidden: int = 1024) -> None:
        super().__init__()
        self.units = nn.ModuleList(ConvUnit(width, width, kernel=3) for _ in range(convs))
        widths = [width * BOX_SIDE**2, *[hidden] * linears]
        self.linears = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(widths))
        for layer in self.linears:
            nn.init.xavier_uniform_(layer.weight)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        self.hidden = hidden
        self.reset_classifier(num_classes)

    def reset_classifier(self, num_classes: int) -> None:
        """Fresh layers for `num_classes`."""
        self.classes, self.deltas = nn.Linear(self.hidden, num_classes + 1), nn.Linear(self.hidden, 4 * num_classes)
        for layer, std in ((self.classes, 0.01), (self.deltas, 0.001)):
            nn.init.normal_(layer.weight, std=std)
            nn.init.zeros_(layer.bias)

    def forward(self, regions: Tensor) -> tuple[Tensor, Tensor]:
        """[n, width, 7, 7] -> class logits [n, K + 1] and offsets [n, K, 4]."""
        for unit in self.units:
            regions = unit(regions)
        x = regions.flatten(1)
        for layer in self.linears:
            x = F.relu(layer(x))
        return self.classes(x), self.deltas(x).unflatten(1, (-1, 4))


class MaskHead(nn.Module):
    """Four convolutions, enlarging by two, and a map of logits for every class.

    Args:
        width: of the regions.
        num_classes: without background.
    """

    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.width = width
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(4))
        self.enlarge = nn.ConvTranspose2d(width, width, 2, stride=2)
        for layer in (*self.convs, self.enlarge):
            _kaiming(layer)
        self.reset_classifier(num_classes)

    def reset_classifier(self, num_classes: int) -> None:
        """A fresh classifier."""
        self.classes = nn.Conv2d(self.width, num_classes, 1)
        _kaiming(self.classes)

    def forward(self, regions: Tensor) -> Tensor:
        """[n, width, 14, 14] -> logits [n, K, 28, 28]."""
        for conv in self.convs:
            regions = F.relu(conv(regions))
        return self.classes(F.relu(self.enlarge(regions)))


def _kaiming(layer: nn.Module) -> None:
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")  # type: ignore[arg-type]
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]


def mask_targets(masks: Tensor, owners: Tensor, boxes: Tensor) -> Tensor:
    """What the mask head should say about positive regions: float [n, 28, 28] of 0 and 1.

    Args:
        masks: [m, H, W] of the labelled objects of an image.
        owners: int64 [n], the object of each region.
        boxes: [n, 4], the regions.
    """
    if not len(boxes):
        return boxes.new_zeros(0, 2 * MASK_SIDE, 2 * MASK_SIDE)
    regions = torch.cat([owners[:, None].to(boxes.dtype), boxes], dim=1)
    cut = roi_align(masks[:, None].to(boxes.dtype), regions, 2 * MASK_SIDE, 1.0, sampling_ratio=0, aligned=True)
    return (cut[:, 0] >= 0.5).to(boxes.dtype)


def paste_masks(probabilities: Tensor, boxes: Tensor, size: Sequence[int]) -> Tensor:
    """Masks of regions in the image: bool [n, 1, H, W], where the probability, read bilinearly, is at least one half.

    Args:
        probabilities: [n, 28, 28].
        boxes: [n, 4], the regions in pixels of the image.
        size: (H, W) of the image.
    """
    H, W = size
    pasted = torch.zeros(len(boxes), 1, H, W, dtype=torch.bool, device=boxes.device)
    for into, probability, box in zip(pasted[:, 0], probabilities, boxes, strict=True):
        x1, y1 = max(0, int(box[0].floor()) - 1), max(0, int(box[1].floor()) - 1)
        x2, y2 = min(W, int(box[2].ceil()) + 1), min(H, int(box[3].ceil()) + 1)
        if x2 > x1 and y2 > y1:
            into[y1:y2, x1:x2] = _read(probability, box, (y1, y2), (x1, x2)) >= 0.5
    return pasted


def _read(probability: Tensor, box: Tensor, rows: tuple[int, int], columns: tuple[int, int]) -> Tensor:
    """The probability of a region at the centres of some pixels of the image; 0 outside the region."""
    y, x = (torch.arange(*span, device=box.device, dtype=torch.float32) + 0.5 for span in (rows, columns))
    y, x = (y - box[1]) / (box[3] - box[1]) * 2 - 1, (x - box[0]) / (box[2] - box[0]) * 2 - 1
    grid = torch.stack(torch.meshgrid(y, x, indexing="ij")[::-1], dim=-1)  # h w 2, x first
    return F.grid_sample(probability[None, None].float(), grid[None], align_corners=False)[0, 0]
