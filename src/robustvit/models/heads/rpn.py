"""Region proposals: where something may be, whatever it is. A score and an offset for every anchor of every map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import batched_nms

from robustvit.models.heads.anchors import RATIOS, anchors_of, base_anchors, is_inside
from robustvit.models.heads.assignment import NEGATIVE, Assigner, everything, sample
from robustvit.models.heads.box_coder import BoxCoder, clip_boxes

__all__ = ["RegionProposals", "RegionSettings"]

Size = tuple[int, int]


@dataclass(frozen=True)
class RegionSettings:
    """How proposals are trained and chosen: as published for the cascade.

    Attributes:
        anchor_scale: side of an anchor over the stride of its map.
        assigner: which anchors are positive.
        samples, positive_share: anchors of an image in the loss.
        crosses_edge: whether anchors that cross the edge of the image take part in training.
        beta: of the smooth L1 loss of offsets; 0 for L1.
        before: proposals of each map before NMS, in training and in evaluation.
        after: proposals of an image.
        iou: of NMS, within each map.
    """

    anchor_scale: float = 8.0
    assigner: Assigner = field(default_factory=lambda: Assigner(0.7, 0.3, 0.3))
    samples: int = 256
    positive_share: float = 0.5
    crosses_edge: bool = False
    beta: float = 1 / 9
    before: tuple[int, int] = (2000, 1000)
    after: tuple[int, int] = (2000, 1000)
    iou: float = 0.7


class RegionProposals(nn.Module):
    """Scores and offsets of anchors, and the proposals among them.

    Args:
        width: of the maps.
        strides: of the maps.
        settings: see there.
    """

    def __init__(self, width: int, strides: Sequence[int], settings: RegionSettings) -> None:
        super().__init__()
        self.strides, self.settings, self.coder = tuple(strides), settings, BoxCoder()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.scores = nn.Conv2d(width, len(RATIOS), 1)
        self.deltas = nn.Conv2d(width, 4 * len(RATIOS), 1)
        for layer in (self.conv, self.scores, self.deltas):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, pyramid: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Five maps -> logits [B, 3, h, w] and offsets [B, 12, h, w] of each."""
        hidden = [F.relu(self.conv(level)) for level in pyramid]
        return [self.scores(z) for z in hidden], [self.deltas(z) for z in hidden]

    def anchors(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """[h * w * 3, 4] of each map; whatever the precision of the maps, in float32."""
        bases = [base_anchors(self.settings.anchor_scale * stride).to(maps[0].device) for stride in self.strides]
        sizes = [(level.shape[2], level.shape[3]) for level in maps]
        return [anchors_of(size, stride, base) for size, stride, base in zip(sizes, self.strides, bases, strict=True)]

    @torch.no_grad()
    def proposals(
        self, scores: Sequence[Tensor], deltas: Sequence[Tensor], sizes: Sequence[Size]
    ) -> list[tuple[Tensor, Tensor]]:
        """(boxes [n, 4], scores [n]) of each image, best first.

        Args:
            scores, deltas: of `forward`.
            sizes: (h, w) of the images without padding, to which boxes are clipped.
        """
        before, _ = self._limits()
        anchors, found = self.anchors(scores), []
        for logits, offsets, boxes in zip(map(_rows, scores), map(_offsets, deltas), anchors, strict=True):
            best, places = logits.float().sigmoid().sort(dim=1, descending=True, stable=True)  # many tie close to 1
            best, places = best[:, :before], places[:, :before]
            chosen = offsets.float().gather(1, places[:, :, None].expand(-1, -1, 4))
            found.append((best, self.coder.decode(boxes[places], chosen)))
        return [self._chosen([(s[i], boxes[i]) for s, boxes in found], size) for i, size in enumerate(sizes)]

    def _limits(self) -> tuple[int, int]:
        mode = 0 if self.training else 1
        return self.settings.before[mode], self.settings.after[mode]

    def _chosen(self, found: Sequence[tuple[Tensor, Tensor]], size: Size) -> tuple[Tensor, Tensor]:
        """NMS over the candidates of one image."""
        scores, boxes = torch.cat([s for s, _ in found]), clip_boxes(torch.cat([b for _, b in found]), size)
        levels = torch.cat([torch.full((len(s),), i, device=s.device) for i, (s, _) in enumerate(found)])
        has_area = ((boxes[:, 2:] - boxes[:, :2]) > 0).all(1) & scores.isfinite()
        scores, boxes, levels = scores[has_area], boxes[has_area], levels[has_area]
        kept = batched_nms(boxes, scores, levels, self.settings.iou)[: self._limits()[1]]
        return boxes[kept], scores[kept]

    def losses(
        self,
        scores: Sequence[Tensor],
        deltas: Sequence[Tensor],
        sizes: Sequence[Size],
        labelled: Sequence[Tensor],
        *,
        sampled: bool = True,
    ) -> dict[str, Tensor]:
        """Of objectness and of offsets: name -> [B, 2], a sum and the number of samples that it is divided by.

        Args:
            scores, deltas: of `forward`.
            sizes: (h, w) of the images without padding.
            labelled: boxes [m, 4] of each image.
            sampled: of some anchors, drawn at random; otherwise of all that are positive or negative.
        """
        logits = torch.cat([_rows(z) for z in scores], dim=1).float()  # B anchors
        offsets = torch.cat([_offsets(z) for z in deltas], dim=1).float()  # B anchors 4
        anchors = torch.cat(self.anchors(scores))
        rows = [self._image_losses(*row, anchors, sampled) for row in zip(logits, offsets, sizes, labelled, strict=True)]
        return {name: torch.stack([row[name] for row in rows]) for name in ("loss_objectness", "loss_rpn_box_reg")}

    def _image_losses(
        self, logits: Tensor, offsets: Tensor, size: Size, labelled: Tensor, anchors: Tensor, sampled: bool
    ) -> dict[str, Tensor]:
        settings = self.settings
        usable = torch.ones_like(logits, dtype=torch.bool) if settings.crosses_edge else is_inside(anchors, size)
        places = usable.nonzero().flatten()
        assigned = settings.assigner(anchors[places], labelled)
        chosen = sample(assigned, settings.samples, settings.positive_share) if sampled else everything(assigned)
        positive, counted = places[chosen.positive], places[chosen.all]
        is_object = (assigned[chosen.all] != NEGATIVE).float()
        score = F.binary_cross_entropy_with_logits(logits[counted], is_object, reduction="sum")
        targets = self.coder.encode(anchors[positive], labelled[assigned[chosen.positive]])
        box = F.smooth_l1_loss(offsets[positive], targets, reduction="sum", beta=settings.beta)
        count = score.new_tensor(len(counted))
        return {"loss_objectness": torch.stack([score, count]), "loss_rpn_box_reg": torch.stack([box, count])}


def _rows(scores: Tensor) -> Tensor:
    """[B, A, h, w] -> [B, h * w * A]."""
    return scores.permute(0, 2, 3, 1).flatten(1)


def _offsets(deltas: Tensor) -> Tensor:
    """[B, A * 4, h, w] -> [B, h * w * A, 4]."""
    return deltas.permute(0, 2, 3, 1).reshape(len(deltas), -1, 4)
