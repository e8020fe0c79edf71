"""Detections in COCO's result format."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from robustvit.metrics.box_matching import Found, Labelled, match
from robustvit.runtime.run_lengths import RunLengths
from robustvit.tasks.coco_results import coco_results

BOXES = np.array([[1.0, 2.0, 4.5, 6.25], [0.0, 0.0, 8.0, 8.0]])


def found(**about: Any) -> Found:
    return Found(BOXES, np.array([0.75, 0.5]), np.array([2, 0]), **about)


def test_a_detection_has_the_ids_of_the_annotation_file_and_its_box_as_x_y_width_height() -> None:
    first, second = coco_results(found(), 397133, (1, 3, 90))
    assert first == {"image_id": 397133, "category_id": 90, "bbox": [1.0, 2.0, 3.5, 4.25], "score": 0.75}
    assert second["category_id"] == 1


def test_classes_without_ids_count_from_one() -> None:
    assert [row["category_id"] for row in coco_results(found(), "street.jpg")] == [3, 1]


def test_masks_are_compressed_run_lengths_that_json_takes() -> None:
    dense = np.zeros((2, 8, 8), bool)
    dense[0, 2:6, 1:4] = True
    rows = json.loads(json.dumps(coco_results(found(masks=RunLengths.from_dense(dense)), 1)))
    read = RunLengths.from_coco([row["segmentation"] for row in rows], (8, 8))
    assert (read.dense() == dense).all()


def test_nothing_found_is_an_empty_list() -> None:
    nothing = Found(np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64))
    assert coco_results(nothing, 1) == []


@pytest.mark.parametrize("seed", range(3))
def test_what_is_written_matches_the_same_objects_in_the_same_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    corners = np.sort(random.random((40, 2, 2)).astype(np.float32) * 200, axis=1).reshape(40, 4).astype(np.float64)
    given = Found(corners, random.random(40).astype(np.float32), random.integers(0, 2, 40))
    objects = Labelled(corners[::4], given.classes[::4], np.full(10, 100.0), np.zeros(10, bool))
    rows = coco_results(given, 1)
    boxes = np.array([row["bbox"] for row in rows])
    boxes[:, 2:] += boxes[:, :2]
    scores, classes = np.array([row["score"] for row in rows]), np.array([row["category_id"] - 1 for row in rows])
    expected, read = match(given, objects, 2, "boxes"), match(Found(boxes, scores, classes), objects, 2, "boxes")
    assert all((expected[name] == read[name]).all() for name in ("class", "rank", "matched", "ignored"))
