"""mIoU and the accuracies of segmentation, from counts of pixels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torchmetrics
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from robustvit.metrics.iou import class_ious, count_pixels, mean_class_accuracy, mean_iou

CASES = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "protocols.json").read_text())["miou"]
CLASSES = 19


def reference_maps(case: dict) -> list[tuple[np.ndarray, np.ndarray]]:
    """(prediction, label) of two images, by the recipe of the case."""
    random = np.random.RandomState(int(re.search(r"RandomState\((\d+)\)", case["recipe"])[1]))
    maps = []
    for _ in range(2):
        label, share = random.randint(0, CLASSES, (24, 32)), random.rand(24, 32)
        other = random.randint(0, CLASSES, (24, 32))
        prediction, ignored = np.where(share < 0.6, label, other), random.rand(24, 32) < 0.15
        for key, which in ((k, v) for k, v in case.items() if isinstance(v, list)):
            for absent in which if key.startswith("absent") else ():
                label[label == absent] = 0
                prediction[prediction == absent] = 0
            for absent in which if key.startswith("predicted") else ():
                label[label == absent] = 1
            for absent in which if key.startswith("labelled") else ():
                prediction[prediction == absent] = 2
        label[ignored] = 255
        maps.append((prediction, label))
    return maps


def totals(maps: list[tuple[np.ndarray, np.ndarray]], classes: int = CLASSES) -> list[np.ndarray]:
    counts = [count_pixels(prediction, label, classes) for prediction, label in maps]
    return [np.sum(part, axis=0) for part in zip(*counts, strict=True)]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_numbers_are_those_of_the_published_program(case: dict) -> None:
    right, predicted, labelled = totals(reference_maps(case))
    expected = np.array([np.nan if value is None else value for value in case["iou"]], float)
    np.testing.assert_allclose(class_ious(right, predicted, labelled), expected, atol=1e-7)
    assert float(mean_iou(right, predicted, labelled)) == pytest.approx(case["mIoU"], abs=1e-7)
    assert float(mean_class_accuracy(right, labelled)) == pytest.approx(case["mAcc"], abs=1e-7)
    assert right.sum() / labelled.sum() == pytest.approx(case["aAcc"], abs=1e-7)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_counts_add_up_and_perfect_answers_have_1(seed: int, classes: int) -> None:
    random = np.random.default_rng(seed)
    label = random.integers(0, classes, (7, 9))
    label[random.random(label.shape) < 0.2] = 255
    prediction = random.integers(0, classes, label.shape)
    right, predicted, labelled = count_pixels(prediction, label, classes)
    assert labelled.sum() == predicted.sum() == (label != 255).sum()
    assert (right <= np.minimum(predicted, labelled)).all()
    perfect = count_pixels(np.where(label == 255, 0, label), label, classes)
    assert not labelled.sum() or float(mean_iou(*perfect)) == 1


def test_of_nothing_but_ignored_pixels_there_is_no_number() -> None:
    counts = count_pixels(np.zeros((2, 2), int), np.full((2, 2), 255), 3)
    assert np.isnan(mean_iou(*counts))


def test_maps_that_do_not_fit_are_refused() -> None:
    with refused(ValueError, "2x2", "2x3"):
        count_pixels(np.zeros((2, 2)), np.zeros((2, 3)), 3)
    with refused(ValueError, "7", "2", "255"):
        count_pixels(np.zeros((2, 2)), np.full((2, 2), 7), 3)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_torchmetrics_gives_the_same_mean(case: dict) -> None:
    jaccard = torchmetrics.JaccardIndex("multiclass", num_classes=CLASSES, ignore_index=255)
    for prediction, label in reference_maps(case):
        jaccard.update(torch.from_numpy(prediction), torch.from_numpy(label))
    assert float(mean_iou(*totals(reference_maps(case)))) == pytest.approx(float(jaccard.compute()), abs=1e-6)
