"""The clouds of fog: a periodic plasma by the diamond-square method."""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import Tensor

from robustvit.corruptions.randomness import Draws

__all__ = ["plasma"]

COARSEST = 100.0
"""Half the width of the first perturbation, before it is multiplied with itself."""
PIECE = 1 << 19
"""Pixels worked on at a time: a few maps that stay in the cache of a CPU."""


def plasma(side: int, decay: float, draws: Draws) -> Tensor:
    """Clouds [B, side, side] between 0 and 1 that continue periodically.

    Args:
        side: a power of two.
        decay: each level has 1 / decay of the width before it; since the width counts twice, 1 / decay^2 of its strength.
        draws: asked for one uniform number a pixel but the first.
    """
    widths = list(accumulate(range(side.bit_length()), lambda width, _: width / decay, initial=COARSEST))
    numbers = _numbers(draws, side * side - 1)
    B = len(numbers)
    nodes = torch.zeros(B, 1, 1, dtype=draws.dtype, device=numbers.device)
    nodes = _grow(nodes, numbers, widths, min(side, 64))
    result = nodes.new_empty(B, side, side)
    count = max(1, PIECE // side**2) if nodes.device.type == "cpu" else B
    for part in (slice(i, i + count) for i in range(0, B, count)):
        clouds = _grow(nodes[part], numbers[part], widths, side)
        low, high = clouds.amin((1, 2), keepdim=True), clouds.amax((1, 2), keepdim=True)
        torch.sub(clouds, low, out=result[part]).div_(high - low)
    return result


def _numbers(draws: Draws, count: int) -> Tensor:
    """[B, count or a little more]: the published stream, or four 16-bit numbers from every draw, which is faster."""
    if draws.dtype == torch.float64:
        return draws.uniform(0, 1, (1, count)).flatten(1)
    words = draws.integers(-(2**63), 2**63 - 1, (1, count // 4 + 1)).flatten(1)
    return words.view(torch.int16)


def _grow(nodes: Tensor, numbers: Tensor, widths: list[float], side: int) -> Tensor:
    """Level by level from [B, n, n] to [B, side, side]."""
    while (n := nodes.shape[-1]) < side:
        used = n * n - 1  # numbers of the levels before
        level = numbers[:, used : used + 3 * n * n].to(nodes.dtype, copy=True).view(-1, 3, n, n)
        width = widths[n.bit_length() - 1]
        if numbers.is_floating_point():
            shifts = level.mul_(2 * width).sub_(width).mul_(width)  # width * U(-width, width)
        else:
            shifts = level.add_(0.5).mul_(width * width / 2**15)  # the same from 16 bits
        nodes = _refine(nodes, shifts)
    return nodes


def _refine(nodes: Tensor, shifts: Tensor) -> Tensor:
    """Twice as many points a side: [B, n, n] -> [B, 2n, 2n]; `shifts` [B, 3, n, n]: of centres, top edges, left edges.

    New points are the mean of the four next to them, shifted: of nodes for centres, of two nodes and two centres for edges.
    """
    B, n, _ = nodes.shape
    fine = nodes.new_empty(B, n, 2, n, 2)
    across, down = nodes + nodes.roll(-1, 2), nodes + nodes.roll(-1, 1)
    centres = torch.add(shifts[:, 0], across + across.roll(-1, 1), alpha=0.25)
    fine[:, :, 0, :, 0] = nodes
    fine[:, :, 1, :, 1] = centres
    torch.add(shifts[:, 1], across.add_(centres).add_(centres.roll(1, 1)), alpha=0.25, out=fine[:, :, 0, :, 1])
    torch.add(shifts[:, 2], down.add_(centres).add_(centres.roll(1, 2)), alpha=0.25, out=fine[:, :, 1, :, 0])
    return fine.view(B, 2 * n, 2 * n)
