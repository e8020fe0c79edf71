"""The clouds of fog: a periodic plasma by the diamond-square method."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, islice

import numpy as np
import torch
from torch import Tensor

from robustvit.runtime.randomness import Draws, LegacyDraws

__all__ = ["plasma"]

COARSEST = 100.0
"""Half the width of the first perturbation, before it is multiplied with itself."""
TOGETHER = 64
"""Points a side up to which all images grow together."""
CACHED = 2**17
"""Points of larger maps that grow together: few enough for the cache."""


def plasma(side: int, decay: float, draws: Draws, *, rows: int | None = None) -> Iterator[Tensor]:
    """For each image in turn clouds [side, side] between 0 and 1 that continue periodically, or the upper part of them.

    Args:
        side: a power of two, 2 or more.
        decay: each level has 1 / decay of the width before it; since the width counts twice, 1 / decay^2 of its strength.
        draws: gives one uniform number per pixel except the first.
        rows: how many are needed, from the top; None is all. One more may come.
    """
    widths = list(accumulate(range(side.bit_length()), lambda width, _: width / decay, initial=COARSEST))
    start = min(side // 2, TOGETHER)
    first, later = _numbers(draws, start * start - 1, side * side - start * start)
    coarse = _grow(first.new_zeros(len(first), 1, 1, dtype=draws.dtype), first, widths, start)
    needed = side // 2 if rows is None else -(-rows // 2)
    for nodes in coarse.split(max(1, CACHED // (side // 2) ** 2)):
        numbers = torch.cat([*islice(later, len(nodes))])
        half = _grow(nodes, numbers, widths, side // 2)
        planes = (half, *_between(half, numbers[:, -3 * half[0].numel() :], widths))
        low = torch.stack([plane.flatten(1).amin(1) for plane in planes]).amin(0)[:, None, None]
        high = torch.stack([plane.flatten(1).amax(1) for plane in planes]).amax(0)[:, None, None]
        yield from _woven(*(plane[:, :needed] for plane in planes)).sub_(low).div_(high - low)


def _numbers(draws: Draws, first: int, later: int) -> tuple[Tensor, Iterator[Tensor]]:
    """[B, first] at once, then [1, later] for each image: the published stream, or 16-bit integers, which are faster."""
    if isinstance(draws, LegacyDraws):
        numbers = draws.uniform(0, 1, (1, first + later)).flatten(1)
        return numbers[:, :first], iter(numbers[:, first:].split(1))

    def integers(words: np.ndarray) -> Tensor:
        return torch.from_numpy(words.view(np.int16))[None].to(draws.device)

    return torch.cat([integers(words) for words in draws.words(first)]), (integers(words) for words in draws.words(later))


def _grow(nodes: Tensor, numbers: Tensor, widths: list[float], side: int) -> Tensor:
    """Level by level from [B, n, n] to [B, side, side]; the first of the numbers are for the first level."""
    start = nodes.shape[-1]
    while (n := nodes.shape[-1]) < side:
        level = numbers[:, n * n - start * start : 4 * n * n - start * start]
        nodes = _woven(nodes, *_between(nodes, level, widths))
    return nodes


def _between(nodes: Tensor, numbers: Tensor, widths: list[float]) -> tuple[Tensor, Tensor, Tensor]:
    """The points between the nodes [B, n, n], as many each: centres, top edges, left edges.

    New points are the mean of the four next to them, shifted: of nodes for centres, of two nodes and two centres for edges.
    """
    n = nodes.shape[-1]
    shifts = _shifts(numbers.unflatten(1, (3, n, n)), widths[n.bit_length() - 1], nodes.dtype)
    across, down = _plus_next(nodes, 2), _plus_next(nodes, 1)
    centres = torch.add(shifts[:, 0], _plus_next(across, 1), alpha=0.25)
    tops = torch.add(shifts[:, 1], _add_last(across.add_(centres), centres, 1), alpha=0.25)
    lefts = torch.add(shifts[:, 2], _add_last(down.add_(centres), centres, 2), alpha=0.25)
    return centres, tops, lefts


def _plus_next(values: Tensor, axis: int) -> Tensor:
    """values + values.roll(-1, axis), without the copy."""
    n = values.shape[axis] - 1
    result = torch.empty_like(values)
    torch.add(values.narrow(axis, 0, n), values.narrow(axis, 1, n), out=result.narrow(axis, 0, n))
    torch.add(values.narrow(axis, n, 1), values.narrow(axis, 0, 1), out=result.narrow(axis, n, 1))
    return result


def _add_last(total: Tensor, values: Tensor, axis: int) -> Tensor:
    """total += values.roll(1, axis), without the copy."""
    n = values.shape[axis] - 1
    total.narrow(axis, 1, n).add_(values.narrow(axis, 0, n))
    total.narrow(axis, 0, 1).add_(values.narrow(axis, n, 1))
    return total


def _shifts(numbers: Tensor, width: float, dtype: torch.dtype) -> Tensor:
    """width * U(-width, width)."""
    values = numbers.to(dtype, copy=True)
    if numbers.is_floating_point():
        return values.mul_(2 * width).sub_(width).mul_(width)
    return values.add_(0.5).mul_(width * width / 2**15)


def _woven(nodes: Tensor, centres: Tensor, tops: Tensor, lefts: Tensor) -> Tensor:
    """[B, h, n] each -> [B, 2h, 2n]. Pairs of neighbours in a row are written as complex numbers: the fastest way."""
    B, h, n = nodes.shape
    pairs = torch.empty(B, h, 2, n, dtype=nodes.dtype.to_complex(), device=nodes.device)
    torch.complex(nodes, tops, out=pairs[:, :, 0])
    torch.complex(lefts, centres, out=pairs[:, :, 1])
    return torch.view_as_real(pairs).view(B, 2 * h, 2 * n)
