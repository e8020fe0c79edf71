"""Zipf distance between two rankings: moves among the best classes weigh most."""

from __future__ import annotations

import numpy as np

from robustvit.metrics.arrays import ArrayLike, FloatArray, to_integers

__all__ = ["zipf_distance"]


def zipf_distance(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """`sum_k |1/k - 1/sigma(k)| / k` over all classes, sigma(k) the rank in `second` of the k-th class of `first`.

    Args:
        first, second: whole rankings [..., K], best class first; every class once.
    """
    a, b = to_integers(first, "rankings"), to_integers(second, "rankings")
    if a.shape != b.shape or a.ndim < 1:
        raise ValueError(f"rankings must have the same shape [..., K], got {list(a.shape)} and {list(b.shape)}")
    classes = np.arange(a.shape[-1])
    if not ((np.sort(a, axis=-1) == classes).all() and (np.sort(b, axis=-1) == classes).all()):
        raise ValueError(f"rankings must hold each of the {len(classes)} classes 0..{len(classes) - 1} once")
    k = classes + 1.0
    sigma = np.take_along_axis(np.argsort(b, axis=-1), a, axis=-1) + 1.0
    return (np.abs(1 / k - 1 / sigma) / k).sum(-1)
