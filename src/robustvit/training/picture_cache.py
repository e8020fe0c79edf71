"""Bases of pictures by position, decoded once and kept in memory where there is room.

What is kept lies in one uint8 array of shared memory, so that worker processes fill and read the same one. It is not made in
/dev/shm, which containers keep small.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robustvit.data.samples import UnreadablePictureError
from robustvit.training.training_sets import Decoded, TrainingPictures

__all__ = ["BasePictures"]

Pixels = NDArray[np.uint8]
ToBase = Callable[[Image.Image | Pixels, str], Pixels]
AUTO_BYTES = 10**9
_TRIED = 16


class BasePictures:
    """Gives the base and the label of any picture of a set.

    Args:
        pictures: the set.
        to_base: (image, id) -> its base, an array.
        cache: "yes", "no", or "auto": keep them if they take less than 1 GB. Room is made for bases of the shape of the first
            one; with "yes" others are kept too, by each process on its own.

    Raises:
        ValueError: no picture of several can be read.
    """

    def __init__(self, pictures: TrainingPictures, to_base: ToBase, cache: Literal["auto", "yes", "no"]) -> None:
        if cache not in ("auto", "yes", "no"):
            raise ValueError(f"data.cache={cache!r} is unknown; choose among auto, yes, no")
        self.pictures, self.to_base, self.cache = pictures, to_base, cache
        self.shape = self._first_shape()
        nbytes = len(pictures) * math.prod(self.shape)
        self.is_kept = cache == "yes" or (cache == "auto" and nbytes < AUTO_BYTES)
        self._make_room()

    def _make_room(self) -> None:
        count = len(self.pictures) if self.is_kept else 0
        self.bases = _shared((count, *self.shape), np.uint8)
        self.labels = _shared((count,), np.int64)
        self.is_filled = _shared((len(self.pictures),), np.uint8)  # stays 0 where nothing is kept
        self.odd_ones: dict[int, tuple[Pixels, int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Shared memory cannot be sent to a process that was not forked from this one; that one starts anew."""
        dropped = ("bases", "labels", "is_filled", "odd_ones")
        return {key: value for key, value in self.__dict__.items() if key not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_room()

    def get(self, positions: Sequence[int]) -> list[tuple[Pixels, int] | UnreadablePictureError]:
        """(base, label) of each, or why it cannot be read."""
        where = np.asarray(positions)
        filled = self.is_filled[where]
        if filled.all():
            return list(zip(map(self.bases.__getitem__, positions), self.labels[where].tolist(), strict=True))
        missing = [
            p for p, is_there in zip(positions, filled.tolist(), strict=True) if not is_there and p not in self.odd_ones
        ]
        made = dict(zip(missing, self._made(missing), strict=True)) if missing else {}
        return [made[p] if p in made else self._kept(p) for p in positions]

    def _kept(self, position: int) -> tuple[Pixels, int]:
        if position in self.odd_ones:
            return self.odd_ones[position]
        return self.bases[position], int(self.labels[position])

    def _made(self, positions: Sequence[int]) -> list[tuple[Pixels, int] | UnreadablePictureError]:
        made: list[tuple[Pixels, int] | UnreadablePictureError] = []
        for position, decoded in zip(positions, self.pictures.read(positions), strict=True):
            if isinstance(decoded, Decoded):
                item = self.to_base(decoded.image, self.pictures.id(position)), decoded.label
                self._keep(position, *item)
                made.append(item)
            else:
                made.append(decoded)
        return made

    def _keep(self, position: int, base: Pixels, label: int) -> None:
        if self.is_kept and base.shape == self.shape:
            self.bases[position], self.labels[position] = base, label
            self.is_filled[position] = 1  # last: another process may be looking
        elif self.cache == "yes":
            self.odd_ones[position] = base, label

    def _first_shape(self) -> tuple[int, ...]:
        reason = ""
        for position in np.linspace(0, len(self.pictures) - 1, _TRIED).astype(int).tolist():
            (decoded,) = self.pictures.read([position])
            if isinstance(decoded, Decoded):
                return self.to_base(decoded.image, self.pictures.id(position)).shape
            reason = reason or f"{self.pictures.id(position)}: {decoded}"
        raise ValueError(f"none of {_TRIED} training pictures that were tried can be read ({reason}); look at the files")


def _shared(shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Zeros that this process and those forked from it have in common; pages take memory when they are written."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    return np.frombuffer(mmap.mmap(-1, max(1, nbytes)), dtype, count=math.prod(shape)).reshape(shape)
