"""Noise on single values: Gaussian, speckle, shot, impulse.

Where the published stream is repeated (draws of float64) the formulas are computed as they stand. Otherwise each value takes
one 16-bit word, which is looked up in a table of equally likely outcomes: probabilities are right to 1 in 65536. That happens
picture by picture, to stay in the cache, and on the CPU, where the words are drawn; so every device gets the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from robustvit.corruptions.pixels import Setting, to_bytes, to_unit

__all__ = ["gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise"]

WORDS = 2**16
CHUNK = 2**18
"""Values worked on at a time, so that what lies between two operations stays in the cache."""


def gaussian_noise(images: Tensor, sd: float, setting: Setting) -> Tensor:
    """x + sd * n with a standard normal n for every value."""
    if setting.draws.dtype == torch.float64:
        x = to_unit(images, torch.float64)
        return to_bytes(x + setting.draws.normal(0, sd, tuple(x.shape[1:])))
    noise = _normals() * np.float32(255 * sd)

    def spoil(picture: np.ndarray, words: np.ndarray) -> np.ndarray:
        return _to_bytes(_look_up(noise, words.astype(np.int32)) + picture)

    return _value_by_value(images, setting, spoil)


def speckle_noise(images: Tensor, sd: float, setting: Setting) -> Tensor:
    """x + x * sd * n with a standard normal n for every value."""
    if setting.draws.dtype == torch.float64:
        x = to_unit(images, torch.float64)
        return to_bytes(x + x * setting.draws.normal(0, sd, tuple(x.shape[1:])))
    factors = 1 + _normals() * np.float32(sd)

    def spoil(picture: np.ndarray, words: np.ndarray) -> np.ndarray:
        return _to_bytes(_look_up(factors, words.astype(np.int32)) * picture)

    return _value_by_value(images, setting, spoil)


def shot_noise(images: Tensor, photons: float, setting: Setting) -> Tensor:
    """Poisson(x * photons) / photons: the fewer photons make up white, the noisier."""
    if setting.draws.dtype == torch.float64:
        return to_bytes(setting.draws.poisson(to_unit(images, torch.float64) * photons) / photons)
    table, bits = _shot_aliases(photons)

    def spoil(picture: np.ndarray, words: np.ndarray) -> np.ndarray:
        cell = (picture.astype(np.int32) << bits) | (words >> (16 - bits))
        entry = _look_up(table, cell)
        is_alias = (words & (WORDS // 2**bits - 1)) >= (entry >> 16).astype(np.uint16)
        return (entry >> (is_alias.view(np.uint8) << 3)).astype(np.uint8)  # own outcome in byte 0, its alias in byte 1

    return _value_by_value(images, setting, spoil)


def impulse_noise(images: Tensor, share: float, setting: Setting) -> Tensor:
    """Each value, not each pixel, is replaced with probability `share`: by 255 or 0, equally likely."""
    if setting.draws.dtype == torch.float64:
        replaced, white = (setting.draws.uniform(0, 1, tuple(images.shape[1:])) for _ in range(2))
        return torch.where(replaced <= share, torch.where(white <= 0.5, 255, 0), images).to(torch.uint8)
    salt, pepper = (np.uint16(round(WORDS * share * part)) for part in (0.5, 1))

    def spoil(picture: np.ndarray, words: np.ndarray) -> np.ndarray:
        is_salt, is_replaced = (words < salt).view(np.uint8), (words < pepper).view(np.uint8)
        return (picture & (is_replaced - 1)) | (0 - is_salt)  # 0 - 1 has all bits set

    return _value_by_value(images, setting, spoil)


def _value_by_value(images: Tensor, setting: Setting, spoil: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Tensor:
    """`spoil` each picture [3 H W], given as many 16-bit words."""
    result = torch.empty(images.shape, dtype=torch.uint8)
    pictures = images.cpu().flatten(1)
    for out, picture, words in zip(result.flatten(1), pictures, setting.draws.words(pictures.shape[1]), strict=True):
        for start in range(0, len(words), CHUNK):
            part = slice(start, start + CHUNK)
            out.numpy()[part] = spoil(picture.numpy()[part], words[part])
    return result.to(images.device)


def _look_up(table: np.ndarray, index: np.ndarray) -> np.ndarray:
    """table[index] for int32 indices, which torch reads twice as fast as NumPy."""
    return torch.from_numpy(table).index_select(0, torch.from_numpy(index)).numpy()


def _to_bytes(values: np.ndarray) -> np.ndarray:
    """Cut to 0 .. 255 in place, then truncated."""
    torch.from_numpy(values).clamp_(0, 255)
    return values.astype(np.uint8)


@lru_cache(maxsize=1)
def _normals() -> np.ndarray:
    """float32 [65536]: the means of the standard normal over as many equally likely intervals, scaled to variance 1."""
    ends = torch.special.ndtri(torch.arange(1, WORDS, dtype=torch.float64) / WORDS).numpy()
    density = np.concatenate([[0.0], np.exp(-(ends**2) / 2) / np.sqrt(2 * np.pi), [0.0]])
    means = (density[:-1] - density[1:]) * WORDS  # E[n | a < n < b] = (phi(a) - phi(b)) / P(a < n < b)
    return (means / means.std()).astype(np.float32)


@lru_cache(maxsize=16)
def _shot_aliases(photons: float) -> tuple[np.ndarray, int]:
    """Alias tables (Walker) of the grey level that shot noise makes of each of the 256 levels.

    Returns:
        int32 [256 * cells], and log2(cells). A cell holds its own outcome in byte 0, the alias in byte 1 and in the upper half
        how many of the cell's words, out of 65536 / cells, keep its own.
    """
    outcomes = int(np.ceil(photons)) + 1  # so many photons and more are white
    bits = int(np.ceil(np.log2(outcomes)))
    count = np.arange(outcomes)
    rate = np.arange(256)[:, None] / 255 * photons
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, outcomes)))])
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = np.exp(np.where(count == 0, 0, count * np.log(rate)) - rate - log_factorial)
    chance[:, -1] = np.maximum(1 - chance[:, :-1].sum(1), 0)
    grey = (np.minimum(count / photons, 1) * 255).astype(np.uint8)
    return np.concatenate([_aliases(row, grey, bits) for row in chance]), bits


def _aliases(chance: np.ndarray, grey: np.ndarray, bits: int) -> np.ndarray:
    """int32 [cells] for one level: fill each cell to the brim, the poorest outcome first, with words of the richest."""
    cells = 2**bits
    brim = WORDS // cells
    wealth = np.zeros(cells)
    wealth[: len(chance)] = chance / chance.sum() * WORDS
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
