"""Top-1 accuracy and error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustvit.metrics.arrays import ArrayLike, FloatArray, IntArray, to_floats, to_integers

__all__ = ["accuracy", "correctness", "error", "is_right", "predicted_classes", "share_right"]


def is_right(predictions: NDArray[Any] | int, targets: NDArray[Any] | int) -> NDArray[np.bool_]:
    """The definition: whether a predicted class [..., n] is the target [n]."""
    return np.equal(predictions, targets)


def share_right(right: NDArray[np.bool_], counts: NDArray[Any]) -> FloatArray:
    """The definition: the accuracy over samples [n] that count [..., n] times each, such as once, or as often as drawn."""
    return counts @ right.astype(np.float64) / counts.sum(-1)


def predicted_classes(outputs: ArrayLike) -> IntArray:
    """The arg-max of logits or probabilities [n, K]; integer predictions [n] come back as they are."""
    shape = np.shape(outputs)
    if len(shape) == 1:
        return to_integers(outputs, "predictions of shape [n]")
    if len(shape) != 2 or shape[1] < 1:
        raise ValueError(f"outputs must be logits [n, K] or predictions [n], got shape {list(shape)}")
    return to_floats(outputs, "logits").argmax(axis=1).astype(np.int64)


def correctness(outputs: ArrayLike, targets: ArrayLike) -> NDArray[np.bool_]:
    """[n]: whether the predicted class is the target.

    Args:
        outputs: logits or probabilities [n, K], or predicted classes [n].
        targets: class indices [n].
    """
    predicted, wanted = predicted_classes(outputs), to_integers(targets, "targets")
    if predicted.shape != wanted.shape:
        raise ValueError(f"{list(predicted.shape)} predictions for targets of shape {list(wanted.shape)}; give one for each")
    return is_right(predicted, wanted)


def accuracy(outputs: ArrayLike, targets: ArrayLike) -> float:
    """Fraction of samples whose top-1 class is the target; arguments as for `correctness`."""
    correct = correctness(outputs, targets)
    if not len(correct):
        raise ValueError("the accuracy of no samples is not defined; the dataset or subset is empty")
    return float(share_right(correct, np.ones(len(correct))))


def error(outputs: ArrayLike, targets: ArrayLike) -> float:
    """`1 - accuracy`."""
    return 1 - accuracy(outputs, targets)
