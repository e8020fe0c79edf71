"""Top-5 distance: how far the five best classes move from frame to frame (uT5D), also divided by a baseline (T5D, mT5D).

`mean_ut5d` and `mt5d` are the definitions of the means over types, over arrays: evaluation bootstraps the first.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustvit.metrics.arrays import ArrayLike, FloatArray, IntArray, require_names, to_floats, to_integers
from robustvit.metrics.flips import SequenceRule, frame_pairs

__all__ = [
    "LARGEST_DISTANCE",
    "mean_top5_distance",
    "mean_ut5d",
    "mt5d",
    "rank_classes",
    "ranking",
    "sequence_top5_distance",
    "top5_distance",
]

LARGEST_DISTANCE = 18
"""Three of the five leave and the other two go ahead."""


def rank_classes(scores: Tensor) -> Tensor:
    """The definition: classes [..., K] from the best to the worst of scores [..., K]; of equal ones the lower class first."""
    return scores.sort(dim=-1, descending=True, stable=True).indices


def ranking(scores: ArrayLike) -> IntArray:
    """Class indices [..., K] from the best to the worst of scores [..., K]; of equal scores the lower index comes first."""
    return rank_classes(torch.from_numpy(to_floats(scores, "scores"))).numpy()


def top5_distance(first: ArrayLike, second: ArrayLike) -> NDArray[np.int64]:
    """`d = sum_{k=1..5} |(k-1) - min(sigma(k)-1, 5)|`, sigma(k) the rank in `second` of the k-th class of `first`.

    Args:
        first, second: rankings [..., 5 or more], best class first; what is beyond the fifth has no influence.

    Returns:
        [...]: 0 for the same five in the same order, 15 when all five leave, at most `LARGEST_DISTANCE`.
    """
    a, b = to_integers(first, "rankings"), to_integers(second, "rankings")
    if min(a.ndim, b.ndim) < 1 or min(a.shape[-1], b.shape[-1]) < 5:
        raise ValueError(f"rankings need 5 classes or more, got shapes {list(a.shape)} and {list(b.shape)}")
    same = a[..., :5, None] == b[..., None, :5]
    rank = np.where(same.any(-1), same.argmax(-1), 5)  # min(sigma(k) - 1, 5)
    return np.abs(np.arange(5) - rank).sum(-1)


def sequence_top5_distance(rankings: ArrayLike, rule: SequenceRule, *, difficulty: int = 1) -> float:
    """uT5D: the mean distance over frames and sequences, comparing the frames that `flip_probability` compares.

    Args:
        rankings: [sequences, frames, 5 or more], best class first.
        rule: see `sequence_rule`.
        difficulty: how far apart compared frames are.
    """
    classes = to_integers(rankings, "rankings")
    if classes.ndim != 3 or not len(classes):
        raise ValueError(f"rankings must be [sequences, frames, 5 or more], got shape {list(classes.shape)}")
    earlier, later = frame_pairs(classes.shape[1], rule, difficulty)
    return float(top5_distance(classes[:, earlier], classes[:, later]).mean())


def mean_ut5d(distances: FloatArray) -> FloatArray:
    """The definition: the mean of uT5D [..., types] over types, in whatever unit it is given."""
    return distances.mean(-1)


def mt5d(distances: FloatArray, baseline: FloatArray) -> FloatArray:
    """The definition: the mean over types of `T5D_p = uT5D_p / uT5D_p(baseline)`, of [..., types] and [types]."""
    return (distances / baseline).mean(-1)


def mean_top5_distance(distances: Mapping[str, float], baseline: Mapping[str, float] | None = None) -> float:
    """The mean of uT5D over types, as evaluations report it; with a baseline mT5D. No baseline is shipped: give your own.

    Args:
        distances: type -> uT5D; all types of the baseline.
        baseline: type -> uT5D of the reference network, above 0.
    """
    if baseline is None:
        if not distances:
            raise ValueError("the mean top-5 distance over no types is not defined; give at least one")
        return float(mean_ut5d(to_floats([*distances.values()], "top-5 distances")))
    require_names(distances, baseline, "mT5D")
    if not baseline or min(baseline.values()) <= 0:
        raise ValueError(f"the baseline of mT5D must have distances above 0 for every type, got {dict(baseline)}")
    given, divisors = ([values[name] for name in baseline] for values in (distances, baseline))
    return float(mt5d(to_floats(given, "top-5 distances"), to_floats(divisors, "the baseline of mT5D")))
