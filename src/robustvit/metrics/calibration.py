"""Expected calibration error: the gap between confidence and accuracy, in equal-width bins of confidence."""

from __future__ import annotations

import numpy as np

from robustvit.metrics.accuracy import correctness
from robustvit.metrics.arrays import ArrayLike, require_fractions, to_floats

__all__ = ["calibration_error", "expected_calibration_error"]


def expected_calibration_error(logits: ArrayLike, targets: ArrayLike, *, bins: int = 15) -> float:
    """ECE of the softmax of the top-1 class.

    Args:
        logits: [n, K].
        targets: class indices [n].
        bins: of equal width, `(0, 1/bins], ..., (1 - 1/bins, 1]`.
    """
    z = to_floats(logits, "logits")
    if z.ndim != 2:
        raise ValueError(f"logits must be [n, K], got shape {list(z.shape)}")
    confidence = 1 / np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1)  # the largest softmax
    return calibration_error(confidence, correctness(z, targets), bins=bins)


def calibration_error(confidences: ArrayLike, correct: ArrayLike, *, bins: int = 15) -> float:
    """`ECE = sum_b n_b / n |accuracy_b - confidence_b|` over the bins b that have samples.

    Args:
        confidences: of the predictions, [n], in 0..1.
        correct: whether they are right, [n]; fractions in 0..1 are taken as expected outcomes.
        bins: of equal width, right edge included.
    """
    confidence, outcome = to_floats(confidences, "confidences"), to_floats(correct, "outcomes")
    if confidence.ndim != 1 or confidence.shape != outcome.shape or not len(confidence):
        raise ValueError(f"give one outcome for each confidence [n], got {list(outcome.shape)} and {list(confidence.shape)}")
    if bins < 1:
        raise ValueError(f"bins={bins} is not possible; give at least 1")
    require_fractions(confidence, "confidences")
    require_fractions(outcome, "outcomes")
    which = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    gap = np.bincount(which, weights=outcome - confidence, minlength=bins)  # n_b (accuracy_b - confidence_b)
    return float(np.abs(gap).sum() / len(confidence))
