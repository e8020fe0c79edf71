"""Run lengths of masks: strings, filled polygons, areas, boxes and overlaps are those of pycocotools, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco_masks
from refusals import refused

from robustvit.runtime.run_lengths import RunLengths, overlaps

SEEDS = st.integers(0, 2**32 - 1)
FORMS = {
    "anywhere": lambda random, corners, size: random.random((corners, 2)) * size,
    "across the edges": lambda random, corners, size: (3 * random.random((corners, 2)) - 1) * size,
    "whole numbers": lambda random, corners, size: np.round(random.random((corners, 2)) * size),
    "half pixels": lambda random, corners, size: np.round(2 * random.random((corners, 2)) * size) / 2,
    "below a pixel": lambda random, corners, size: random.random(2) * size + 0.6 * random.random((corners, 2)),
    "one point": lambda random, corners, size: np.repeat(random.random((1, 2)) * size, corners, axis=0),
    "on a line": lambda random, corners, size: random.random((corners, 1)) * size,
    "outside": lambda random, corners, size: -random.random((corners, 2)) * size - 1,
}


def random_masks(seed: int, count: int = 6) -> np.ndarray:
    """bool [count, h, w]: dense, sparse, of blocks, and without or with all pixels."""
    random = np.random.default_rng(seed)
    size = random.integers(1, 40, 2)
    masks = random.random((count, *size)) < random.choice([0.0, 0.05, 0.5, 0.95, 1.0], (count, 1, 1))
    for mask in masks[::2]:
        mask[:] = False
        (top, left), (bottom, right) = random.integers(0, size + 1, (2, 2))
        mask[top:bottom, left:right] = True
    return masks


def theirs(masks: np.ndarray) -> list[dict]:
    return coco_masks.encode(np.asfortranarray(masks.transpose(1, 2, 0).astype(np.uint8)))


def strings(encoded: list[dict]) -> list[str]:
    return [one["counts"].decode() if isinstance(one["counts"], bytes) else one["counts"] for one in encoded]


def test_runs_go_down_the_columns_and_begin_with_zeros() -> None:
    masks = RunLengths.from_dense(np.array([[[0, 1, 1], [0, 1, 0]], [[1, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 0, 7]]]))
    assert [runs.tolist() for runs in masks.runs] == [[2, 3, 1], [0, 2, 4], [5, 1]]
    assert masks.size == (2, 3)
    assert masks.areas().tolist() == [3, 2, 1]
    assert masks.boxes().tolist() == [[1, 0, 3, 2], [0, 0, 1, 2], [2, 1, 3, 2]]


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")  # of pycocotools
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=200, deadline=None)
@given(seed=SEEDS)
def test_polygons_are_filled_as_by_pycocotools(form: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    h, w = map(int, random.integers(1, 60, 2))
    polygons = [FORMS[form](random, random.integers(3, 12), (w, h)).reshape(-1).tolist() for _ in range(random.integers(1, 4))]
    expected = coco_masks.merge(coco_masks.frPyObjects(polygons, h, w))
    filled = RunLengths.from_coco([polygons], (h, w))
    assert strings(filled.to_coco()) == strings([expected])
    assert (filled.dense()[0] == coco_masks.decode(expected)).all()


@given(SEEDS)
def test_masks_and_their_strings_are_those_of_pycocotools(seed: int) -> None:
    masks = random_masks(seed)
    encoded, ours = theirs(masks), RunLengths.from_dense(masks)
    assert strings(ours.to_coco()) == strings(encoded)
    for given_back in (RunLengths.from_coco(encoded, ours.size), RunLengths.from_coco(ours.to_coco(), ours.size)):
        assert (given_back.dense() == masks).all()
    assert ours.areas().tolist() == coco_masks.area(encoded).tolist()
    x, y, width, height = coco_masks.toBbox(encoded).T
    assert ours.boxes().tolist() == np.stack([x, y, x + width, y + height], axis=1).tolist()


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=30))
def test_long_runs_survive_the_string(runs: list[int]) -> None:
    pixels = sum(runs)
    masks = RunLengths((1, pixels), (np.array(runs, np.int64),))
    assert RunLengths.from_coco(masks.to_coco(), (1, pixels)).runs[0].tolist() == runs


def test_run_lengths_may_be_a_list() -> None:
    masks = RunLengths.from_coco([{"size": [2, 3], "counts": [2, 3, 1]}], (2, 3))
    assert masks.dense()[0].tolist() == [[False, True, True], [False, True, False]]


@given(SEEDS)
def test_overlaps_are_those_of_pycocotools(seed: int) -> None:
    masks, random = random_masks(seed, 9), np.random.default_rng(seed)
    is_crowd = random.random(5) < 0.4
    expected = coco_masks.iou(theirs(masks[:4]), theirs(masks[4:]), is_crowd.astype(np.uint8).tolist())
    found, labelled = RunLengths.from_dense(masks[:4]), RunLengths.from_dense(masks[4:])
    assert (overlaps(found, labelled, is_crowd) == expected).all()
    wanted = random.random((4, 5)) < 0.5
    assert (overlaps(found, labelled, is_crowd, wanted) == np.where(wanted, expected, 0)).all()


def test_overlaps_of_no_masks_are_empty() -> None:
    some, none = RunLengths.from_dense(np.ones((2, 3, 4))), RunLengths.from_dense(np.ones((0, 3, 4)))
    assert overlaps(none, some, np.zeros(2, bool)).shape == (0, 2)
    assert overlaps(some, none, np.zeros(0, bool)).shape == (2, 0)
    assert none.boxes().shape == (0, 4)
    assert none.dense().shape == (0, 3, 4)


def test_masks_are_chosen_by_position_or_by_a_condition() -> None:
    masks = RunLengths.from_dense(np.eye(3)[:, None])
    assert masks.of([2, 0]).dense()[:, 0].tolist() == [[False, False, True], [True, False, False]]
    assert masks.of(np.array([False, True, False])).dense()[:, 0].tolist() == [[False, True, False]]
    assert len(masks.of([])) == 0


@pytest.mark.parametrize(
    ("segmentation", "values"),
    [
        ({"size": [3, 3], "counts": [9]}, ["3x3", "4x5"]),
        ({"size": [4, 5], "counts": [9, 3]}, ["4x5"]),
        ({"size": [4, 5], "counts": [21, -1]}, ["4x5"]),
        ({"size": [4, 5], "counts": [2**62, 2**62, 2**62, 2**62, 20]}, ["4x5"]),
        ({"size": [4, 5], "counts": "\x01\x02"}, ["string"]),
        ({"size": [4, 5], "counts": ""}, ["string"]),
        ({"size": [4, 5], "counts": "e"}, ["string"]),
        ({"counts": [20]}, ["size"]),
        ([[0, 0, 3, 3]], ["3 or more"]),
        ([[0, 0, 3, 3, 1, 2, 5]], ["[x, y, x, y"]),
        ([[0, 0, 3, float("nan"), 1, 2]], ["nan"]),
        ([[0, 0, 3, 1e9, 1, 2]], ["100000"]),
        ([[[0, 0], [3, 1], [1, 2], [0, 1], [2, 2], [3, 3]]], ["[[0, 0]"]),
        ([], ["[]"]),
        ("polygon", ["polygon"]),
        (None, ["None"]),
    ],
)
def test_what_is_no_segmentation_of_the_image_is_refused(segmentation: object, values: list[str]) -> None:
    with refused(ValueError, *values):
        RunLengths.from_coco([segmentation], (4, 5))


def test_masks_of_different_sizes_do_not_overlap() -> None:
    with refused(ValueError, "3x4", "4x3"):
        overlaps(RunLengths.from_dense(np.ones((1, 3, 4))), RunLengths.from_dense(np.ones((1, 4, 3))), np.zeros(1, bool))
