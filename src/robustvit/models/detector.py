"""Detectors: a backbone of any family, a feature pyramid, region proposals, and heads that name and outline the regions.

As torchvision's detectors: losses in training, a list of dictionaries in evaluation. Unlike there, `num_classes` and labels do
not count the background, and images come normalised (the `detection` task resizes, normalises and pads them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from robustvit.models.dense import DenseNetwork
from robustvit.models.heads.assignment import Assigner
from robustvit.models.heads.box_coder import BoxCoder
from robustvit.models.heads.fpn import PYRAMID_STRIDES, FeaturePyramid
from robustvit.models.heads.region_heads import paste_masks
from robustvit.models.heads.region_network import Detections, RegionNetwork, StageSettings
from robustvit.models.heads.regions import Stage, Target
from robustvit.models.heads.rpn import RegionProposals, RegionSettings
from robustvit.models.levels import Backbone
from robustvit.models.published_tensors import detection_head_weights

__all__ = ["CANVAS", "OPTIONS", "Detector", "build_detector"]

CANVAS = 32
"""Images of a list are padded, below and on the right, to multiples of so many pixels."""
Size = tuple[int, int]
Images = Tensor | Sequence[Tensor]


class Detector(DenseNetwork):
    """A backbone with a pyramid, proposals and region heads.

    Args:
        backbone: what gives the levels.
        num_classes: without background.
        width: of the pyramid.
        proposals: how regions are proposed.
        regions: how they are learned and chosen.
        has_masks: whether objects are outlined.
        head: options of `BoxHead`.

    Attributes:
        fit: see `build_detector`.
    """

    task = "detection"
    fit: Size | None = None
    why_not_exported = (
        "how many regions and objects an image has depends on its pixels, which these files cannot say; export its backbone"
    )
    from_published = staticmethod(detection_head_weights)
    called_besides_forward = ("image_losses", "detect", "forward_patches")
    """Methods by which it, or a block of it, is called in training; a sharded network must know them."""

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        *,
        width: int,
        proposals: RegionSettings,
        regions: StageSettings,
        has_masks: bool,
        head: Mapping[str, Any],
    ) -> None:
        super().__init__(backbone, num_classes)
        self.has_masks = has_masks
        self.pyramid = FeaturePyramid(backbone.channels, backbone.strides, width)
        self.proposals = RegionProposals(width, PYRAMID_STRIDES, proposals)
        strides = PYRAMID_STRIDES[:-1]
        self.regions = RegionNetwork(width, num_classes, strides, regions, has_masks=has_masks, head=dict(head))

    @property
    def classifiers(self) -> tuple[str, ...]:
        boxes = [f"regions.boxes.{i}.{layer}" for i in range(len(self.regions.boxes)) for layer in ("classes", "deltas")]
        return (*boxes, *(f"regions.masks.{i}.classes" for i in range(len(self.regions.masks))))

    def reset_classifier(self, num_classes: int) -> None:
        """Fresh classifiers for `num_classes`."""
        self.num_classes = num_classes
        self.regions.reset_classifier(num_classes)

    def forward_pyramid(self, levels: Sequence[Tensor]) -> list[Tensor]:
        """The levels of `forward_features` -> five maps [B, width, H_i, W_i] of strides 4 to 64."""
        return self.pyramid(levels)

    def forward_rpn(self, pyramid: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Objectness logits [B, 3, H_i, W_i] and offsets [B, 12, H_i, W_i] of the anchors of each map."""
        return self.proposals(pyramid)

    def forward(
        self,
        images: Images,
        targets: Sequence[Target] | None = None,
        *,
        sizes: Sequence[Size] | None = None,
        originals: Sequence[Size] | None = None,
    ) -> Any:
        """Normalised images -> losses in training, objects in evaluation.

        Args:
            images: [B, 3, H, W], or a list of [3, h, w], which are padded with zeros to one size.
            targets: in training, of each image {"boxes": [m, 4], "labels": int64 [m], "masks": [m, h, w]}; boxes are x1, y1,
                x2, y2 in pixels. "size", int64 [2], may say what `sizes` says.
            sizes: (h, w) of the images without padding; by default, there is none in a tensor.
            originals: in evaluation, (h, w) of the images before they were resized, in whose pixels the answer is; by default
                they were not.

        Returns:
            In training {name: loss}; in evaluation, of each image {"boxes": [n, 4], "scores": [n], "labels": int64 [n] and,
            where the network has them, "masks": bool [n, 1, h, w]}.
        """
        is_padded, (images, sizes) = isinstance(images, Tensor) and sizes is None, batched(images, sizes)
        if self.training:
            if targets is None or len(targets) != len(images):
                given = "none" if targets is None else len(targets)
                raise ValueError(f"{len(images)} images in training need as many targets, got {given}; eval() needs none")
            sizes = content_sizes(targets, images) if is_padded else sizes
            totals = {name: loss.sum(0) for name, loss in self.image_losses(images, targets, sizes).items()}
            return {name: total / count.clamp(min=1) for name, (total, count) in totals.items()}
        originals = sizes if originals is None else originals
        found = self.detect(images, sizes, originals)
        return [_answer(own, original) for own, original in zip(found, originals, strict=True)]

    def image_losses(
        self, images: Tensor, targets: Sequence[Target], sizes: Sequence[Size] | None = None, *, sampled: bool = True
    ) -> dict[str, Tensor]:
        """Name of a loss -> [B, 2]: of each image a weighted sum, and what the sum over all images is divided by.

        Args:
            images: normalised [B, 3, H, W].
            targets, sizes: as of `forward`.
            sampled: take the loss of some anchors and regions, drawn at random; otherwise of all of them.
        """
        sizes = content_sizes(targets, images) if sizes is None else sizes
        pyramid = self.forward_pyramid(self.forward_features(images))
        return self.losses_of(pyramid, self.forward_rpn(pyramid), targets, sizes, sampled=sampled)

    def losses_of(
        self,
        pyramid: Sequence[Tensor],
        anchors: tuple[Sequence[Tensor], Sequence[Tensor]],
        targets: Sequence[Target],
        sizes: Sequence[Size],
        *,
        sampled: bool = True,
    ) -> dict[str, Tensor]:
        """As `image_losses`, from maps that are computed already.

        Args:
            pyramid: of `forward_pyramid`.
            anchors: of `forward_rpn`.
            targets, sizes: as of `forward`.
            sampled: as of `image_losses`. Where the loss is of all, masks are left out if there are none.
        """
        targets, (scores, deltas) = [self._checked(target, needs_masks=sampled) for target in targets], anchors
        labelled = [target["boxes"] for target in targets]
        losses = self.proposals.losses(scores, deltas, sizes, labelled, sampled=sampled)
        proposals = [boxes for boxes, _ in self.proposals.proposals(scores, deltas, sizes)]
        return losses | self.regions.losses(pyramid, proposals, targets, sizes, sampled=sampled)

    def detect(self, images: Tensor, sizes: Sequence[Size], originals: Sequence[Size]) -> list[Detections]:
        """The objects in normalised images [B, 3, H, W]; `forward` explains sizes and originals."""
        pyramid = self.forward_pyramid(self.forward_features(images))
        proposals = self.proposals.proposals(*self.forward_rpn(pyramid), sizes)
        return self.regions.detect(pyramid, [boxes for boxes, _ in proposals], sizes, originals)

    def _checked(self, target: Target, *, needs_masks: bool) -> Target:
        """Raises ValueError for a target that cannot be learned."""
        boxes, labels = target["boxes"], target["labels"]
        if boxes.ndim != 2 or boxes.shape[1] != 4 or len(boxes) != len(labels):
            raise ValueError(
                f"a target has boxes {list(boxes.shape)} and labels {list(labels.shape)}; expected [m, 4] and [m]"
            )
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < self.num_classes:
            raise ValueError(
                f"a target has the labels {sorted(set(labels.tolist()))[:8]}; expected 0 to {self.num_classes - 1}, without "
                "background"
            )
        if not boxes.isfinite().all() or not (boxes[:, 2:] > boxes[:, :2]).all():
            raise ValueError("a target has boxes without area, or infinite ones; expected x1 < x2 and y1 < y2")
        has_masks = "masks" in target or not needs_masks
        if self.has_masks and (not has_masks or len(target.get("masks", boxes)) != len(boxes)):
            raise ValueError('a target has no masks; give "masks" [m, h, w], or train a detector of boxes alone')
        return {**target, "boxes": boxes.float()}


