"""Cascade Mask R-CNN on FAN-Hybrid, operation by operation as the released procedure computes it at test time.

What the benchmark compares with: the class token is appended and attended to although no level shows it, attention maps are
made, every BatchNorm is an operation of its own, and masks are pasted by reading them at every pixel of the image. Weights
have the published names; boxes are x1, y1, x2, y2. It shares no code with the package.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.ops import nms, roi_align

from plain import FAN_HEADS, Scope, Weights
from plain_segmenter import levels

STRIDES = (4, 8, 16, 32, 64)
STDS = ((0.1, 0.1, 0.2, 0.2), (0.05, 0.05, 0.1, 0.1), (0.033, 0.033, 0.067, 0.067))
MOST = math.log(1000 / 16)
Size = tuple[int, int]


def pyramid(weights: Weights, maps: list[Tensor]) -> list[Tensor]:
    neck = Scope(weights) / "neck"
    laterals = [(neck / "lateral_convs" / i / "conv").conv(z) for i, z in enumerate(maps)]
    for i in range(len(laterals) - 1, 0, -1):
        laterals[i - 1] = laterals[i - 1] + F.interpolate(laterals[i], size=laterals[i - 1].shape[2:], mode="nearest")
    outputs = [(neck / "fpn_convs" / i / "conv").conv(z, padding=1) for i, z in enumerate(laterals)]
    return [*outputs, F.max_pool2d(outputs[-1], 1, stride=2)]


def decoded(boxes: Tensor, deltas: Tensor, stds: tuple[float, ...], size: Size) -> Tensor:
    """[n, 4], [n, 4] -> [n, 4], clipped."""
    deltas = deltas * deltas.new_tensor(stds)
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    x, y = (boxes[:, 0] + boxes[:, 2]) * 0.5 + w * deltas[:, 0], (boxes[:, 1] + boxes[:, 3]) * 0.5 + h * deltas[:, 1]
    w, h = w * deltas[:, 2].clamp(-MOST, MOST).exp(), h * deltas[:, 3].clamp(-MOST, MOST).exp()
    found = torch.stack([x - w * 0.5, y - h * 0.5, x + w * 0.5, y + h * 0.5], dim=-1)
    return torch.stack([found[:, i].clamp(0, size[1 - i % 2]) for i in range(4)], dim=-1)


def anchors(height: int, width: int, stride: int) -> Tensor:
    side, ratios = 8.0 * stride, torch.tensor([0.5, 1.0, 2.0])
    h, w = side * ratios.sqrt(), side / ratios.sqrt()
    base = torch.stack([-0.5 * w, -0.5 * h, 0.5 * w, 0.5 * h], dim=-1)
    x = (torch.arange(width) * stride).repeat(height)
    y = (torch.arange(height) * stride)[:, None].repeat(1, width).reshape(-1)
    return (base[None] + torch.stack([x, y, x, y], dim=-1)[:, None]).reshape(-1, 4)


def suppressed(boxes: Tensor, scores: Tensor, groups: Tensor, iou: float, most: int) -> Tensor:
    """NMS within groups, by moving them apart."""
    moved = boxes + groups.to(boxes)[:, None] * (boxes.max() + 1)
    return nms(moved, scores, iou)[:most]


def proposals(weights: Weights, maps: list[Tensor], size: Size) -> Tensor:
    """[n, 4] of one image."""
    head, found = Scope(weights) / "rpn_head", []
    for level, (z, stride) in enumerate(zip(maps, STRIDES, strict=True)):
        hidden = F.relu((head / "rpn_conv").conv(z, padding=1))
        scores = (head / "rpn_cls").conv(hidden)[0].permute(1, 2, 0).reshape(-1).sigmoid()
        deltas = (head / "rpn_reg").conv(hidden)[0].permute(1, 2, 0).reshape(-1, 4)
        boxes = anchors(z.shape[2], z.shape[3], stride)
        if len(scores) > 1000:
            ranked, order = scores.sort(descending=True)
            scores, deltas, boxes = ranked[:1000], deltas[order[:1000]], boxes[order[:1000]]
        found.append((decoded(boxes, deltas, (1.0,) * 4, size), scores, torch.full((len(scores),), level)))
    boxes, scores, ids = (torch.cat(parts) for parts in zip(*found, strict=True))
    kept = ((boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])).nonzero().flatten()
    boxes, scores, ids = boxes[kept], scores[kept], ids[kept]
    return boxes[suppressed(boxes, scores, ids, 0.7, 1000)]


def pooled(maps: list[Tensor], boxes: Tensor, side: int) -> Tensor:
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    chosen = (areas.sqrt() / 56 + 1e-6).log2().floor().clamp(0, 3).long()
    found = maps[0].new_zeros(len(boxes), maps[0].shape[1], side, side)
    rois = torch.cat([boxes.new_zeros(len(boxes), 1), boxes], dim=1)
    for level in range(4):
        rows = (chosen == level).nonzero().flatten()
        if len(rows):
            scale = 1 / STRIDES[level]
            found[rows] = roi_align(maps[level], rois[rows], (side, side), scale, sampling_ratio=0, aligned=True)
    return found


def box_head(weights: Weights, stage: int, x: Tensor) -> tuple[Tensor, Tensor]:
    head = Scope(weights) / "roi_head" / "bbox_head" / stage
    for i in range(4):
        unit = head / "shared_convs" / i
        x = F.relu((unit / "bn").batch_norm((unit / "conv").conv(x, padding=1)))
    x = F.relu((head / "shared_fcs" / 0).linear(x.flatten(1)))
    return (head / "fc_cls").linear(x), (head / "fc_reg").linear(x)


def mask_head(weights: Weights, stage: int, x: Tensor) -> Tensor:
    head = Scope(weights) / "roi_head" / "mask_head" / stage
    for i in range(4):
        x = F.relu((head / "convs" / i / "conv").conv(x, padding=1))
    up = head / "upsample"
    x = F.relu(F.conv_transpose2d(x, up["weight"], up["bias"], stride=2))
    return (head / "conv_logits").conv(x)


def refined(boxes: Tensor, deltas: Tensor, classes: Tensor, stds: tuple[float, ...], size: Size) -> Tensor:
    own = torch.stack([deltas[torch.arange(len(boxes)), 4 * classes + i] for i in range(4)], dim=-1)
    return decoded(boxes, own, stds, size)


def pasted(probabilities: Tensor, boxes: Tensor, size: Size) -> Tensor:
    """bool [n, H, W]: every mask is read on all pixels of the image."""
    found = torch.zeros(len(boxes), *size, dtype=torch.bool)
    y, x = torch.arange(size[0]) + 0.5, torch.arange(size[1]) + 0.5
    for i, (probability, (x1, y1, x2, y2)) in enumerate(zip(probabilities, boxes, strict=True)):
        v, u = (y - y1) / (y2 - y1) * 2 - 1, (x - x1) / (x2 - x1) * 2 - 1
        grid = torch.stack([u[None].expand(size[0], -1), v[:, None].expand(-1, size[1])], dim=-1)
        found[i] = F.grid_sample(probability[None, None], grid[None], align_corners=False)[0, 0] >= 0.5
    return found


def detect(published_name: str, weights: Weights, image: Tensor) -> dict[str, Tensor]:
    """The objects in one normalised image [1, 3, H, W]: boxes, scores, labels, masks [n, H, W]."""
    size = (image.shape[2], image.shape[3])
    heads = FAN_HEADS[published_name]
    assert isinstance(heads, int)
    maps = levels(weights, image, heads)
    maps[3] = (Scope(weights) / "backbone" / "learnable_downsample").conv(maps[3], stride=2, padding=1)
    maps = pyramid(weights, maps)
    boxes, total = proposals(weights, maps, size), []
    for stage, stds in enumerate(STDS):
        logits, deltas = box_head(weights, stage, pooled(maps, boxes, 7))
        total.append(logits)
        if stage < 2:
            boxes = refined(boxes, deltas, logits[:, :-1].argmax(1), stds, size)
    scores = (sum(total) / 3).softmax(-1)[:, :-1]  # type: ignore[union-attr]
    K = scores.shape[1]
    every = decoded(boxes[:, None].expand(-1, K, 4).reshape(-1, 4), deltas.reshape(-1, 4), STDS[2], size)
    rows, labels = (scores > 0.05).nonzero(as_tuple=True)
    candidates, values = every.reshape(-1, K, 4)[rows, labels], scores[rows, labels]
    kept = suppressed(candidates, values, labels, 0.5, 100) if len(rows) else rows
    boxes, values, labels = candidates[kept], values[kept], labels[kept]
    regions = pooled(maps, boxes, 14)
    masks = torch.stack([mask_head(weights, stage, regions).sigmoid() for stage in range(3)]).mean(0)
    own = masks[torch.arange(len(labels)), labels]
    return {"boxes": boxes, "scores": values, "labels": labels, "masks": pasted(own, boxes, size)}
