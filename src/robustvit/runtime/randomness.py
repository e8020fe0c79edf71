"""Where the randomness of a corruption comes from.

A draw is asked for once for the whole batch and answered image by image, each from a generator of its own. `KeyedDraws`
seeds it with (seed, sample id, corruption, severity), so that an image meets the same corruption whatever the batch, the
order, the worker or the device. `LegacyDraws` repeats the one stream of the published programs, for comparison with files
made by them.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from robustvit.runtime.portable_math import normal_means

__all__ = ["Draws", "KeyedDraws", "LegacyDraws", "keyed_seed", "standard_normals"]

Size = tuple[int, ...]
WORDS = 2**16


def keyed_seed(seed: int, sample_id: int | str, *purpose: int | str) -> int:
    """A 64-bit seed that depends on the values of all its arguments and on nothing else: 5 and np.int64(5) are the same.

    Raises:
        TypeError: for anything but integers and strings.
    """
    text = repr(tuple(_plain(part) for part in (seed, sample_id, *purpose))).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _plain(part: int | str) -> int | str:
    if isinstance(part, str):
        return str(part)
    try:
        return operator.index(part)
    except TypeError:
        kind = type(part).__name__
        raise TypeError(
            f"{part!r} ({kind}) cannot be part of a seed; give sample ids and seeds as integers or strings"
        ) from None


@lru_cache(maxsize=1)
def standard_normals() -> Tensor:
    """float32 [65536]: the means of the standard normal over as many equally likely intervals, scaled to variance 1."""
    return torch.from_numpy(normal_means(WORDS).astype(np.float32))


class KeyedDraws:
    """One generator per image, keyed by (seed, sample id, purpose), always on the CPU so that every device sees the same."""

    dtype = torch.float32

    def __init__(
        self, seed: int, sample_ids: Sequence[int | str], *purpose: int | str, device: torch.device | str = "cpu"
    ) -> None:
        self.device = torch.device(device)
        self.seed, self.sample_ids, self.purpose = seed, sample_ids, purpose

    @cached_property
    def generators(self) -> list[torch.Generator]:
        """Made at the first draw: not every corruption draws."""
        return [torch.Generator().manual_seed(keyed_seed(self.seed, i, *self.purpose)) for i in self.sample_ids]

    @cached_property
    def word_generators(self) -> list[np.random.SFC64]:
        """For 16-bit words alone: several times as fast as those of torch."""
        return [np.random.SFC64(keyed_seed(self.seed, i, *self.purpose, "words")) for i in self.sample_ids]

    def _empty(self, size: Size, dtype: torch.dtype) -> Tensor:
        return torch.empty(len(self.generators), *size, dtype=dtype)

    def normal(self, mean: float, sd: float, size: Size) -> Tensor:
        """Each one of 65536 equally likely values."""
        table = standard_normals() * sd + mean
        count = math.prod(size)
        values = torch.from_numpy(np.empty((len(self.sample_ids), count), np.float32))  # huge pages, see `empty_bytes`
        for row, words in zip(values, self.words(count), strict=True):
            torch.index_select(table, 0, torch.from_numpy(words.astype(np.int32)), out=row)
        return values.view(-1, *size).to(self.device)

    def uniform(self, low: float, high: float, size: Size) -> Tensor:
        values = self._empty(size, self.dtype)
        for row, generator in zip(values, self.generators, strict=True):
            row.uniform_(0, 1, generator=generator)  # exact; what follows is rounded one by one
        return values.mul_(high - low).add_(low).to(self.device)

    def integers(self, low: int, high: int | Sequence[int], size: Size) -> Tensor:
        """int64 in low .. high - 1; `high` may differ from image to image."""
        values = self._empty(size, torch.int64)
        highs = [high] * len(values) if isinstance(high, int) else high
        for row, generator, end in zip(values, self.generators, highs, strict=True):
            row.random_(low, end, generator=generator)
        return values.to(self.device)

    def words(self, count: int) -> Iterator[np.ndarray]:
        """For each image in turn, `count` uniform 16-bit integers: the cheapest randomness, for looking things up."""
        for generator in self.word_generators:
            yield generator.random_raw(-(-count // 4)).view(np.uint16)[:count]


class LegacyDraws:
    """The published stream, for one picture: numbers of a `numpy.random.RandomState` in double precision, channels fastest."""

    dtype = torch.float64

    def __init__(self, state: np.random.RandomState, *, device: torch.device | str = "cpu") -> None:
        self.state, self.device = state, torch.device(device)

    def _batch_of_one(self, values: np.ndarray | float) -> Tensor:
        values = np.asarray(values)
        values = np.moveaxis(values, -1, 0) if values.ndim == 3 else values  # H W C -> C H W
        return torch.from_numpy(np.array(values, order="C"))[None].to(self.device)

    def normal(self, mean: float, sd: float, size: Size) -> Tensor:
        return self._batch_of_one(self.state.normal(mean, sd, _channels_last(size)))

    def uniform(self, low: float, high: float, size: Size) -> Tensor:
        return self._batch_of_one(self.state.uniform(low, high, _channels_last(size)))

    def integers(self, low: int, high: int | Sequence[int], size: Size) -> Tensor:
        end = high if isinstance(high, int) else high[0]
        return self._batch_of_one(self.state.randint(low, end, _channels_last(size)))

    def poisson(self, rate: Tensor) -> Tensor:
        return self._batch_of_one(self.state.poisson(rate[0].permute(1, 2, 0).cpu().numpy()).astype(np.float64))


def _channels_last(size: Size) -> Size:
    return (*size[1:], size[0]) if len(size) == 3 else size


Draws = KeyedDraws | LegacyDraws
"""Random numbers for a batch. `size` is (C, H, W), (H, W) or (): of one image. Results are [B, *size] on `device`, in
float32, or float64 where the published stream is repeated."""
