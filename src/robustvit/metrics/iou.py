"""Intersection over union of label maps, from counts of pixels per class.

Pixels labelled 255 do not count. A class that is neither labelled nor predicted anywhere is left out of the mean; one that is
only predicted counts as 0. The accuracy of a class is its share of the labelled pixels that were found; classes without labels
are left out of its mean.
"""

from __future__ import annotations

import warnings

import numpy as np

from robustvit.metrics.measures import Measure, register

__all__ = [
    "CLASS_IOU",
    "CLEAN_MEAN_CLASS_ACCURACY",
    "CLEAN_PIXEL_ACCURACY",
    "IGNORED",
    "MEAN_CLASS_ACCURACY",
    "MIOU",
    "PIXEL_ACCURACY",
    "class_ious",
    "count_pixels",
    "mean_class_accuracy",
    "mean_iou",
]

IGNORED = 255
"""Label of pixels that do not count."""
MIOU = register(
    Measure(
        "miou",
        "mIoU",
        "Of each class, the pixels both predicted and labelled over those predicted or labelled, all images together; then "
        "the mean over the classes that occur.",
    )
)
CLASS_IOU = register(
    Measure("class_iou", "IoU", "Pixels both predicted and labelled as the class, over those predicted or labelled so.")
)
PIXEL_ACCURACY = register(Measure("pixel_accuracy", "Pixel accuracy", "Share of the labelled pixels with the right class."))
MEAN_CLASS_ACCURACY = register(
    Measure(
        "mean_class_accuracy",
        "Mean class accuracy",
        "Of each class, the share of its labelled pixels that were found; then the mean over the classes with labels.",
    )
)
CLEAN_PIXEL_ACCURACY = register(
    Measure(
        "clean_pixel_accuracy",
        "Clean pixel accuracy",
        f"{PIXEL_ACCURACY.meaning} Without any corruption.",
        family="clean",
        order=1,
    )
)
CLEAN_MEAN_CLASS_ACCURACY = register(
    Measure(
        "clean_mean_class_accuracy",
        "Clean mean class accuracy",
        f"{MEAN_CLASS_ACCURACY.meaning} Without any corruption.",
        family="clean",
        order=2,
    )
)


def count_pixels(prediction: np.ndarray, label: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How many pixels of each class were right, predicted and labelled: int64 [classes] each.

    Args:
        prediction: [H, W] of 0 .. classes - 1; other values are predictions of no class.
        label: [H, W] of 0 .. classes - 1, or `IGNORED`.
        classes: how many there are.

    Raises:
        ValueError: the maps differ in size, or a label is out of range.
    """
    if prediction.shape != label.shape:
        raise ValueError(f"a prediction of {_size(prediction)} pixels for labels of {_size(label)}; resize it to the labels")
    counts = label != IGNORED
    labels, answers = label[counts].astype(np.int64), prediction[counts].astype(np.int64)
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(f"a label map has the value {labels.max()}; expected 0 to {classes - 1}, or {IGNORED} for ignored")
    known = answers[(answers >= 0) & (answers < classes)]
    right = np.bincount(labels[labels == answers], minlength=classes)
    return right, np.bincount(known, minlength=classes), np.bincount(labels, minlength=classes)


def class_ious(right: np.ndarray, predicted: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """[..., K] counts -> [..., K]; NaN for classes that do not occur."""
    return _share(right, predicted + labelled - right)


def mean_iou(right: np.ndarray, predicted: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """[..., K] counts -> [...]: mIoU."""
    return _mean(class_ious(right, predicted, labelled))


def mean_class_accuracy(right: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """[..., K] counts -> [...]."""
    return _mean(_share(right, labelled))


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def _mean(shares: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of nothing, the mean is NaN
        return np.nanmean(shares, axis=-1)


def _size(array: np.ndarray) -> str:
    return "x".join(map(str, array.shape))
