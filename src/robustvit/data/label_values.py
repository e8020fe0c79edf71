"""Which values label files have: each file is decoded once per process, however many sets, suites and networks ask.

What is wrong in one map of thousands is to be found before the work starts, not when its turn comes hours later. So all maps
that will be used are looked into, in threads, since decoding leaves Python's lock.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from robustvit.runtime.cores import available_cores
from robustvit.runtime.image_files import UnreadablePictureError, read_values
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.progress import EveryMinute
from robustvit.runtime.ranks import is_first_process

__all__ = ["LabelValues", "values_of_files"]

MOST_THREADS = 8
MOST_COLOURS = 1024
"""Of one file that are kept. A dataset has fewer classes, so that some of these are unknown where a file has more."""
_TABLE = 2**24
"""Values below are found by a table; all colours are."""


class LabelValues(NamedTuple):
    """What is in a label file.

    Attributes:
        values: in ascending order; of a file with colours, only where all of them are grey.
        colours: of a file that stores colours; None for others.
        damage: why it cannot be read; empty where it can.
    """

    values: tuple[int, ...] = ()
    colours: tuple[tuple[int, int, int], ...] | None = None
    damage: str = ""


def values_of_files(files: Sequence[Path], where: str) -> list[LabelValues]:
    """The values of all files, in their order.

    Args:
        files: label maps; those that were looked into before, and are as they were, are not read again.
        where: the dataset, for the line per minute that says how far this is where it takes that long.
    """
    minute = EveryMinute()
    found: list[LabelValues] = []
    pool = ThreadPoolExecutor(min(MOST_THREADS, available_cores()))
    try:
        for values in pool.map(_values_of, files):
            check_interrupted()
            found.append(values)
            if minute.is_due() and is_first_process():
                warnings.warn(f"{where}: looked into {len(found)} of {len(files)} label maps", stacklevel=2)
    finally:
        pool.shutdown(cancel_futures=True)  # whoever interrupts this does not wait for the rest
    return found


def _values_of(file: Path) -> LabelValues:
    try:
        known = file.stat()
    except OSError as error:
        return LabelValues(damage=str(error))
    return _read(file, known.st_size, known.st_mtime_ns)


@lru_cache(maxsize=2**18)
def _read(file: Path, size: int, time: int) -> LabelValues:
    """Size and time of the file tell whether it is still the same."""
    try:
        stored = read_values(file)
    except UnreadablePictureError as error:
        return LabelValues(damage=str(error))
    if stored.ndim == 2:
        return LabelValues(_distinct(stored))
    is_grey = bool((stored == stored[..., :1]).all())
    red, green, blue = np.moveaxis(stored.astype(np.int32), -1, 0)
    codes = _distinct(red << 16 | green << 8 | blue)[:MOST_COLOURS]
    colours = tuple((code >> 16, code >> 8 & 255, code & 255) for code in codes)
    return LabelValues(_distinct(stored[..., 0]) if is_grey else (), colours)


def _distinct(values: np.ndarray) -> tuple[int, ...]:
    """In ascending order; several times as fast as sorting them all."""
    if values.dtype == np.uint8:
        return tuple(np.flatnonzero(Image.fromarray(np.ascontiguousarray(values)).histogram()).tolist())
    if values.size and values.min() >= 0 and values.max() < _TABLE:
        is_there = np.zeros(int(values.max()) + 1, bool)
        is_there[values] = True
        return tuple(np.flatnonzero(is_there).tolist())
    return tuple(np.unique(values).tolist())