def content_sizes(targets: Sequence[Target], images: Tensor) -> list[Size]:
    """(h, w) of images [B, 3, H, W] without padding, where the targets say it: "size" int64 [2]; else there is none."""
    whole = (images.shape[2], images.shape[3])
    return [(int(target["size"][0]), int(target["size"][1])) if "size" in target else whole for target in targets]


def whole_sizes(images: Tensor) -> list[Size]:
    """(H, W) of each image of a batch."""
    return [(images.shape[2], images.shape[3])] * len(images)


def batched(images: Images, sizes: Sequence[Size] | None) -> tuple[Tensor, Sequence[Size]]:
    """A batch, and the sizes of its images without padding."""
    if isinstance(images, Tensor):
        if images.ndim != 4:
            raise ValueError(f"images are {list(images.shape)}; expected [B, 3, H, W], or a list of [3, h, w]")
        return images, whole_sizes(images) if sizes is None else sizes
    if not images or any(image.ndim != 3 for image in images):
        raise ValueError(f"a list of {len(images)} images; expected at least one, each [3, h, w]")
    own = [(image.shape[1], image.shape[2]) for image in images]
    H, W = (-(-max(sides) // CANVAS) * CANVAS for sides in zip(*own, strict=True))
    padded = [F.pad(image, (0, W - image.shape[2], 0, H - image.shape[1])) for image in images]
    return torch.stack(padded), own if sizes is None else sizes


def _answer(found: Detections, size: Size) -> dict[str, Tensor]:
    answer = {"boxes": found.boxes, "scores": found.scores, "labels": found.labels}
    return answer if found.masks is None else answer | {"masks": paste_masks(found.masks, found.boxes, size)}


CASCADE = tuple(
    Stage(Assigner(iou, iou), BoxCoder((xy, xy, wh, wh)), weight)
    for iou, xy, wh, weight in ((0.5, 0.1, 0.2, 1.0), (0.6, 0.05, 0.1, 0.5), (0.7, 0.033, 0.067, 0.25))
)
"""As published: thresholds, deviations of the offsets, weights."""
SINGLE = (Stage(Assigner(0.5, 0.5, 0.5), BoxCoder((0.1, 0.1, 0.2, 0.2))),)
"""Of Mask R-CNN, with low-quality matches."""
_CASCADE = dict(proposals=RegionSettings(), regions=StageSettings(CASCADE), head=dict(convs=4, linears=1))
_SINGLE = dict(
    proposals=RegionSettings(crosses_edge=True, beta=0.0, after=(1000, 1000)),
    regions=StageSettings(SINGLE, box_loss="l1"),
    head=dict(convs=0, linears=2),
)
_HEADS: Mapping[str, Mapping[str, Any]] = {
    "faster_rcnn": dict(_SINGLE, has_masks=False),
    "mask_rcnn": dict(_SINGLE, has_masks=True),
    "cascade_rcnn": dict(_CASCADE, has_masks=False),
    "cascade_mask_rcnn": dict(_CASCADE, has_masks=True),
}
OPTIONS = ("width", "hidden", "anchor_scale", "proposals", "region_samples", "score_threshold", "fit")
"""What detectors can be built with."""


def build_detector(
    head: str,
    backbone: Backbone,
    num_classes: int,
    *,
    width: int | None = None,
    hidden: int | None = None,
    anchor_scale: float = 8.0,
    proposals: int | None = None,
    region_samples: int = 512,
    score_threshold: float = 0.05,
    fit: Size | None = None,
) -> Detector:
    """The detector of a head of `DETECTION_HEADS`.

    Args:
        head: its name.
        backbone: of `build_backbone`.
        num_classes: without background.
        width: of the pyramid; by default 256, and 64 for nano sizes.
        hidden: width of the linear layers of the box heads; by default 1024, and 256 for nano sizes.
        anchor_scale: side of an anchor over the stride of its map: 8 for objects of 32 pixels and more.
        proposals: regions of an image that may be objects, at most; by default 1000, and 2000 for a cascade in training. For
            small images with few objects, fewer are faster.
        region_samples: regions of an image that a stage learns from.
        score_threshold: that detections must exceed.
        fit: (longer, shorter side) that images are resized into, ratio kept, before the network sees them: (1333, 800) as
            published; None leaves them as they are. The `detection` task does it.

    Raises:
        ValueError: an option has a value that is not possible.
    """
    given = dict(width=width, hidden=hidden, anchor_scale=anchor_scale, proposals=proposals, region_samples=region_samples)
    for name, value in given.items():
        if value is not None and value <= 0:
            raise ValueError(f"{name}={value} is not possible for {head}; give more than 0")
    if not 0 <= score_threshold < 1:
        raise ValueError(f"score_threshold={score_threshold} is not possible for {head}; give 0 or more and less than 1")
    if fit is not None and (len(fit) != 2 or min(fit) < 1):
        raise ValueError(f"fit={fit} is not possible for {head}; give the longer and the shorter side in pixels")
    is_narrow = str(backbone.cfg.get("architecture", "")).endswith("_nano")
    parts = _HEADS[head]
    after = parts["proposals"].after if proposals is None else (proposals, proposals)
    network = Detector(
        backbone,
        num_classes,
        width=width or (64 if is_narrow else 256),
        proposals=replace(parts["proposals"], anchor_scale=anchor_scale, after=after),
        regions=replace(parts["regions"], samples=region_samples, score=score_threshold),
        has_masks=parts["has_masks"],
        head={**parts["head"], "hidden": hidden or (256 if is_narrow else 1024)},
    )
    network.fit = None if fit is None else (fit[0], fit[1])
    return network
