"""Noise on single values: Gaussian, speckle, shot, impulse.

Where the published stream is repeated (draws of float64) the formulas are computed as they stand. Otherwise each value takes
one 16-bit word, which is looked up in a table of equally likely outcomes: probabilities are right to 1 in 65536. That happens
image by image, to stay in the cache, and on the CPU, where the words are drawn; so every device gets the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from robustvit.corruptions.pixels import Setting, empty_bytes, store_bytes, strips, to_unit
from robustvit.runtime.portable_math import exp
from robustvit.runtime.randomness import WORDS, KeyedDraws, LegacyDraws, standard_normals

__all__ = ["gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise"]

CHUNK = 2**17
"""Values worked on at a time, so that what lies between two operations stays in the cache."""


def gaussian_noise(images: Tensor, sd: float, setting: Setting) -> Tensor:
    """x + sd * n with a standard normal n for every value."""
    if isinstance(setting.draws, LegacyDraws):
        x = to_unit(images, torch.float64)
        return _stored((x + setting.draws.normal(0, sd, tuple(x.shape[1:]))).clamp_(0, 1).mul_(255))
    # floor(x + 255 sd n) = x + floor(255 sd n): x is whole
    noise = (standard_normals() * (255 * sd)).floor_().clamp_(-255, 255).short()

    def spoil(x: Tensor, words: np.ndarray, out: Tensor) -> None:
        values = noise.index_select(0, torch.from_numpy(words.astype(np.int32)))
        out.copy_(values.add_(x.short()).clamp_(0, 255))

    return _value_by_value(images, setting.draws, spoil)


def speckle_noise(images: Tensor, sd: float, setting: Setting) -> Tensor:
    """x + x * sd * n with a standard normal n for every value."""
    if isinstance(setting.draws, LegacyDraws):
        x = to_unit(images, torch.float64)
        return _stored((x + x * setting.draws.normal(0, sd, tuple(x.shape[1:]))).clamp_(0, 1).mul_(255))
    factors = standard_normals() * sd + 1

    def spoil(x: Tensor, words: np.ndarray, out: Tensor) -> None:
        values = factors.index_select(0, torch.from_numpy(words.astype(np.int32)))
        store_bytes(values.mul_(x.float()), out)

    return _value_by_value(images, setting.draws, spoil)


def shot_noise(images: Tensor, photons: float, setting: Setting) -> Tensor:
    """Poisson(x * photons) / photons: the fewer photons make up white, the noisier."""
    if isinstance(setting.draws, LegacyDraws):
        counts = setting.draws.poisson(to_unit(images, torch.float64) * photons)
        return _stored((counts / photons).clamp_(0, 1).mul_(255))
    table, bits = _shot_aliases(photons)

    def spoil(x: Tensor, words: np.ndarray, out: Tensor) -> None:
        cell = x.numpy().astype(np.int32)
        cell <<= bits
        cell |= (words >> (16 - bits)).astype(np.int32)  # types that differ are several times slower
        entry = table.index_select(0, torch.from_numpy(cell)).numpy()
        is_alias = (words & (WORDS // 2**bits - 1)) >= (entry >> 16).astype(np.uint16)
        both = entry.astype(np.uint16)  # own outcome in byte 0, its alias in byte 1
        own, other = both.astype(np.uint8), (both >> 8).astype(np.uint8)
        other ^= own
        other &= 0 - is_alias.view(np.uint8)  # 0 - 1 has all bits set
        np.bitwise_xor(own, other, out=out.numpy())

    return _value_by_value(images, setting.draws, spoil)


def impulse_noise(images: Tensor, share: float, setting: Setting) -> Tensor:
    """Each value, not each pixel, is replaced with probability `share`: by 255 or 0, equally likely."""
    if isinstance(setting.draws, LegacyDraws):
        replaced, white = (setting.draws.uniform(0, 1, tuple(images.shape[1:])) for _ in range(2))
        return torch.where(replaced <= share, torch.where(white <= 0.5, 255, 0), images).to(torch.uint8)
    salt, pepper = (np.uint16(round(WORDS * share * part)) for part in (0.5, 1))

    def spoil(x: Tensor, words: np.ndarray, out: Tensor) -> None:
        is_salt, is_replaced = (words < salt).view(np.uint8), (words < pepper).view(np.uint8)
        np.bitwise_and(x.numpy(), is_replaced - 1, out=out.numpy())  # 0 - 1 has all bits set
        np.bitwise_or(out.numpy(), 0 - is_salt, out=out.numpy())

    return _value_by_value(images, setting.draws, spoil)


def _value_by_value(images: Tensor, draws: KeyedDraws, spoil: Callable[[Tensor, np.ndarray, Tensor], None]) -> Tensor:
    """`spoil` the values of each image, given as many 16-bit words, into new memory."""
    result = empty_bytes(images.cpu())
    pictures = images.cpu().flatten(1)
    for out, picture, words in zip(result.flatten(1), pictures, draws.words(pictures.shape[1]), strict=True):
        for part in strips(len(words), 1, CHUNK):
            spoil(picture[part], words[part], out[part])
    return result.to(images.device)


def _stored(levels: Tensor) -> Tensor:
    result = empty_bytes(levels)
    store_bytes(levels, result)
    return result


@lru_cache(maxsize=16)
def _shot_aliases(photons: float) -> tuple[Tensor, int]:
    """Alias tables (Walker) of the grey level that shot noise makes of each of the 256 levels.

    Returns:
        int32 [256 * cells], and log2(cells). A cell holds its own outcome in byte 0, the alias in byte 1 and in the upper half
        how many of the cell's words, out of 65536 / cells, keep its own.
    """
    outcomes = math.ceil(photons) + 1  # so many photons and more are white
    bits = (outcomes - 1).bit_length()
    grey = np.array([int(min(count / photons, 1) * 255) for count in range(outcomes)], np.int32)
    chances = (_poisson(level / 255 * photons, outcomes) for level in range(256))
    return torch.from_numpy(np.concatenate([_aliases(chance, grey, bits) for chance in chances])), bits


def _poisson(rate: float, outcomes: int) -> list[float]:
    """The probabilities of 0 .. outcomes - 2, and of everything above."""
    chance = [exp(-rate)]
    for count in range(1, outcomes - 1):
        chance.append(chance[-1] * rate / count)
    return [*chance, max(1 - math.fsum(chance), 0.0)]


def _aliases(chance: list[float], grey: np.ndarray, bits: int) -> np.ndarray:
    """int32 [cells] for one level: fill each cell to the brim, the poorest outcome first, with words of the richest."""
    cells = 2**bits
    brim = WORDS // cells
    total = math.fsum(chance)
    wealth = [share / total * WORDS for share in chance] + [0.0] * (cells - len(chance))
    outcome = np.zeros(cells, np.int32)
    outcome[: len(grey)] = grey
    keep, alias = np.full(cells, brim, np.int32), outcome.copy()
    poor, rich = [i for i in range(cells) if wealth[i] < brim], [i for i in range(cells) if wealth[i] >= brim]
    while poor and rich:
        i, j = poor.pop(), rich[-1]
        keep[i], alias[i] = round(wealth[i]), outcome[j]
        wealth[j] -= brim - wealth[i]
        if wealth[j] < brim:
            poor.append(rich.pop())
    return keep << 16 | alias << 8 | outcome
