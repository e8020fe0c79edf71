"""The clouds of fog: a periodic plasma by the diamond-square method."""

from __future__ import annotations

import torch
from torch import Tensor

from robustvit.corruptions.randomness import Draws

__all__ = ["plasma"]

COARSEST = 100.0
"""Half the width of the first perturbation, before it is multiplied with itself."""
PIECE = 1 << 18
"""Pixels worked on at a time: a few maps that stay in the cache of a CPU."""


def plasma(side: int, decay: float, draws: Draws) -> Tensor:
    """Clouds [B, side, side] between 0 and 1 that continue periodically.

    Args:
        side: a power of two.
        decay: each level has 1 / decay of the width before it; since the width counts twice, 1 / decay^2 of its strength.
        draws: asked for one uniform number a pixel but the first.
    """
    numbers = _numbers(draws, side * side - 1)
    result = torch.empty(len(numbers), side, side, dtype=draws.dtype, device=numbers.device)
    count = max(1, PIECE // side**2) if numbers.device.type == "cpu" else len(numbers)
    for part, out in zip(numbers.split(count), result.split(count), strict=True):
        nodes = _grow(_to_uniform(part, draws.dtype), side, decay)
        low, high = nodes.amin((1, 2), keepdim=True), nodes.amax((1, 2), keepdim=True)
        torch.div(nodes.sub_(low), high - low, out=out)
    return result


def _numbers(draws: Draws, count: int) -> Tensor:
    """[B, count or a little more]: the published stream, or four 16-bit numbers from every draw, which is faster."""
    if draws.dtype == torch.float64:
        return draws.uniform(0, 1, (1, count)).flatten(1)
    words = draws.integers(-(2**63), 2**63 - 1, (1, count // 4 + 1)).flatten(1)
    return words.view(torch.int16)


def _to_uniform(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """0 .. 1."""
    return numbers if numbers.is_floating_point() else numbers.to(dtype).add_(2**15 + 0.5).mul_(2**-16)


def _grow(uniform: Tensor, side: int, decay: float) -> Tensor:
    """From one point to [B, side, side], level by level."""
    nodes = uniform.new_zeros(len(uniform), 1, 1)
    width, used = COARSEST, 0
    while (n := nodes.shape[-1]) < side:
        level = uniform[:, used : used + 3 * n * n].view(-1, 3, n, n)
        nodes = _refine(nodes, level.mul(2 * width).sub_(width).mul_(width))  # width * U(-width, width)
        used, width = used + 3 * n * n, width / decay
    return nodes


def _refine(nodes: Tensor, shifts: Tensor) -> Tensor:
    """Twice as many points a side: [B, n, n] -> [B, 2n, 2n]; `shifts` [B, 3, n, n]: of centres, top edges, left edges."""
    B, n, _ = nodes.shape
    below, right = nodes.roll(-1, 1), nodes.roll(-1, 2)
    centres = (nodes + below + right + below.roll(-1, 2)).div_(4).add_(shifts[:, 0])
    fine = nodes.new_empty(B, n, 2, n, 2)
    fine[:, :, 0, :, 0] = nodes
    fine[:, :, 1, :, 1] = centres
    fine[:, :, 0, :, 1] = (centres + centres.roll(1, 1) + nodes + right).div_(4).add_(shifts[:, 1])
    fine[:, :, 1, :, 0] = (centres + centres.roll(1, 2) + nodes + below).div_(4).add_(shifts[:, 2])
    return fine.view(B, 2 * n, 2 * n)
