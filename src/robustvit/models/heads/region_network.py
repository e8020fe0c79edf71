"""From proposals to objects: one stage (Faster and Mask R-CNN), or several, each from the boxes of the one before (Cascade).

In evaluation the class logits are averaged over the stages, each on its own boxes; boxes come from the last stage, and masks
are the mean of the mask heads on the final boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import batched_nms

from robustvit.models.heads.box_coder import clip_boxes, giou_losses
from robustvit.models.heads.region_heads import BOX_SIDE, MASK_SIDE, BoxHead, MaskHead, mask_targets
from robustvit.models.heads.regions import Regions, Stage, Target, moved, sampled_regions
from robustvit.models.heads.roi_pooling import pool_regions

__all__ = ["Detections", "RegionNetwork", "StageSettings"]

Size = tuple[int, int]


@dataclass(frozen=True)
class StageSettings:
    """How regions are learned and chosen.

    Attributes:
        stages: one after the other.
        box_loss: "giou" of decoded boxes, times 10; or "l1" of offsets.
        samples, positive_share: regions of an image in the loss of a stage, and how many of them may be positive.
        score: that detections must exceed.
        iou: of NMS, within each class.
        most: detections of an image.
    """

    stages: tuple[Stage, ...]
    box_loss: Literal["giou", "l1"] = "giou"
    samples: int = 512
    positive_share: float = 0.25
    score: float = 0.05
    iou: float = 0.5
    most: int = 100


GIOU_WEIGHT = 10.0


class Detections(NamedTuple):
    """The n objects found in an image, the best first.

    Attributes:
        boxes: [n, 4] in pixels of the original image.
        scores: [n].
        labels: int64 [n], 0 .. K - 1.
        masks: probabilities [n, 28, 28] within the boxes, or None.
    """

    boxes: Tensor
    scores: Tensor
    labels: Tensor
    masks: Tensor | None


class RegionNetwork(nn.Module):
    """The heads of all stages.

    Args:
        width: of the maps.
        num_classes: without background.
        strides: of the maps that regions are read on.
        settings: see there.
        has_masks: one mask head per stage.
        head: options of `BoxHead`.
    """

    def __init__(
        self,
        width: int,
        num_classes: int,
        strides: Sequence[int],
        settings: StageSettings,
        *,
        has_masks: bool,
        head: dict[str, Any],
    ) -> None:
        super().__init__()
        self.strides, self.settings, self.num_classes = tuple(strides), settings, num_classes
        self.boxes = nn.ModuleList(BoxHead(width, num_classes, **head) for _ in settings.stages)
        self.masks = nn.ModuleList(MaskHead(width, num_classes) for _ in settings.stages if has_masks)

    def reset_classifier(self, num_classes: int) -> None:
        """Fresh classifiers for `num_classes`."""
        self.num_classes = num_classes
        for head in (*self.boxes, *self.masks):
            head.reset_classifier(num_classes)

    def pooled(self, maps: Sequence[Tensor], boxes: Sequence[Tensor], side: int) -> Tensor:
        """What regions [n, 4] of each image show: [sum of n, width, side, side]."""
        return pool_regions(maps[: len(self.strides)], self.strides, boxes, side)

    # training

    def losses(
        self,
        maps: Sequence[Tensor],
        proposals: Sequence[Tensor],
        targets: Sequence[Target],
        sizes: Sequence[Size],
        *,
        sampled: bool = True,
    ) -> dict[str, Tensor]:
        """Name -> [B, 2]: of each image a weighted sum, and what the sums over all images are divided by.

        Args:
            maps: of the pyramid.
            proposals: boxes [n, 4] of each image.
            targets: see `Target`.
            sizes: (h, w) of the images without padding.
            sampled: of some regions, drawn at random; otherwise of all.
        """
        count = self.settings.samples if sampled else None
        found: dict[str, Tensor] = {}
        several = len(self.settings.stages) > 1
        for number, stage in enumerate(self.settings.stages):
            regions = [self._sampled(stage, count, *given) for given in zip(proposals, targets, sizes, strict=True)]
            logits, deltas = self.boxes[number](self.pooled(maps, [r.boxes for r in regions], BOX_SIDE))
            parts = self._parts(regions, logits.float(), deltas.float())
            losses = self._box_losses(stage, parts, targets)
            if self.masks and all("masks" in target for target in targets):
                losses["loss_mask"] = self._mask_losses(number, maps, regions, targets)
            weight = losses["loss_classifier"].new_tensor([stage.weight, 1.0])
            found |= {f"{name}_{number + 1}" if several else name: loss * weight for name, loss in losses.items()}
            proposals = [
                moved(r.boxes, z, d, stage.coder, size, r.labels)[~r.is_given]
                for (r, z, d), size in zip(parts, sizes, strict=True)
            ]
        return found

    def _sampled(self, stage: Stage, count: int | None, proposals: Tensor, target: Target, size: Size) -> Regions:
        if not len(proposals) and not len(target["boxes"]):  # then the image itself
            proposals = proposals.new_tensor([[0, 0, size[1], size[0]]])
        share = self.settings.positive_share
        return sampled_regions(stage, proposals, target, self.num_classes, count=count, positive_share=share)

    @staticmethod
    def _parts(regions: Sequence[Regions], logits: Tensor, deltas: Tensor) -> list[tuple[Regions, Tensor, Tensor]]:
        """Regions of each image with their logits and offsets."""
        counts = [len(r.boxes) for r in regions]
        return list(zip(regions, logits.split(counts), deltas.split(counts), strict=True))

    def _box_losses(
        self, stage: Stage, parts: Sequence[tuple[Regions, Tensor, Tensor]], targets: Sequence[Target]
    ) -> dict[str, Tensor]:
        classes, boxes = [], []
        for (regions, logits, deltas), target in zip(parts, targets, strict=True):
            count = logits.new_tensor(len(logits))
            classes.append(torch.stack([F.cross_entropy(logits, regions.labels, reduction="sum"), count]))
            boxes.append(torch.stack([self._box_loss(stage, regions, deltas, target["boxes"]), count]))
        return {"loss_classifier": torch.stack(classes), "loss_box_reg": torch.stack(boxes)}

    def _box_loss(self, stage: Stage, regions: Regions, deltas: Tensor, labelled: Tensor) -> Tensor:
        """Over the positive regions of an image; GIoU is taken on boxes that are not clipped."""
        n = len(regions.owners)
        own = deltas[torch.arange(n, device=deltas.device), regions.labels[:n]]
        wanted = labelled[regions.owners].to(own.dtype)
        if self.settings.box_loss == "l1":
            return (own - stage.coder.encode(regions.positive, wanted)).abs().sum()
        return GIOU_WEIGHT * giou_losses(stage.coder.decode(regions.positive, own), wanted).sum()

    def _mask_losses(
        self, number: int, maps: Sequence[Tensor], regions: Sequence[Regions], targets: Sequence[Target]
    ) -> Tensor:
        """[B, 2]: the cross-entropy of the pixels of positive regions, in the map of their class."""
        logits = self.masks[number](self.pooled(maps, [r.positive for r in regions], MASK_SIDE)).float()
        rows = []
        for own, r, target in zip(logits.split([len(r.owners) for r in regions]), regions, targets, strict=True):
            n = len(r.owners)
            chosen = own[torch.arange(n, device=own.device), r.labels[:n]]
            wanted = mask_targets(target["masks"], r.owners, r.positive)
            total = F.binary_cross_entropy_with_logits(chosen, wanted, reduction="sum")
            rows.append(torch.stack([total, total.new_tensor(chosen.numel())]))
        return torch.stack(rows)

    # evaluation

    def detect(
        self, maps: Sequence[Tensor], proposals: Sequence[Tensor], sizes: Sequence[Size], originals: Sequence[Size]
    ) -> list[Detections]:
        """The objects in each image.

        Args:
            maps: of the pyramid.
            proposals: boxes [n, 4] of each image.
            sizes: (h, w) of the images without padding.
            originals: (h, w) of the images before they were resized, in whose pixels boxes are given.
        """
        boxes, probabilities = self.refined(maps, proposals, sizes)
        found = [self._chosen(*given) for given in zip(boxes, probabilities, sizes, originals, strict=True)]
        if not self.masks:
            return found
        scales = [_scale(size, original, boxes[0]) for size, original in zip(sizes, originals, strict=True)]
        shown = [d.boxes * scale for d, scale in zip(found, scales, strict=True)]
        regions = self.pooled(maps, shown, MASK_SIDE)
        labels = torch.cat([d.labels for d in found])
        rows = torch.arange(len(labels), device=labels.device)
        masks = torch.stack([head(regions)[rows, labels].float().sigmoid() for head in self.masks]).mean(0)
        return [d._replace(masks=own) for d, own in zip(found, masks.split([len(d.boxes) for d in found]), strict=True)]

    def refined(
        self, maps: Sequence[Tensor], proposals: Sequence[Tensor], sizes: Sequence[Size]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The last stage's boxes of every class [n, K, 4] of each image, clipped, and probabilities [n, K + 1]."""
        counts, total = [len(boxes) for boxes in proposals], None
        for stage, head in zip(self.settings.stages, self.boxes, strict=True):
            logits, deltas = head(self.pooled(maps, proposals, BOX_SIDE))
            logits, deltas = logits.float(), deltas.float()
            total = logits if total is None else total + logits
            parts = list(zip(proposals, logits.split(counts), deltas.split(counts), sizes, strict=True))
            if stage is not self.settings.stages[-1]:
                proposals = [moved(boxes, z, d, stage.coder, size) for boxes, z, d, size in parts]
        assert total is not None
        boxes = [clip_boxes(stage.coder.decode(rois[:, None], d), size) for rois, _, d, size in parts]
        return boxes, list((total / len(self.settings.stages)).softmax(-1).split(counts))

    def _chosen(self, boxes: Tensor, probabilities: Tensor, size: Size, original: Size) -> Detections:
        """NMS within each class over the regions of one image."""
        settings = self.settings
        regions, labels = (probabilities[:, :-1] > settings.score).nonzero(as_tuple=True)
        scores, candidates = probabilities[regions, labels], boxes[regions, labels] / _scale(size, original, boxes)
        kept = batched_nms(candidates, scores, labels, settings.iou)[: settings.most]
        return Detections(candidates[kept], scores[kept], labels[kept], None)


def _scale(size: Size, original: Size, like: Tensor) -> Tensor:
    """[4]: how many times wider and higher the input is than the original image."""
    x, y = size[1] / original[1], size[0] / original[0]
    return like.new_tensor([x, y, x, y])
