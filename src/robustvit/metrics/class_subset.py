"""Accuracy over a subset of the classes a network knows: the rule of ImageNet-A and ImageNet-R, which have 200 of 1000."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from robustvit.metrics.accuracy import accuracy
from robustvit.metrics.arrays import ArrayLike, IntArray, to_floats, to_integers
from robustvit.metrics.imagenet_classes import IMAGENET_A_INDICES, IMAGENET_R_INDICES, IMAGENET_WNIDS

__all__ = ["ClassSubset", "imagenet_subset", "keep_classes", "subset_accuracy", "subset_predictions"]

Scores = TypeVar("Scores", Tensor, NDArray[Any])


@dataclass(frozen=True)
class ClassSubset:
    """Some of the classes, in ascending order.

    Attributes:
        name: of the dataset that has them.
        indices: into the logits of a network for all classes.
        wnids: WordNet ids, in the same order: the folders of the dataset, sorted.
    """

    name: str
    indices: tuple[int, ...]
    wnids: tuple[str, ...]


def imagenet_subset(name: Literal["a", "r"]) -> ClassSubset:
    """The 200 classes of ImageNet-A ("a") or ImageNet-R ("r")."""
    subsets = {"a": IMAGENET_A_INDICES, "r": IMAGENET_R_INDICES}
    if name not in subsets:
        raise ValueError(f"there is no ImageNet subset {name!r}; choose 'a' (ImageNet-A) or 'r' (ImageNet-R)")
    indices = subsets[name]
    return ClassSubset(f"ImageNet-{name.upper()}", indices, tuple(IMAGENET_WNIDS[i] for i in indices))


def keep_classes(scores: Scores, classes: Sequence[int]) -> Scores:
    """The definition: of scores [n, K] only the columns of these classes, in their order, compete: [n, classes]."""
    return scores[:, list(classes)]


def subset_predictions(logits: ArrayLike, subset: ClassSubset | Sequence[int]) -> IntArray:
    """The arg-max over the subset's columns of logits [n, K], as positions 0, 1, ... in the subset.

    Args:
        logits: or probabilities: normalising before or after the selection changes no arg-max.
        subset: class indices in ascending order.
    """
    indices = _indices(subset)
    scores = to_floats(logits, "logits")
    if scores.ndim != 2 or scores.shape[1] <= indices[-1]:
        raise ValueError(f"logits must be [n, K] with K above {indices[-1]}, got shape {list(scores.shape)}")
    return keep_classes(scores, indices.tolist()).argmax(axis=1).astype(np.int64)


def subset_accuracy(
    logits: ArrayLike,
    targets: ArrayLike,
    subset: ClassSubset | Sequence[int],
    *,
    targets_are: Literal["positions", "classes"] = "positions",
) -> float:
    """Top-1 accuracy when only the classes of the subset may be predicted.

    Args:
        logits: [n, K] for all classes.
        targets: [n].
        subset: class indices in ascending order.
        targets_are: "positions" in the subset, as a folder of its sorted classes yields; or "classes" among all K.
    """
    wanted = to_integers(targets, "targets")
    indices = _indices(subset)
    if targets_are == "classes":
        foreign = sorted(set(wanted.tolist()) - set(indices.tolist()))
        if foreign:
            raise ValueError(f"targets must be classes of the subset; these are not: {foreign[:10]}")
        wanted = np.searchsorted(indices, wanted)
    elif wanted.size and (wanted.min() < 0 or wanted.max() >= len(indices)):
        raise ValueError(
            f"targets must be positions 0..{len(indices) - 1} in the subset, got {wanted.min()}..{wanted.max()}; "
            "for indices among all classes give targets_are='classes'"
        )
    return accuracy(subset_predictions(logits, subset), wanted)


def _indices(subset: ClassSubset | Sequence[int]) -> IntArray:
    indices = np.asarray(subset.indices if isinstance(subset, ClassSubset) else subset, dtype=np.int64)
    if indices.ndim != 1 or not len(indices) or indices[0] < 0 or (np.diff(indices) <= 0).any():
        raise ValueError(f"a subset must be class indices in ascending order, each once, got {indices.tolist()[:10]}")
    return indices
