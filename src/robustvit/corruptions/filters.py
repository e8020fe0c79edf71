"""The linear filters that several corruptions share: Gaussian, zoom about the centre, one-sided streak.

All take maps [..., H, W] of floating point and compute in their dtype, on their device. They work picture by picture: what
lies between two steps stays in the cache, and a picture gives the same last bit alone and in a batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from robustvit.corruptions.pixels import store_bytes, strips

__all__ = ["NUDGE", "Border", "add_zoomed", "blur_bytes", "gaussian_filter", "streak", "symmetric_filter"]

Border = Literal["replicate", "mirror"]
"""What lies outside: the edge again and again (a a | a b c), or the picture mirrored with its edge (b a | a b c)."""

NUDGE = {torch.float32: 6e-5, torch.float64: 1e-9}
"""Grey levels added before truncating: just more than the rounding errors, so that flat areas keep their level."""

MIDDLE = 128
CACHED = 2**18
"""Values of a strip: few enough for the cache, many enough to be worth a call."""
BLOCK = 16
"""Outputs of a product of matrices: the fewer, the fewer useless products with 0, and the slower those that are left."""

Band = tuple[slice, slice, Tensor]
"""Outputs, the inputs that they depend on, and the weights [outputs, inputs]."""


def gaussian_filter(
    maps: Tensor, sigma: float | tuple[float, float], *, border: Border = "replicate", truncate: float = 4.0
) -> Tensor:
    """Separable Gaussian over the last two axes, taps up to `int(truncate * sigma + 0.5)`, weights normalised.

    Args:
        maps: [..., H, W].
        sigma: standard deviation in pixels; one an axis (rows, columns) if they differ. Radius 0 is the identity.
        border: see `Border`; mirrored as often as needed.
        truncate: radius over sigma.
    """
    sigmas = sigma if isinstance(sigma, tuple) else (sigma, sigma)
    result = torch.empty(maps.shape, dtype=maps.dtype, device=maps.device)
    for out, picture in zip(_pictures(result), _pictures(maps), strict=True):
        out.copy_(_blurred(picture, sigmas, border, truncate, maps.dtype).transpose(0, 1))
    return result


def blur_bytes(picture: Tensor, sigma: float, dtype: torch.dtype, out: Tensor) -> None:
    """Gaussian of one picture, uint8 [C, H, W] -> uint8 `out`, the edge replicated, truncated.

    Levels are counted from the middle of their range, which halves the rounding errors; flat areas keep their level.
    """
    levels = (picture ^ MIDDLE).view(torch.int8)  # x - 128
    blurred = _blurred(levels, (sigma, sigma), "replicate", 4.0, dtype)
    store_bytes(blurred.add_(MIDDLE + NUDGE[dtype]).transpose(0, 1), out, cut=False)


def _blurred(picture: Tensor, sigmas: tuple[float, float], border: Border, truncate: float, dtype: torch.dtype) -> Tensor:
    """Gaussian of [C, H, W], computed in `dtype`; as [H, C, W], where the lines of all channels are filtered together."""
    C, H, W = picture.shape
    down, across = (int(truncate * sigma + 0.5) for sigma in sigmas)
    tall = torch.empty(H + 2 * down, C, W, dtype=dtype, device=picture.device)
    inside = tall[down : down + H]
    weights = _gaussian_block(across, sigmas[1], min(BLOCK, W), dtype, picture.device)
    for strip in strips(H, C * W, CACHED):
        wide = torch.empty(strip.stop - strip.start, C, W + 2 * across, dtype=dtype, device=picture.device)
        wide[..., across : across + W] = picture[:, strip].transpose(0, 1)
        _fill_margins(wide, 2, across, border)
        _filter_columns(wide.view(-1, W + 2 * across), weights, inside[strip].view(-1, W))
    _fill_margins(tall, 0, down, border)
    result = torch.empty(H, C, W, dtype=dtype, device=picture.device)
    weights = _gaussian_block(down, sigmas[0], min(BLOCK, H), dtype, picture.device)
    _filter_rows(tall.view(-1, C * W), weights, result.view(H, -1))
    return result


def _filter_columns(values: Tensor, weights: Tensor, out: Tensor) -> None:
    """[N, n + 2 radius] -> [N, n]: blocks of outputs, each the product of the inputs around it with the same weights."""
    block, inputs = weights.shape
    windows, blocks = values.unfold(1, inputs, block).transpose(0, 1), out.unfold(1, block, block).transpose(0, 1)
    torch.bmm(windows, weights.T.expand(len(blocks), -1, -1), out=blocks)
    if rest := out.shape[1] % block:
        torch.mm(values[:, -rest - inputs + block :], weights[:rest, : inputs - block + rest].T, out=out[:, -rest:])


def _filter_rows(values: Tensor, weights: Tensor, out: Tensor) -> None:
    """[n + 2 radius, N] -> [n, N], as `_filter_columns`."""
    block, inputs = weights.shape
    windows, blocks = values.unfold(0, inputs, block).transpose(1, 2), out.unfold(0, block, block).transpose(1, 2)
    torch.bmm(weights.expand(len(blocks), -1, -1), windows, out=blocks)
    if rest := len(out) % block:
        torch.mm(weights[:rest, : inputs - block + rest], values[-rest - inputs + block :], out=out[-rest:])


def _fill_margins(values: Tensor, axis: int, margin: int, border: Border) -> None:
    """What lies within `margin` of both ends of the axis, from what lies between."""
    n = values.shape[axis] - 2 * margin
    for start, outside in ((0, range(-margin, 0)), (margin + n, range(n, n + margin))):
        if margin and border == "replicate":
            values.narrow(axis, start, margin).copy_(values.narrow(axis, margin if start == 0 else start - 1, 1))
        elif margin:
            sources = torch.tensor(outside, device=values.device) % (2 * n)
            sources = torch.minimum(sources, 2 * n - 1 - sources) + margin
            values.narrow(axis, start, margin).copy_(values.index_select(axis, sources))


@lru_cache(maxsize=64)
def _gaussian_block(radius: int, sigma: float, block: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[block, block + 2 radius]: the weights of the inputs of neighbouring outputs."""
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float64)
    taps = torch.exp(-(offsets**2) / (2 * sigma**2)) if radius else torch.ones(1, dtype=torch.float64)
    weights = torch.zeros(block, block + 2 * radius, dtype=torch.float64)
    for i in range(block):
        weights[i, i : i + len(taps)] = taps / taps.sum()
    return weights.to(dtype).to(device)


