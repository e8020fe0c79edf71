"""What a detector learns from: the objects of an image, before and after the image was placed on a canvas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from robustvit.data.object_annotations import LEAST_SIDE
from robustvit.metrics.box_matching import Labelled

__all__ = ["Objects", "as_tensors", "learnable_objects", "placed", "resized_target"]

Objects = dict[str, np.ndarray]
"""boxes float32 [n, 4], labels int64 [n] and, where there are any, masks uint8 [n, H, W]; of an image on a canvas also size,
the (h, w) that it has there."""


def learnable_objects(target: Labelled | Objects) -> Objects:
    """Those of a whole image: no crowds, and nothing without area or below 1 pixel in width or height, as published."""
    if not isinstance(target, Labelled):
        return target
    is_large = (target.boxes[:, 2:] - target.boxes[:, :2] >= LEAST_SIDE).all(1) & (target.areas > 0)
    kept = np.flatnonzero(~target.is_crowd & is_large)
    made: Objects = {"boxes": target.boxes[kept].astype(np.float32), "labels": target.classes[kept].astype(np.int64)}
    if target.masks is not None:
        made["masks"] = target.masks.of(kept).dense().view(np.uint8)
    return made


def placed(target: Labelled | Objects, placement: Any) -> Objects:
    """The objects after their image was cropped, flipped and resized; those that are outside now are left out."""
    given = learnable_objects(target)
    boxes = placement.boxes(given["boxes"])
    kept = np.flatnonzero((boxes[:, 2:] > boxes[:, :2]).all(1))
    found: Objects = {"boxes": boxes[kept], "labels": given["labels"][kept], "size": np.array(placement.shown, np.int64)}
    if "masks" in given:
        found["masks"] = placement.masks(given["masks"][kept])
    return found


def as_tensors(target: Labelled | Objects) -> dict[str, Tensor]:
    """As a detector takes them."""
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in learnable_objects(target).items()}


def resized_target(target: Mapping[str, Tensor], original: Sequence[int], size: Sequence[int]) -> dict[str, Tensor]:
    """The objects of an image of (H, W) pixels that was resized to (h, w)."""
    down, right = size[0] / original[0], size[1] / original[1]
    moved = {**target, "boxes": target["boxes"] * target["boxes"].new_tensor([right, down, right, down])}
    if "masks" in target and tuple(original) != tuple(size):
        moved["masks"] = F.interpolate(target["masks"][:, None].float(), tuple(size), mode="nearest")[:, 0]
    return moved
