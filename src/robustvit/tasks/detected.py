"""What models say about objects, as `Found`: of our detectors, of torchvision's and of functions of a user, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustvit.metrics.box_matching import Found
from robustvit.models.heads.region_heads import paste_masks
from robustvit.models.heads.region_network import Detections
from robustvit.runtime.run_lengths import RunLengths

__all__ = ["Places", "found_objects", "given_objects"]

Size = tuple[int, int]
Places = Callable[[np.ndarray], np.ndarray]
"""Labels of a model -> classes of the dataset; -1 for what is none of these."""
_PIXELS = 2**24
"""Of masks that are held at once."""
_LEAST = 0.5
"""Of the probability of a pixel of a mask."""


def found_objects(detections: Detections, size: Size, places: Places) -> Found:
    """Objects of one of our detectors, in an image of (h, w) pixels."""
    masks = None
    if detections.masks is not None:
        step = max(1, _PIXELS // (size[0] * size[1]))
        parts = zip(detections.masks.split(step), detections.boxes.split(step), strict=True)
        runs = [RunLengths.from_dense(paste_masks(*part, size)[:, 0].cpu().numpy()).runs for part in parts]
        masks = RunLengths(size, tuple(run for part in runs for run in part))
    boxes, scores, labels = (part.cpu() for part in detections[:3])
    return _kept(Found(boxes.double().numpy(), scores.float().numpy(), labels.numpy().astype(np.int64), masks), places)


def given_objects(answer: Any, images: Tensor, places: Places, whose: str, has_masks: bool | None = None) -> list[Found]:
    """Objects from what a model of a user answered to images.

    Args:
        answer: a sequence with {"boxes": [n, 4], "scores": [n], "labels": [n]} for each image, and maybe "masks": [n, h, w] or
            [n, 1, h, w], of bool, or of probabilities.
        images: [B, 3, H, W].
        places: what the labels mean.
        whose: name of the model, for the message.
        has_masks: whether masks are wanted; None takes them where they are.

    Raises:
        ValueError: it is anything else.
    """
    B, _, H, W = images.shape
    expected = f'expected {B} dictionaries with "boxes" [n, 4] as x1, y1, x2, y2 in pixels, "scores" [n] and "labels" [n]'
    if isinstance(answer, str | Mapping) or not isinstance(answer, Sequence) or len(answer) != B:
        given = f"{len(answer)} answers" if isinstance(answer, Sequence) else f"a {type(answer).__name__}"
        raise ValueError(f"{whose} returned {given} for {B} images; {expected}")
    return [_kept(_checked(one, (H, W), f"{whose} returned", expected), places) for one in answer]


def _checked(given: Any, size: Size, told: str, expected: str) -> Found:
    if not isinstance(given, Mapping) or not {"boxes", "scores", "labels"} <= set(given):
        keys = f"the keys {', '.join(map(str, given))}" if isinstance(given, Mapping) else f"a {type(given).__name__}"
        raise ValueError(f"{told} {keys} for an image; {expected}")
    boxes, scores, labels = (_array(given[key]) for key in ("boxes", "scores", "labels"))
    boxes = boxes.reshape(-1, 4) if boxes.size == 0 else boxes
    n = len(scores)
    if boxes.shape != (n, 4) or scores.shape != (n,) or labels.shape != (n,):
        shapes = f"boxes {list(boxes.shape)}, scores {list(scores.shape)} and labels {list(labels.shape)}"
        raise ValueError(f"{told} {shapes} for an image; {expected}")
    if n and not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{told} labels of the type {labels.dtype}; give integers")
    if n and not all(np.issubdtype(part.dtype, np.number) for part in (boxes, scores)):
        raise ValueError(f"{told} boxes of the type {boxes.dtype} and scores of the type {scores.dtype}; {expected}")
    if (is_turned := (boxes[:, 2:] < boxes[:, :2]).any(1)).any():
        wrong = ", ".join(f"{side:g}" for side in boxes[is_turned][0])
        raise ValueError(f"{told} the box {wrong}, which ends before it starts; {expected}, not as x, y, width, height")
    masks = RunLengths.from_dense(_masks(given["masks"], n, size, told)) if given.get("masks") is not None else None
    return Found(boxes.astype(np.float64), scores.astype(np.float64), labels.astype(np.int64), masks)


def _masks(given: Any, count: int, size: Size, told: str) -> np.ndarray:
    masks = _array(given)
    masks = masks[:, 0] if masks.ndim == 4 and masks.shape[1] == 1 else masks
    if masks.shape != (count, *size):
        raise ValueError(f"{told} masks {list(masks.shape)} for an image; expected [{count}, {size[0]}, {size[1]}]")
    return masks >= _LEAST if np.issubdtype(masks.dtype, np.floating) else masks != 0


def _array(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy()
    return np.asarray(value)


def _kept(found: Found, places: Places) -> Found:
    """With classes of the dataset; without objects of other classes, and without boxes or scores that are no numbers."""
    classes = places(found.classes)
    is_kept = (classes >= 0) & np.isfinite(found.boxes).all(1) & np.isfinite(found.scores)
    masks = None if found.masks is None else found.masks.of(is_kept)
    return Found(found.boxes[is_kept], found.scores[is_kept], classes[is_kept], masks)
