"""Random numbers for scenes: a hash of (key of the scene, stream, position), so that any draw can be made alone, in any order.

The numbers are those of SplitMix64 [Steele, Lea and Flood 2014] started at a place of its own for every stream. Only integer
operations are used: the same scene comes out on every machine, with every version of NumPy and in every batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robustvit.runtime.portable_math import circle
from robustvit.runtime.randomness import keyed_seed

__all__ = ["SceneDraws"]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_ANGLES = 1024


class SceneDraws:
    """Draws for the scenes (seed, index), each with a key of its own."""

    def __init__(self, seed: int, indices: Sequence[int]) -> None:
        self.keys = np.array([keyed_seed(seed, int(i), "scenes") for i in indices], dtype=np.uint64)

    def uniform(self, stream: int, size: tuple[int, ...] = (), low: float = 0, high: float = 1) -> NDArray[np.float32]:
        """Float32 [B, *size] in low..high. Streams are independent; a larger `size` starts with the same numbers."""
        values = (self._bits(stream, math.prod(size)) >> np.uint64(40)).astype(np.float32)  # 24 bits are exact in float32
        values *= np.float32((high - low) * 2.0**-24)
        values += np.float32(low)
        return values.reshape(len(self.keys), *size)

    def integers(self, stream: int, high: int, size: tuple[int, ...] = ()) -> NDArray[np.int64]:
        """Int64 [B, *size] in 0..high - 1."""
        return (self.uniform(stream, size).astype(np.float64) * high).astype(np.int64)

    def directions(
        self, stream: int, size: tuple[int, ...] = (), turn: float = 1
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Cosine and sine [B, *size] of angles in the share `turn` of the circle that has 0 in its middle.

        They come from a table: the cosines of a library may depend on the batch and on the processor.
        """
        steps = round(_ANGLES * turn)
        angle = (self.integers(stream, steps, size) - steps // 2) % _ANGLES
        cosines, sines = circle(_ANGLES)
        return cosines[angle].astype(np.float32), sines[angle].astype(np.float32)

    def _bits(self, stream: int, count: int) -> NDArray[np.uint64]:
        position = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(stream << 32)
        z = self.keys[:, None] + position * _STEP
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        return z
