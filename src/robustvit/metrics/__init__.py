"""Robustness metrics: one definition per file, pure functions, fractions in 0..1.

What is exported here checks what it is given: tensors on any device, arrays and sequences. The definition itself is a function
over arrays in the same file, which evaluations call too (and bootstrap): changing it changes what a report prints.
Nothing here runs a network or reads a dataset.
"""

from __future__ import annotations

from robustvit.metrics.accuracy import accuracy, correctness, error, predicted_classes
from robustvit.metrics.alexnet import (
    ALEXNET_ERRORS,
    ALEXNET_EXTRA_ERRORS,
    ALEXNET_FLIPS,
    ErrorTable,
    ValueTable,
)
from robustvit.metrics.bootstrap import bootstrap_differences, bootstrap_scores
from robustvit.metrics.calibration import calibration_error, expected_calibration_error
from robustvit.metrics.class_subset import ClassSubset, imagenet_subset, subset_accuracy, subset_predictions
from robustvit.metrics.corruption_error import (
    corruption_errors,
    extra_corruption_errors,
    mean_corruption_error,
    relative_corruption_errors,
    relative_mean_corruption_error,
)
from robustvit.metrics.flips import flip_probability, flip_rates, mean_flip_probability, mean_flip_rate, sequence_rule
from robustvit.metrics.intervals import Interval
from robustvit.metrics.iou import class_ious, count_pixels, mean_class_accuracy, mean_iou
from robustvit.metrics.mean_accuracy import mean_accuracy
from robustvit.metrics.retention import retention
from robustvit.metrics.top5_distance import mean_top5_distance, ranking, sequence_top5_distance, top5_distance
from robustvit.metrics.wilson import wilson_interval
from robustvit.metrics.zipf_distance import zipf_distance

__all__ = [
    "ALEXNET_ERRORS",
    "ALEXNET_EXTRA_ERRORS",
    "ALEXNET_FLIPS",
    "ClassSubset",
    "ErrorTable",
    "Interval",
    "ValueTable",
    "accuracy",
    "bootstrap_differences",
    "bootstrap_scores",
    "calibration_error",
    "class_ious",
    "correctness",
    "corruption_errors",
    "count_pixels",
    "error",
    "expected_calibration_error",
    "extra_corruption_errors",
    "flip_probability",
    "flip_rates",
    "imagenet_subset",
    "mean_accuracy",
    "mean_class_accuracy",
    "mean_corruption_error",
    "mean_flip_probability",
    "mean_flip_rate",
    "mean_iou",
    "mean_top5_distance",
    "predicted_classes",
    "ranking",
    "relative_corruption_errors",
    "relative_mean_corruption_error",
    "retention",
    "sequence_rule",
    "sequence_top5_distance",
    "subset_accuracy",
    "subset_predictions",
    "top5_distance",
    "wilson_interval",
    "zipf_distance",
]
