"""Tallies: what single samples contribute to the numbers of a task, and many of them as arrays.

A tally maps names to arrays (or numbers), the same names for every sample of a task: right or wrong for a classifier,
intersections and areas per class for a segmenter, matched detections for a detector. Arrays of one name may differ in their
first dimension from sample to sample. `Tallies` holds those of many samples; it is what is stored batch by batch, exchanged
between processes, and scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Tallies", "Tally"]

Tally = Mapping[str, "np.ndarray | np.generic | float | int"]
LENGTHS = "#lengths"
"""Ends the names of the arrays that say how long the parts of the samples are."""


@dataclass(frozen=True, eq=False)
class Tallies:
    """The tallies of N samples.

    Attributes:
        count: N.
        arrays: name -> [N, ...]; of a ragged name, the parts of all samples one after the other, and NAME#lengths [N].
    """

    count: int
    arrays: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, name: str) -> np.ndarray:
        """[N, ...]: of a ragged name, all parts one after the other."""
        return self.arrays[name]

    def parts(self, name: str) -> list[np.ndarray]:
        """The arrays of a name, one per sample."""
        lengths = self.arrays.get(name + LENGTHS)
        if lengths is None:
            return list(self.arrays[name])
        return np.split(self.arrays[name], np.cumsum(lengths)[:-1]) if self.count else []

    def of(self, positions: Sequence[int] | np.ndarray) -> Tallies:
        """Those of some samples, in the order given."""
        rows = np.asarray(positions, np.int64)
        arrays: dict[str, np.ndarray] = {}
        for name in self._names():
            if name + LENGTHS in self.arrays:
                parts, lengths = self.parts(name), self.arrays[name + LENGTHS]
                arrays[name] = np.concatenate([self.arrays[name][:0], *(parts[i] for i in rows)])
                arrays[name + LENGTHS] = lengths[rows]
            else:
                arrays[name] = self.arrays[name][rows]
        return Tallies(len(rows), arrays)

    def blocks(self, size: int = 256) -> Iterator[Tallies]:
        """Those of so many samples at a time."""
        return (self.of(range(start, min(start + size, self.count))) for start in range(0, self.count, size))

    def _names(self) -> Iterator[str]:
        return (name for name in self.arrays if not name.endswith(LENGTHS))

    @staticmethod
    def stack(tallies: Sequence[Tally]) -> Tallies:
        """Of single samples, one or more."""
        arrays: dict[str, np.ndarray] = {}
        for name in tallies[0]:
            values = [np.asarray(tally[name]) for tally in tallies]
            if len({value.shape for value in values}) == 1:
                arrays[name] = np.stack(values)
            else:
                arrays[name] = np.concatenate(values)
                arrays[name + LENGTHS] = np.array([len(value) for value in values], np.int64)
        return Tallies(len(tallies), arrays)

    @staticmethod
    def join(parts: Sequence[Tallies]) -> Tallies:
        """Of several batches; the empty ones among them need have no arrays."""
        filled = [part for part in parts if part.count]
        if not filled:
            return Tallies(0, {})
        arrays: dict[str, np.ndarray] = {}
        for name in filled[0]._names():
            is_ragged = any(name + LENGTHS in part.arrays for part in filled)
            if is_ragged or len({part[name].shape[1:] for part in filled}) > 1:
                arrays[name] = np.concatenate([_flat(part, name) for part in filled])
                arrays[name + LENGTHS] = np.concatenate([_lengths(part, name) for part in filled])
            else:
                arrays[name] = np.concatenate([part[name] for part in filled])
        return Tallies(sum(part.count for part in filled), arrays)


def _flat(tallies: Tallies, name: str) -> np.ndarray:
    """The parts of all samples one after the other."""
    array = tallies[name]
    return array if name + LENGTHS in tallies.arrays else array.reshape(-1, *array.shape[2:])


def _lengths(tallies: Tallies, name: str) -> np.ndarray:
    stored = tallies.arrays.get(name + LENGTHS)
    return np.full(tallies.count, tallies[name].shape[1], np.int64) if stored is None else stored
