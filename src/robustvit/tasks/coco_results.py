"""Detections in COCO's result format, which its servers and tools read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robustvit.metrics.box_matching import Found, to_xywh

__all__ = ["coco_results"]

_PLACES = 6
"""Decimals of boxes in pixels: AP from the file is that of the detections themselves."""
_SCORE_PLACES = 10
"""Decimals of scores: those of float32 that differ still do, so that their order stays."""


def coco_results(found: Found, image_id: int | str, category_ids: Sequence[int] | None = None) -> list[dict[str, Any]]:
    """The detections of an image as dicts with image_id, category_id, bbox (x, y, width, height), score and, where there are
    masks, segmentation (compressed run lengths).

    Args:
        found: in pixels of the image.
        image_id: its id in the annotation file.
        category_ids: class -> id in the annotation file; None counts classes from 1.
    """
    ids = [int(kind) + 1 if category_ids is None else int(category_ids[kind]) for kind in found.classes]
    boxes = np.round(to_xywh(np.asarray(found.boxes, np.float64)), _PLACES).tolist()
    scores = np.round(np.asarray(found.scores, np.float64), _SCORE_PLACES).tolist()
    shapes = found.masks.to_coco() if found.masks is not None else None
    rows = [
        {"image_id": image_id, "category_id": category_id, "bbox": box, "score": score}
        for category_id, box, score in zip(ids, boxes, scores, strict=True)
    ]
    return rows if shapes is None else [{**row, "segmentation": shape} for row, shape in zip(rows, shapes, strict=True)]
