"""AP and AR are those of pycocotools and of faster-coco-eval, and images that count c times stand for c copies."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from coco_tools import PACKAGES, Pair, evaluated_by, random_pair, to_coco
from hypothesis import given, settings
from hypothesis import strategies as st

from robustvit.metrics import average_precision as module
from robustvit.metrics.average_precision import (
    BOX_AP,
    CLEAN_KEYS,
    MASK_AP,
    RECALLS,
    STATISTICS,
    Found,
    Labelled,
    Matches,
    all_statistics,
    average_precision,
    average_recall,
    match,
    mean_over_classes,
    precision_recall,
)
from robustvit.metrics.measures import measure_of
from robustvit.runtime.run_lengths import RunLengths
from robustvit.tasks.tallies import Tallies

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "coco.json").read_text())
SIZE = (120, 150)
SEEDS = st.integers(0, 2**32 - 1)
Kind = Literal["boxes", "masks"]
KINDS: dict[str, tuple[Kind, bool]] = {
    "boxes": ("boxes", True),
    "masks": ("masks", False),
    "masks_box_area": ("masks", True),
}
"""What is compared, and whether the detections carry boxes."""


def matches_of(pairs: Sequence[Pair], classes: int, kind: Kind = "boxes", box_area: bool = False) -> Matches:
    return Matches.stack([match(found, labelled, classes, kind, box_area=box_area) for found, labelled in pairs])


def reference_pairs() -> list[Pair]:
    """The detections and objects of the reference file, image by image; classes in the order of the category ids."""
    truth, kinds = REFERENCE["ground_truth"], sorted(one["id"] for one in REFERENCE["ground_truth"]["categories"])
    pairs = []
    for image in truth["images"]:
        size = image["height"], image["width"]
        found = [one for one in REFERENCE["detections"] if one["image_id"] == image["id"]]
        labelled = [one for one in truth["annotations"] if one["image_id"] == image["id"]]
        parts = []
        for objects in (found, labelled):
            boxes = np.array([one["bbox"] for one in objects]).reshape(-1, 4)
            boxes[:, 2:] += boxes[:, :2]
            classes = np.array([kinds.index(one["category_id"]) for one in objects], int)
            parts.append((boxes, classes, RunLengths.from_coco([one["segmentation"] for one in objects], size)))
        scores = np.array([one["score"] for one in found])
        areas, is_crowd = (np.array([one[key] for one in labelled], float) for key in ("area", "iscrowd"))
        (boxes, classes, masks), (corners, truths, shapes) = parts
        pairs.append((Found(boxes, scores, classes, masks), Labelled(corners, truths, areas, is_crowd > 0, shapes)))
    return pairs


def random_pairs(seed: int, classes: int, images: int, **how: object) -> list[Pair]:
    random = np.random.default_rng(seed)
    grid = float(random.choice([4.0, 8.0, 0.3, 1.7]))
    return [
        random_pair(random, classes, size=SIZE, grid=grid, **{"most": int(random.choice([5, 30])), **how})
        for _ in range(images)
    ]


def check_against_packages(pairs: Sequence[Pair], classes: int, what: str) -> None:
    """To 1e-9; the packages need one detection at least."""
    kind, has_boxes = KINDS[what]
    truth, detections = to_coco(pairs, classes, SIZE, boxes=has_boxes)
    statistics, class_ap = all_statistics(matches_of(pairs, classes, kind, has_boxes))
    for package in PACKAGES if detections else ():
        expected = evaluated_by(package, copy.deepcopy(truth), detections, kind)
        np.testing.assert_allclose(list(statistics.values()), expected.statistics, rtol=0, atol=1e-9, err_msg=package)
        np.testing.assert_allclose(class_ap, expected.class_ap, rtol=0, atol=1e-9, err_msg=package)


@pytest.mark.parametrize("what", KINDS)
def test_statistics_are_those_of_the_reference_file(what: str) -> None:
    pairs, classes = reference_pairs(), len(REFERENCE["ground_truth"]["categories"])
    statistics, _ = all_statistics(matches_of(pairs, classes, *KINDS[what]))
    expected = [np.nan if value == -1 else value for value in map(REFERENCE["stats"][what].get, REFERENCE["names"])]
    np.testing.assert_allclose(list(statistics.values()), expected, rtol=0, atol=5.001e-9)  # the file has 8 digits


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("what", KINDS)
def test_the_reference_file_gives_the_same_by_class_in_both_packages(what: str, package: str) -> None:
    kind, has_boxes = KINDS[what]
    detections = [{k: v for k, v in one.items() if has_boxes or k != "bbox"} for one in REFERENCE["detections"]]
    expected = evaluated_by(package, copy.deepcopy(REFERENCE["ground_truth"]), detections, kind)
    statistics, class_ap = all_statistics(matches_of(reference_pairs(), len(expected.class_ap), kind, has_boxes))
    np.testing.assert_allclose(list(statistics.values()), expected.statistics, rtol=0, atol=1e-9)
    np.testing.assert_allclose(class_ap, expected.class_ap, rtol=0, atol=1e-9)
    assert np.isnan(class_ap).any()  # a category without objects


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(1, 4), st.integers(1, 8))
def test_boxes_have_the_numbers_of_both_packages(seed: int, classes: int, images: int) -> None:
    check_against_packages(random_pairs(seed, classes, images), classes, "boxes")


@pytest.mark.parametrize("what", ["masks", "masks_box_area"])
@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(1, 3), st.integers(1, 4))
def test_masks_have_the_numbers_of_both_packages(what: str, seed: int, classes: int, images: int) -> None:
    check_against_packages(random_pairs(seed, classes, images, masks=True), classes, what)


@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_detections_in_an_image_have_the_numbers_of_both_packages(seed: int) -> None:
    pairs = random_pairs(seed, 2, 4, most=600)
    assert max(np.bincount(found.classes).max() for found, _ in pairs) > 100
    check_against_packages(pairs, 2, "boxes")


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.integers(1, 4))
def test_precision_at_recalls_is_that_of_pycocotools(seed: int, classes: int) -> None:
    pairs = [*random_pairs(seed, classes, 4), *random_pairs(1, classes, 3, most=20)]  # so that there is something
    matches, expected = matches_of(pairs, classes), evaluated_by("pycocotools", *to_coco(pairs, classes, SIZE), "boxes")
    for k in range(classes):
        for overlap, chosen in (("0.5", slice(0, 1)), ("0.75", slice(5, 6)), ("mean", slice(None))):
            curve = precision_recall(matches, k, overlap)
            np.testing.assert_allclose(curve, expected.precision[chosen, :, k].mean(0), rtol=0, atol=1e-9)
    np.testing.assert_allclose(precision_recall(matches), np.nanmean(expected.precision, axis=(0, 2)), rtol=0, atol=1e-9)


def test_one_worked_example() -> None:
    """Two objects; of three detections, the first and the last are right: precision 1 to a recall of 0.5, then 2/3."""
    boxes = np.array([[0.0, 0, 10, 10], [20, 20, 30, 30], [0, 0, 10, 10]])
    moved = boxes + np.array([[0], [40], [20]])
    found = Found(moved, np.array([0.9, 0.8, 0.7]), np.zeros(3, int))
    labelled = Labelled(boxes[:2], np.zeros(2, int), np.full(2, 100.0), np.zeros(2, bool))
    matches = matches_of([(found, labelled)], 2)
    expected = np.where(RECALLS <= 0.5, 1, 2 / 3)
    np.testing.assert_allclose(precision_recall(matches), expected)
    statistics, class_ap = all_statistics(matches)
    assert statistics["ap"] == pytest.approx(expected.mean())
    assert statistics["ar1"] == 0.5
    assert statistics["ar10"] == 1.0
    assert np.isnan(statistics["ap_large"])
    assert class_ap.tolist() == [pytest.approx(expected.mean()), pytest.approx(np.nan, nan_ok=True)]


# images that count several times


def without_ties_in_images(pairs: Sequence[Pair]) -> list[Pair]:
    """Scores that tie between images only."""
    return [(found._replace(scores=np.argsort(found.scores, kind="stable") / 100), labelled) for found, labelled in pairs]


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 3), st.integers(1, 6))
def test_an_image_that_counts_c_times_stands_for_c_copies(seed: int, classes: int, images: int) -> None:
    pairs = without_ties_in_images(random_pairs(seed, classes, images))
    counts = np.random.default_rng(seed).integers(0, 4, (3, images))
    matches = matches_of(pairs, classes)
    precision, recall = average_precision(matches, counts), average_recall(matches, counts, area="small", most=10)
    for row, copies in enumerate(counts):
        repeated = [pair for pair, c in zip(pairs, copies, strict=True) for _ in range(c)]
        if not repeated:
            assert np.isnan(precision[row]).all()
            continue
        expected = matches_of(repeated, classes)
        np.testing.assert_allclose(precision[row], average_precision(expected)[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(recall[row], average_recall(expected, area="small", most=10)[0], rtol=0, atol=1e-12)
        assert float(mean_over_classes(precision)[row]) == pytest.approx(all_statistics(expected)[0]["ap"], nan_ok=True)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 6))
def test_where_scores_tie_in_an_image_copies_keep_together(seed: int, images: int) -> None:
    matches = matches_of(random_pairs(seed, 2, images), 2)
    copies = np.random.default_rng(seed).integers(0, 4, images)
    lengths = np.diff(matches.ends, prepend=0)
    rows = np.repeat(np.arange(len(matches.score)), np.repeat(copies, lengths))
    detections = (getattr(matches, name)[rows] for name in ("score", "kind", "rank", "matched", "ignored"))
    repeated = Matches(np.cumsum(lengths * copies), *detections, matches.labelled * copies[:, None, None])
    expected = average_precision(repeated)
    np.testing.assert_allclose(average_precision(matches, copies[None]), expected, rtol=0, atol=1e-12)


def test_copies_have_the_numbers_of_pycocotools() -> None:
    pairs, counts = without_ties_in_images(random_pairs(3, 3, 6)), np.array([2, 0, 1, 3, 0, 1])
    repeated = [pair for pair, c in zip(pairs, counts, strict=True) for _ in range(c)]
    expected = evaluated_by("pycocotools", *to_coco(repeated, 3, SIZE), "boxes")
    table = average_precision(matches_of(pairs, 3), counts[None])[0]
    np.testing.assert_allclose(table.mean(1), expected.class_ap, rtol=0, atol=1e-9)
    assert float(mean_over_classes(table[:, 5:6])) == pytest.approx(expected.statistics[2], abs=1e-9)


def test_weightings_in_small_parts_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    matches = matches_of(random_pairs(5, 3, 8), 3)
    counts = np.random.default_rng(0).integers(0, 3, (17, 8))
    whole = average_precision(matches, counts)
    monkeypatch.setattr(module, "_CHUNK_BYTES", 1024)
    np.testing.assert_array_equal(average_precision(matches, counts), whole)


def test_without_objects_there_is_no_number_and_without_detections_it_is_0() -> None:
    nothing = Found(np.zeros((0, 4)), np.zeros(0), np.zeros(0, int))
    objects = Labelled(np.array([[0.0, 0, 9, 9]]), np.zeros(1, int), np.array([81.0]), np.zeros(1, bool))
    empty = Labelled(np.zeros((0, 4)), np.zeros(0, int), np.zeros(0), np.zeros(0, bool))
    matches = matches_of([(nothing, objects), (nothing, empty)], 2)
    precision = average_precision(matches, np.array([[1, 1], [0, 2]]))
    assert precision[0, 0].tolist() == [0] * 10
    assert np.isnan(precision[0, 1]).all()
    assert np.isnan(precision[1]).all()
    assert mean_over_classes(precision)[0] == 0
    assert np.isnan(mean_over_classes(precision)[1])
    assert all_statistics(matches)[0]["ar_small"] == 0
    assert np.isnan(precision_recall(matches, 1)).all()
    assert precision_recall(matches).tolist() == [0] * 101


# tallies of a task


def batched(pairs: Sequence[Pair], size: int) -> Tallies:
    """As an evaluation collects them: stacked batch by batch, then joined."""

    def tally(found: Found, labelled: Labelled) -> dict[str, np.ndarray]:
        kinds: tuple[Kind, ...] = ("boxes", "masks")
        tallies = {kind: match(found, labelled, 3, kind) for kind in kinds}
        named = {"boxes": "box_", "masks": "mask_"}
        return {f"{named[kind]}{name}": value for kind in kinds for name, value in tallies[kind].items()}

    parts = [[tally(*pair) for pair in pairs[i : i + size]] for i in range(0, len(pairs), size)]
    return Tallies.join([Tallies.stack(part) for part in parts])


def same_length(pairs: Sequence[Pair], count: int) -> list[Pair]:
    def first(found: Found) -> Found:
        assert found.masks is not None
        return Found(found.boxes[:count], found.scores[:count], found.classes[:count], found.masks.of(range(count)))

    return [(first(found), labelled) for found, labelled in pairs if len(found.scores) >= count]


@pytest.mark.parametrize(
    "chosen", [lambda pairs: pairs, lambda pairs: same_length(pairs, 4), lambda pairs: same_length(pairs, 0)]
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_tallies_of_batches_give_the_numbers_of_all_images(chosen: Callable[[list[Pair]], list[Pair]], size: int) -> None:
    pairs = chosen(random_pairs(2, 3, 10, masks=True))
    tallies = batched(pairs, size)
    for prefix, kind in (("box_", "boxes"), ("mask_", "masks")):
        expected = all_statistics(matches_of(pairs, 3, kind))
        got = all_statistics(Matches.of(tallies.arrays, prefix))
        np.testing.assert_array_equal(list(got[0].values()), list(expected[0].values()))
        np.testing.assert_array_equal(got[1], expected[1])
        some = Matches.of(tallies.of([1, 0, 1]).arrays, prefix)
        copies = matches_of([pairs[1], pairs[0], pairs[1]], 3, kind)
        np.testing.assert_array_equal(average_precision(some), average_precision(copies))


def test_all_statistics_are_measures_with_the_names_of_the_field() -> None:
    assert list(STATISTICS) == [name.lower() for name in REFERENCE["names"]]
    labels = [measure_of(f"box_{key}").label for key in STATISTICS]
    assert labels == [name.replace("_", " ") for name in REFERENCE["names"]]
    assert (BOX_AP.label, MASK_AP.label) == ("AP", "Mask AP")
    assert measure_of(CLEAN_KEYS["mask_ap50"]).label == "Clean mask AP50"
    assert BOX_AP.key not in CLEAN_KEYS