def symmetric_filter(values: Tensor, axis: int, taps: Sequence[float]) -> Tensor:
    """Along the axis; shorter by len(taps) - 1 than `values`."""
    m = len(taps) // 2
    n = values.shape[axis] - 2 * m
    result = values.narrow(axis, m, n) * taps[m]
    for a in range(1, m + 1):
        for side in (a, -a):
            result.add_(values.narrow(axis, m + side, n), alpha=taps[m + a])
    return result


def add_zoomed(total: Tensor, picture: Tensor, zooms: Sequence[float], *, centred: bool) -> None:
    """Add to `total` the centre of the picture, enlarged `zoom` times to its size by corner-aligned bilinear interpolation.

    Args:
        total, picture: [C, H, W], contiguous.
        zooms: each at least 1.
        centred: after enlarging, keep the centre (fixed sizes) or the top left (arbitrary sizes).
    """
    H, W = picture.shape[-2:]
    kind = (centred, picture.dtype, picture.device)
    for strip in strips(H, len(picture) * W, CACHED):
        kept = total[:, strip].contiguous()  # the strip itself if it is all
        flat = kept.view(-1, W)
        for zoom in zooms:
            low, high, t = (taps[strip] for taps in _zoom_taps(H, zoom, *kind))
            enlarged = picture.index_select(-2, low).lerp_(picture.index_select(-2, high), t[:, None]).view(-1, W)
            for outputs, inputs, weights in _zoom_bands(W, zoom, *kind):
                flat[:, outputs].addmm_(enlarged[:, inputs], weights.T)
        total[:, strip] = kept


