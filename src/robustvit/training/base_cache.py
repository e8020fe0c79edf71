"""Bases of images and their targets by position, decoded once and kept in memory where there is room.

What is kept lies in one array each of shared memory, so that worker processes fill and read the same one. It is not made in
/dev/shm, which containers keep small. Targets that are records, such as the objects in an image, have no common shape: each
process keeps those that it has seen, and reads the target alone where another process has decoded the image.
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
from robustvit.tasks.base import Task
from robustvit.training.augment.placement import Placement
from robustvit.training.training_sets import Decoded, TrainingSamples

__all__ = ["BaseImages"]

Pixels = NDArray[np.uint8]
ToBase = Callable[[Image.Image | Pixels, str], tuple[Pixels, Placement | None]]
Item = tuple[Pixels, Any]
"""A base and the target of the sample, in its coordinates."""
AUTO_BYTES = 10**9
_TRIED = 16


class BaseImages:
    """Gives the base and the target of any sample of a set.

    Args:
        task: what is learned, which brings targets to the base.
        samples: the set.
        to_base: (image, id) -> its base, an array, and how the image was placed there.
        cache: "yes", "no", or "auto": keep them if they take less than 1 GB. Room is made for bases, and targets that are
            numbers or arrays, of the shape of the first; records of targets are kept with their bases, unless these were
            placed. With "yes" others are kept too, by each process on its own.

    Raises:
        ValueError: no image of several can be read.
    """

    def __init__(self, task: Task, samples: TrainingSamples, to_base: ToBase, cache: Literal["auto", "yes", "no"]) -> None:
        if cache not in ("auto", "yes", "no"):
            raise ValueError(f"data.cache={cache!r} is unknown; choose among auto, yes, no")
        self.task, self.samples, self.to_base, self.cache = task, samples, to_base, cache
        base, target = self._first()
        self.has_records = not _is_array(target)
        self.shape, known = base.shape, np.zeros((), np.int64) if self.has_records else np.asarray(target)
        self.target_shape, self.target_dtype = known.shape, known.dtype
        nbytes = len(samples) * (base.nbytes + known.nbytes)
        self.is_kept = cache == "yes" or (cache == "auto" and nbytes < AUTO_BYTES)
        self._make_room()

    def _make_room(self) -> None:
        count = len(self.samples) if self.is_kept else 0
        self.bases = _shared((count, *self.shape), np.uint8)
        self.targets = _shared((count, *self.target_shape), self.target_dtype)
        self.is_filled = _shared((len(self.samples),), np.uint8)  # stays 0 where nothing is kept
        self.odd_ones: dict[int, Item] = {}
        self.records: dict[int, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Shared memory cannot be sent to a process that was not forked from this one; that one starts anew."""
        dropped = ("bases", "targets", "is_filled", "odd_ones", "records")
        return {key: value for key, value in self.__dict__.items() if key not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_room()

    def get(self, positions: Sequence[int]) -> list[Item | UnreadablePictureError]:
        """Base and target of each, or why it cannot be read."""
        where = np.asarray(positions)
        filled = self.is_filled[where]
        if filled.all() and not self.has_records:
            return list(zip(map(self.bases.__getitem__, positions), self._targets(where), strict=True))
        missing = [
            p for p, is_there in zip(positions, filled.tolist(), strict=True) if not is_there and p not in self.odd_ones
        ]
        made = dict(zip(missing, self._made(missing), strict=True)) if missing else {}
        return [made[p] if p in made else self._kept(p) for p in positions]

    def _targets(self, where: NDArray[np.int64]) -> list[Any]:
        """Plain numbers, or an array per sample."""
        targets = self.targets[where]
        return list(targets) if self.target_shape else targets.tolist()

    def _kept(self, position: int) -> Item | UnreadablePictureError:
        if position in self.odd_ones:
            return self.odd_ones[position]
        if not self.has_records:
            return self.bases[position], self._targets(np.array([position]))[0]
        if position not in self.records:
            try:
                self.records[position] = self.samples.target(position)
            except UnreadablePictureError as error:
                return error
        return self.bases[position], self.records[position]

    def _item(self, position: int, decoded: Decoded) -> tuple[Item, bool]:
        """And whether the target is still as the sample has it."""
        base, placement = self.to_base(decoded.image, self.samples.id(position))
        if placement is None:
            return (base, decoded.target), True
        return (base, self.task.place(decoded.target, placement)), False

    def _made(self, positions: Sequence[int]) -> list[Item | UnreadablePictureError]:
        made: list[Item | UnreadablePictureError] = []
        for position, decoded in zip(positions, self.samples.read(positions), strict=True):
            if isinstance(decoded, Decoded):
                item, is_as_read = self._item(position, decoded)
                self._keep(position, *item, is_as_read=is_as_read)
                made.append(item)
            else:
                made.append(decoded)
        return made

    def _keep(self, position: int, base: Pixels, target: Any, *, is_as_read: bool) -> None:
        has_room = is_as_read if self.has_records else self._has_room(target)
        if self.is_kept and base.shape == self.shape and has_room:
            self.bases[position] = base
            if self.has_records:
                self.records[position] = target
            else:
                self.targets[position] = target
            self.is_filled[position] = 1  # last: another process may be looking
        elif self.cache == "yes":
            self.odd_ones[position] = base, target

    def _has_room(self, target: Any) -> bool:
        if not _is_array(target):
            return False
        array = np.asarray(target)
        return array.shape == self.target_shape and array.dtype == self.target_dtype

    def _first(self) -> Item:
        reason = ""
        for position in np.linspace(0, len(self.samples) - 1, _TRIED).astype(int).tolist():
            (decoded,) = self.samples.read([position])
            if isinstance(decoded, Decoded):
                return self._item(position, decoded)[0]
            reason = reason or f"{self.samples.id(position)}: {decoded}"
        raise ValueError(f"none of {_TRIED} training images that were tried can be read ({reason}); look at the files")


def _is_array(target: Any) -> bool:
    return isinstance(target, int | float | np.generic | np.ndarray)


def _shared(shape: tuple[int, ...], dtype: type[np.generic] | np.dtype[Any]) -> NDArray[Any]:
    """Zeros that this process and those forked from it have in common; pages take memory when they are written."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    return np.frombuffer(mmap.mmap(-1, max(1, nbytes)), dtype, count=math.prod(shape)).reshape(shape)
