"""Accuracy, calibration and 200-class accuracy: worked examples and properties."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustvit.metrics import (
    accuracy,
    calibration_error,
    correctness,
    error,
    expected_calibration_error,
    imagenet_subset,
    predicted_classes,
    subset_accuracy,
    subset_predictions,
)

LOGITS = [[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, 1.0, 2.0], [5.0, 1.0, 2.0]]


@pytest.mark.parametrize(
    "outputs", [LOGITS, np.array(LOGITS), torch.tensor(LOGITS), torch.tensor(LOGITS).bfloat16(), [0, 1, 2, 0]]
)
def test_accuracy_takes_logits_or_predictions_of_any_kind(outputs: object) -> None:
    assert accuracy(outputs, [0, 1, 1, 0]) == 0.75  # type: ignore[arg-type]
    assert error(outputs, [0, 1, 1, 0]) == 0.25  # type: ignore[arg-type]
    assert correctness(outputs, [0, 1, 1, 0]).tolist() == [True, True, False, True]  # type: ignore[arg-type]


def test_a_network_that_diverged_has_no_accuracy() -> None:
    with pytest.raises(ValueError, match=r"2 of 4 .*NaN"):
        accuracy(np.array([[np.nan, np.nan], [0.0, 1.0]]), [0, 1])


def test_wrong_shapes_and_kinds_are_named() -> None:
    with pytest.raises(ValueError, match=r"\[2\] .*\[3\]"):
        accuracy([0, 1], [0, 1, 2])
    with pytest.raises(ValueError, match="empty"):
        accuracy(np.zeros((0, 3)), np.zeros(0, dtype=int))
    with pytest.raises(ValueError, match="float64"):
        accuracy([0.0, 1.0], [0, 1])
    with pytest.raises(ValueError, match=r"\[1, 1, 1\]"):
        predicted_classes(np.zeros((1, 1, 1)))


def test_calibration_error_by_hand() -> None:
    # bins (0.6, 0.8] and (0.8, 1]: |1/2 - 0.7| * 2/4 + |2/2 - 0.95| * 2/4
    assert calibration_error([0.65, 0.75, 0.9, 1.0], [True, False, True, True], bins=5) == pytest.approx(0.1 + 0.025)


def test_a_confidence_on_an_edge_belongs_to_the_lower_bin() -> None:
    assert calibration_error([0.5, 0.75], [True, False], bins=2) == pytest.approx((0.5 + 0.75) / 2)
    assert calibration_error([0.0, 0.5], [False, True], bins=1) == pytest.approx(0.25)


def test_calibration_of_logits_uses_their_softmax() -> None:
    logits = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    assert expected_calibration_error(logits, [0, 1]) == pytest.approx(0)
    assert expected_calibration_error(1000 * torch.tensor([[1.0, 0.0], [0.0, 1.0]]), [1, 1]) == pytest.approx(0.5)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.integers(1, 20))
def test_a_perfectly_calibrated_predictor_has_no_calibration_error(confidences: list[float], bins: int) -> None:
    assert calibration_error(confidences, confidences, bins=bins) == pytest.approx(0, abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50), st.integers(1, 20))
def test_calibration_error_lies_between_the_overall_gap_and_1(pairs: list[tuple[float, bool]], bins: int) -> None:
    confidences, correct = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    gap = abs(confidences.mean() - correct.mean())
    assert gap - 1e-12 <= calibration_error(confidences, correct, bins=bins) <= 1


def test_calibration_refuses_percent_and_no_bins() -> None:
    with pytest.raises(ValueError, match="not percent"):
        calibration_error([65.0], [True])
    with pytest.raises(ValueError, match="bins=0"):
        calibration_error([0.5], [True], bins=0)


def test_masked_arg_max_by_hand() -> None:
    logits = [[2.0, 5.0, 1.0, 3.0, 4.0]]
    assert predicted_classes(logits).tolist() == [1]
    assert subset_predictions(logits, (0, 3, 4)).tolist() == [2]
    assert subset_accuracy(logits, [1], (0, 3, 4)) == 0
    assert subset_accuracy(logits, [3], (0, 3, 4), targets_are="classes") == 0
    assert subset_accuracy(logits, [4], (0, 3, 4), targets_are="classes") == 1


def test_imagenet_a_and_r_have_200_classes_each_and_86_in_common() -> None:
    a, r = imagenet_subset("a"), imagenet_subset("r")
    for subset in (a, r):
        assert len(set(subset.indices)) == len(set(subset.wnids)) == 200
        assert list(subset.indices) == sorted(subset.indices)
        assert list(subset.wnids) == sorted(subset.wnids)
    assert len(set(a.wnids) & set(r.wnids)) == len(set(a.indices) & set(r.indices)) == 86
    assert (a.name, a.indices[0], a.wnids[0]) == ("ImageNet-A", 6, "n01498041")
    assert (r.name, r.indices[0], r.wnids[0]) == ("ImageNet-R", 1, "n01443537")


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_masking_never_hurts_when_all_targets_are_in_the_subset(seed: int) -> None:
    subset, generator = imagenet_subset("r"), np.random.default_rng(seed)
    positions = generator.integers(0, 200, 16)
    classes = np.array(subset.indices)[positions]
    logits = generator.normal(size=(16, 1000))
    logits[np.arange(16), classes] += 3
    masked = subset_accuracy(logits, positions, subset)
    assert masked == subset_accuracy(logits, classes, subset, targets_are="classes") >= accuracy(logits, classes)


def test_targets_outside_the_subset_are_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.\.2 .*4\.\.4"):
        subset_accuracy(np.zeros((1, 5)), [4], (0, 3, 4))
    with pytest.raises(ValueError, match=r"\[1\]"):
        subset_accuracy(np.zeros((1, 5)), [1], (0, 3, 4), targets_are="classes")
    with pytest.raises(ValueError, match="K above 4"):
        subset_predictions(np.zeros((1, 4)), (0, 3, 4))
    with pytest.raises(ValueError, match="ascending"):
        subset_predictions(np.zeros((1, 5)), (3, 0))
    with pytest.raises(ValueError, match="'v2'"):
        imagenet_subset("v2")  # type: ignore[arg-type]
