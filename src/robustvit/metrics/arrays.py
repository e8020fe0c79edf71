"""What the metrics accept: tensors on any device, arrays and nested sequences, all read as NumPy arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["ArrayLike", "FloatArray", "IntArray", "require_fractions", "require_names", "to_floats", "to_integers"]

ArrayLike = Tensor | NDArray[Any] | Sequence[Any] | float
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def _to_numpy(values: ArrayLike) -> NDArray[Any]:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).numpy()
    return np.asarray(values)


def to_floats(values: ArrayLike, what: str) -> FloatArray:
    """Float64, refusing NaN: a metric of a diverged network would look like a number."""
    array = _to_numpy(values).astype(np.float64)
    if np.isnan(array).any():
        raise ValueError(f"{what} must be numbers; {int(np.isnan(array).sum())} of {array.size} values are NaN")
    return array


def to_integers(values: ArrayLike, what: str) -> IntArray:
    """Int64 class indices."""
    array = _to_numpy(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{what} must be integer class indices, got {array.dtype} of shape {array.shape}")
    return array.astype(np.int64)


def require_fractions(array: FloatArray, what: str) -> None:
    if array.size and (array.min() < 0 or array.max() > 1):
        raise ValueError(f"{what} must be fractions in 0..1, got values from {array.min():g} to {array.max():g}; not percent")


def require_names(given: Mapping[str, object], expected: Iterable[str], what: str) -> None:
    """Names what is missing, so that nobody averages over fewer types than the name of the metric says."""
    wanted: Collection[str] = tuple(expected)
    missing = [name for name in wanted if name not in given]
    if missing:
        raise ValueError(f"{what} needs {len(wanted)} types and got {len(given)}; missing: {', '.join(missing)}")
