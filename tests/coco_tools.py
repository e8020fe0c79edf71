"""Random detections with labels, and what the packages pycocotools and faster-coco-eval make of them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import faster_coco_eval
import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from robustvit.metrics.box_matching import Found, Labelled, to_xywh
from robustvit.runtime.run_lengths import RunLengths

__all__ = ["PACKAGES", "Evaluated", "Pair", "evaluated_by", "prepared", "random_pair", "to_coco"]

Pair = tuple[Found, Labelled]
"""What was found in an image, and what is in it."""
PACKAGES: dict[str, tuple[Any, Any]] = {
    "pycocotools": (COCO, COCOeval),
    "faster-coco-eval": (faster_coco_eval.COCO, faster_coco_eval.COCOeval_faster),
}


class Evaluated(NamedTuple):
    """The 12 statistics [12], AP per class [K] and precision [10, 101, K] at all areas; NaN where there are no objects."""

    statistics: np.ndarray
    class_ap: np.ndarray
    precision: np.ndarray


def random_pair(
    random: np.random.Generator,
    classes: int,
    *,
    size: tuple[int, int] = (120, 150),
    most: int = 30,
    masks: bool = False,
    grid: float = 4.0,
) -> Pair:
    """An image with up to 8 objects and up to `most` detections, most of them near objects.

    Corners and sides lie on a grid, so that overlaps tie and meet thresholds; scores tie; some boxes have no area, and some
    areas are those where a range of areas ends. The last class has no objects, if there are several.
    """
    m, n = int(random.integers(0, 9)), int(random.integers(0, most + 1))
    boxes, kinds = _random_boxes(random, m, size, grid), random.integers(0, max(classes - 1, 1), m)
    found, found_kinds = _random_boxes(random, n, size, grid), random.integers(0, classes, n)
    if m:
        near, is_near = random.integers(0, m, n), random.random(n) < 0.8
        moved = boxes[near] + grid * random.integers(-1, 2, (n, 4)) * random.integers(0, 2, (n, 1))
        found = np.where(is_near[:, None], np.maximum(np.round(moved, 2), 0), found)
        found_kinds = np.where(is_near & (random.random(n) < 0.9), kinds[near], found_kinds)
    areas = np.where(random.random(m) < 0.3, random.choice([0.0, 1024.0, 1024.5, 9216.0, 9215.5], m), np.prod(boxes[:, 2:], 1))
    boxes, found = _corners(boxes), _corners(found)
    labelled = Labelled(boxes, kinds, areas, random.random(m) < 0.15, _masks_in(random, boxes, size) if masks else None)
    scores = np.round(random.random(n), int(random.integers(1, 4)))
    return Found(found, scores, found_kinds, _masks_in(random, found, size) if masks else None), labelled


def _random_boxes(random: np.random.Generator, count: int, size: tuple[int, int], grid: float) -> np.ndarray:
    """[count, 4]: x, y, width, height on a grid; some of 32x32, some of 96x96, some without area."""
    sides = grid * random.integers(0, 20, (count, 2))
    sides = np.where(random.random((count, 1)) < 0.2, random.choice([32.0, 96.0], (count, 1)), sides)
    starts = grid * np.floor(random.random((count, 2)) * np.maximum([size[1], size[0]] - sides, 0) / grid)
    return np.round(np.concatenate([starts, sides], axis=1), 2)


def _corners(boxes: np.ndarray) -> np.ndarray:
    return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)


def _masks_in(random: np.random.Generator, boxes: np.ndarray, size: tuple[int, int]) -> RunLengths:
    """Of each box, all of it, the ellipse in it, or a random half of its pixels."""
    dense = np.zeros((len(boxes), *size), bool)
    y, x = np.mgrid[: size[0], : size[1]] + 0.5
    for mask, (x1, y1, x2, y2), form in zip(dense, boxes, random.integers(0, 3, len(boxes)), strict=True):
        mask[int(y1) : int(y2), int(x1) : int(x2)] = True
        if form == 1:
            mask &= ((2 * x - x1 - x2) * (y2 - y1)) ** 2 + ((2 * y - y1 - y2) * (x2 - x1)) ** 2 <= ((x2 - x1) * (y2 - y1)) ** 2
        elif form == 2:
            mask &= random.random(size) < 0.5
    return RunLengths.from_dense(dense)


def to_coco(
    pairs: Sequence[Pair], classes: int, size: tuple[int, int], *, boxes: bool = True
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(ground truth, detections) in COCO's format; image i has the id i + 1, class k the id k + 1.

    Args:
        pairs: of the images.
        classes: how many there are.
        size: (height, width) of the images.
        boxes: whether the detections carry boxes besides masks.
    """
    truth: list[dict[str, Any]] = []
    detections: list[dict[str, Any]] = []
    for i, (found, labelled) in enumerate(pairs):
        shapes, sides = labelled.masks.to_coco() if labelled.masks is not None else [], to_xywh(labelled.boxes).tolist()
        for j, (kind, area, crowd) in enumerate(zip(labelled.classes, labelled.areas, labelled.is_crowd, strict=True)):
            one = {"id": len(truth) + 1, "image_id": i + 1, "category_id": int(kind) + 1, "bbox": sides[j]}
            own = {"segmentation": shapes[j]} if shapes else {}
            truth.append({**one, "area": float(area), "iscrowd": int(crowd), **own})
        shapes, sides = found.masks.to_coco() if found.masks is not None else [], to_xywh(found.boxes).tolist()
        for j, (kind, score) in enumerate(zip(found.classes, found.scores, strict=True)):
            given = {"image_id": i + 1, "category_id": int(kind) + 1, "score": float(score)}
            if boxes or not shapes:
                given["bbox"] = sides[j]
            detections.append({**given, "segmentation": shapes[j]} if shapes else given)
    images = [{"id": i + 1, "height": size[0], "width": size[1], "file_name": f"{i}.jpg"} for i in range(len(pairs))]
    categories = [{"id": k + 1, "name": f"class {k}"} for k in range(classes)]
    return {"images": images, "categories": categories, "annotations": truth, "info": {}}, detections


def evaluated_by(
    package: str, truth: dict[str, Any], detections: list[dict[str, Any]], kind: Literal["boxes", "masks"]
) -> Evaluated:
    """What a package says of detections in COCO's format, one or more."""
    return prepared(package, truth, detections, kind)()


def prepared(
    package: str, truth: dict[str, Any], detections: list[dict[str, Any]], kind: Literal["boxes", "masks"]
) -> Callable[[], Evaluated]:
    """The evaluation alone, of data that the package has read."""
    data, evaluation = PACKAGES[package]
    with contextlib.redirect_stdout(io.StringIO()):
        labelled = data()
        labelled.dataset = truth
        labelled.createIndex()
        found = labelled.loadRes([dict(one) for one in detections])

    def evaluate() -> Evaluated:
        with contextlib.redirect_stdout(io.StringIO()):
            run = evaluation(labelled, found, {"boxes": "bbox", "masks": "segm"}[kind])
            run.evaluate()
            run.accumulate()
            run.summarize()
        statistics, precision = np.array(run.stats[:12], float), np.asarray(run.eval["precision"])[:, :, :, 0, -1]
        precision = np.where(precision < 0, np.nan, precision)
        return Evaluated(np.where(statistics < 0, np.nan, statistics), precision.mean((0, 1)), precision)

    return evaluate