@lru_cache(maxsize=256)
def _zoom_taps(n: int, zoom: float, centred: bool, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """For each of n outputs: the two inputs it lies between, and how far it is from the first."""
    kept = math.ceil(n / zoom)
    enlarged = round(kept * zoom)  # halves to even
    start = (enlarged - n) // 2 if centred else 0
    step = (kept - 1) / (enlarged - 1) if enlarged > 1 else 0.0
    position = (torch.arange(n, dtype=torch.float64) + start) * step
    low = position.floor().clamp(max=max(kept - 2, 0))
    first = (n - kept) // 2
    high = (low + 1).clamp(max=kept - 1)
    return (low.long() + first).to(device), (high.long() + first).to(device), (position - low).to(dtype).to(device)


@lru_cache(maxsize=256)
def _zoom_bands(n: int, zoom: float, centred: bool, dtype: torch.dtype, device: torch.device) -> list[Band]:
    low, high, t = _zoom_taps(n, zoom, centred, torch.float64, torch.device("cpu"))
    matrix = torch.zeros(n, n, dtype=torch.float64)
    matrix.scatter_add_(1, low[:, None], (1 - t)[:, None]).scatter_add_(1, high[:, None], t[:, None])
    return _bands(matrix.to(dtype), low.tolist(), (high + 1).tolist(), 32, device)


def _bands(matrix: Tensor, starts: Sequence[int], ends: Sequence[int], block: int, device: torch.device) -> list[Band]:
    """The n x n matrix of a filter, cut into bands of `block` outputs: narrow ones make few useless products with 0.

    Args:
        matrix: row i has the weights of the inputs of output i.
        starts, ends: the inputs of output i are starts[i] .. ends[i] - 1; both rise with i.
    """
    bands = []
    for start in range(0, len(matrix), block):
        outputs = slice(start, min(start + block, len(matrix)))
        inputs = slice(starts[start], ends[outputs.stop - 1])
        bands.append((outputs, inputs, matrix[outputs, inputs].contiguous().to(device)))
    return bands


def _pictures(maps: Tensor) -> Tensor:
    """[..., C, H, W] -> [N, C, H, W]; maps without channels get one."""
    return maps.reshape(-1, *maps.shape[-3:]) if maps.ndim > 3 else maps.reshape(-1, 1, *maps.shape[-2:])


def streak(maps: Tensor, radius: int, sigma: float, angles: Sequence[float]) -> Tensor:
    """One-sided Gaussian streak of `2 * radius + 1` taps in the direction of an angle; the edge is replicated.

    Where a tap would reach further than the map is large, the sum stops there without renormalising (only for maps
    under some 41 pixels): the map darkens. In float64 the terms are added one by one in their order, which repeats the
    published bits; in float32 equal offsets are merged and weights that cannot be seen are left out.

    Args:
        maps: [B, ..., H, W].
        radius, sigma: of the streak, in pixels.
        angles: degrees, one a picture.
    """
    result = torch.empty(maps.shape, dtype=maps.dtype, device=maps.device)
    for out, picture, angle in zip(result, maps, angles, strict=True):
        taps = _streak_taps(radius, sigma, angle, *maps.shape[-2:])
        if maps.dtype != torch.float64:
            taps = _merged(taps)
        _sum_shifted(out, picture, taps)
    return result


Tap = tuple[float, int, int]
"""Weight, rows down, columns right."""


def _streak_taps(radius: int, sigma: float, angle: float, H: int, W: int) -> list[Tap]:
    sin, cos = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    taps = []
    for i, weight in enumerate(_streak_weights(radius, sigma)):
        dy, dx = math.ceil(i * sin - 0.5), math.ceil(i * cos - 0.5)
        if abs(dy) >= H or abs(dx) >= W:
            break
        taps.append((weight, dy, dx))
    return taps


@lru_cache(maxsize=64)
def _streak_weights(radius: int, sigma: float) -> tuple[float, ...]:
    """Divided by sqrt(2 pi) sigma first and by their sum then, as published, so that the last bits agree."""
    i = np.arange(2 * radius + 1)
    k = np.exp(-(i**2) / (2 * sigma**2)) / (np.sqrt(2 * np.pi) * sigma)
    return tuple((k / k.sum()).tolist())


def _merged(taps: list[Tap], smallest: float = 1e-8) -> list[Tap]:
    """One tap an offset; those under `smallest` are less than the last bit of what they are added to."""
    weights: dict[tuple[int, int], float] = {}
    for weight, dy, dx in taps:
        weights[dy, dx] = weights.get((dy, dx), 0.0) + weight
    return [(weight, dy, dx) for (dy, dx), weight in weights.items() if weight >= smallest]


def _sum_shifted(out: Tensor, picture: Tensor, taps: list[Tap]) -> None:
    """out = sum of weight * picture[clamp(y + dy), clamp(x + dx)], from views of the padded picture."""
    H, W = picture.shape[-2:]
    down, right = ([0, *offsets] for offsets in ([dy for _, dy, _ in taps], [dx for _, _, dx in taps]))
    up, left = -min(down), -min(right)
    padded = F.pad(picture.reshape(1, -1, H, W), (left, max(right), up, max(down)), mode="replicate")[0]
    area, line, _ = padded.stride()
    flat = out.view(-1, H, W)
    for strip in strips(H, len(flat) * W, CACHED):
        rows = flat[:, strip]
        for i, (weight, dy, dx) in enumerate(taps):
            start = (up + dy + strip.start) * line + left + dx
            shifted = padded.as_strided(rows.shape, (area, line, 1), start)  # faster than three slices
            if i == 0:
                torch.mul(shifted, weight, out=rows)
            elif out.dtype == torch.float64:
                rows += weight * shifted  # rounded twice, as published: no fused multiply-add
            else:
                rows.add_(shifted, alpha=weight)
