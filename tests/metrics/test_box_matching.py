"""Who finds which object, by COCO's rules. What comes of it is compared with pycocotools in test_average_precision.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as coco_masks
from refusals import refused

from robustvit.metrics.box_matching import AREA_RANGES, THRESHOLDS, Found, Labelled, box_overlaps, match, to_xywh
from robustvit.runtime.run_lengths import RunLengths

ALL, SMALL, MEDIUM, LARGE = range(len(AREA_RANGES))
AT_50 = 1
"""The bit of the first threshold."""


def found(boxes: Sequence[Sequence[float]], scores: Sequence[float], classes: Sequence[int] | None = None) -> Found:
    kinds = np.zeros(len(scores), int) if classes is None else np.array(classes)
    return Found(np.array(boxes, float).reshape(-1, 4), np.array(scores, float), kinds)


def labelled(
    boxes: Sequence[Sequence[float]],
    classes: Sequence[int] | None = None,
    areas: Sequence[float] | None = None,
    crowds: Sequence[int] = (),
) -> Labelled:
    """Objects with the areas of their boxes, if there are no others."""
    corners = np.array(boxes, float).reshape(-1, 4)
    kinds = np.zeros(len(corners), int) if classes is None else np.array(classes)
    sizes = np.prod(corners[:, 2:] - corners[:, :2], axis=1) if areas is None else np.array(areas, float)
    return Labelled(corners, kinds, sizes, np.isin(np.arange(len(corners)), crowds))


def test_the_better_score_takes_the_object() -> None:
    tally = match(found([[0, 0, 10, 10], [0, 0, 10, 9]], [0.3, 0.7]), labelled([[0, 0, 10, 10]]), 1, "boxes")
    assert tally["score"].tolist() == [0.7, 0.3]
    assert tally["rank"].tolist() == [0, 1]
    assert tally["matched"][:, ALL].tolist() == [0b0111111111, 0b1000000000]  # 0.9 is not enough for the last threshold


def test_a_detection_takes_the_object_that_it_overlaps_most() -> None:
    objects = labelled([[0, 0, 10, 10], [0, 0, 10, 8]])
    tally = match(found([[0, 0, 10, 8], [0, 0, 10, 8]], [0.9, 0.8]), objects, 1, "boxes")
    assert tally["matched"][:, ALL].tolist() == [(1 << 10) - 1, sum(1 << t for t in range(10) if THRESHOLDS[t] <= 0.8)]


def test_of_equal_overlaps_the_last_object_is_taken() -> None:
    objects = labelled([[0, 0, 10, 5], [0, 5, 10, 10]])
    tally = match(found([[0, 0, 10, 10], [0, 5, 10, 10]], [0.9, 0.8]), objects, 1, "boxes")
    assert tally["matched"][:, ALL].tolist() == [AT_50, (1 << 10) - 1 - AT_50]  # the first overlaps both by a half


def test_crowds_are_taken_many_times_and_make_ignored() -> None:
    boxes = [[0, 0, 5, 10], [5, 0, 10, 10], [0, 0, 10, 5]]
    tally = match(found(boxes, [0.9, 0.8, 0.7]), labelled([[0, 0, 10, 10]], crowds=[0]), 1, "boxes")
    assert (tally["ignored"][:, ALL] == (1 << 10) - 1).all()  # all of each lies within the crowd
    assert tally["labelled"].tolist() == [[0, 0, 0, 0]]


def test_objects_that_count_come_before_ignored_ones_that_overlap_more() -> None:
    objects = labelled([[0, 0, 10, 10], [0, 0, 10, 10]], areas=[2000, 100])
    tally = match(found([[0, 0, 10, 10], [0, 0, 10, 6]], [0.5, 0.9]), objects, 1, "boxes")
    assert tally["matched"][0, SMALL] & AT_50
    assert not tally["ignored"][0, SMALL] & AT_50
    assert tally["ignored"][1, SMALL] & AT_50  # what is left for the second is of another range
    with_crowd = labelled([[0, 0, 10, 10], [0, 0, 10, 10]], crowds=[1])
    assert match(found([[0, 0, 10, 10]], [1.0]), with_crowd, 1, "boxes")["ignored"][0, ALL] == 0


@pytest.mark.parametrize(
    ("area", "ranges"),
    [(1023.0, {SMALL}), (1024.0, {SMALL, MEDIUM}), (9216.0, {MEDIUM, LARGE}), (9216.5, {LARGE}), (0.0, {SMALL})],
)
def test_the_ends_of_a_range_of_areas_belong_to_it(area: float, ranges: set[int]) -> None:
    counts = match(found([], []), labelled([[0, 0, 1, 1]], areas=[area]), 1, "boxes")["labelled"][0]
    assert set(np.flatnonzero(counts).tolist()) == {ALL, *ranges}


@given(st.integers(0, 100_000), st.sampled_from([32.0, 96.0]))
def test_sides_of_boxes_are_those_that_a_file_gives(hundredths: int, side: float) -> None:
    x = hundredths / 100
    box = np.array([[x, x, x + side, x + side]])
    assert to_xywh(box).tolist() == [[x, x, side, side]]
    ignored = match(found(box, [0.5]), labelled([]), 1, "boxes")["ignored"][0] > 0
    assert ignored.tolist() == [False, side == 96, False, side == 32]  # both ranges that end there count it as wrong


def test_a_detection_that_takes_nothing_is_ignored_outside_its_range() -> None:
    tally = match(found([[0, 0, 10, 10]], [0.5]), labelled([]), 1, "boxes")
    assert (tally["ignored"][0] > 0).tolist() == [False, False, True, True]
    assert not tally["matched"].any()


def test_classes_do_not_mix() -> None:
    boxes = [[0, 0, 10, 10], [0, 0, 10, 10]]
    tally = match(found(boxes, [0.9, 0.8], [1, 0]), labelled(boxes[:1], [0]), 3, "boxes")
    assert (tally["matched"][:, ALL] > 0).tolist() == [False, True]
    assert tally["rank"].tolist() == [0, 0]
    assert tally["labelled"][:, ALL].tolist() == [1, 0, 0]


def test_only_the_best_hundred_of_a_class_count() -> None:
    boxes = [[0, 0, 10, 10]] * 130
    classes = [0] * 120 + [1] * 10
    tally = match(found(boxes, np.linspace(0.1, 0.9, 130), classes), labelled([]), 2, "boxes")
    assert np.bincount(tally["class"]).tolist() == [100, 10]
    assert tally["score"][tally["class"] == 0].min() == pytest.approx(np.linspace(0.1, 0.9, 130)[20])
    assert tally["rank"].max() == 99


@given(st.integers(0, 2**32 - 1))
def test_overlaps_of_boxes_are_those_of_pycocotools(seed: int) -> None:
    random = np.random.default_rng(seed)
    boxes = random.integers(0, 8, (9, 4)) / random.choice([1, 10], (9, 1))
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)  # some without width or height
    is_crowd = random.random(5) < 0.3
    expected = coco_masks.iou(boxes[:4], boxes[4:], is_crowd.astype(np.uint8).tolist())
    assert (box_overlaps(corners[:4], corners[4:], is_crowd) == expected).all()


def test_masks_are_compared_by_their_pixels_and_areas() -> None:
    dense = np.zeros((2, 40, 60), bool)
    dense[0, :, :30] = dense[1, :, :20] = True  # 1200 and 800 pixels
    masks = RunLengths.from_dense(dense)
    detection = found([[0, 0, 5, 5]], [0.5])._replace(masks=masks.of([1]))
    objects = labelled([[50, 30, 60, 40]], areas=[1200])._replace(masks=masks.of([0]))
    tally = match(detection, objects, 1, "masks")
    assert tally["matched"][0, ALL] == 0b1111  # the boxes do not meet, the masks overlap by two thirds
    apart = objects._replace(classes=np.array([1]))
    assert (match(detection, apart, 2, "masks")["ignored"][0] > 0).tolist() == [False, False, True, True]
    large_box = detection._replace(boxes=np.array([[0.0, 0, 50, 30]]))
    ignored = match(large_box, apart, 2, "masks", box_area=True)["ignored"][0]
    assert (ignored > 0).tolist() == [False, True, False, True]


def test_scores_keep_their_type_and_tallies_are_small() -> None:
    detection = found([[0, 0, 10, 10]] * 100, np.linspace(0, 1, 100))
    half = detection._replace(scores=detection.scores.astype(np.float32))
    tally = match(half, labelled([[0, 0, 10, 10]]), 80, "boxes")
    assert tally["score"].dtype == np.float32
    assert sum(array.nbytes for array in tally.values()) == 100 * 23 + 80 * 8
    assert match(detection, labelled([]), 80, "boxes")["score"].dtype == np.float64


def test_classes_out_of_range_and_missing_masks_are_refused() -> None:
    one, nothing = found([[0, 0, 1, 1]], [0.5], [3]), labelled([])
    with refused(ValueError, "class 3", "0 to 2"):
        match(one, nothing, 3, "boxes")
    with refused(ValueError, "class -1", "0 to 2"):
        match(found([], []), labelled([[0, 0, 1, 1]], [-1]), 3, "boxes")
    with refused(ValueError, "masks", "boxes"):
        match(one, nothing, 4, "masks")
