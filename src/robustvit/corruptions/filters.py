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

MIDDLE = 128.0
CACHED = 2**18
"""Values of a strip: few enough for the cache, many enough to be worth a call."""
FEW_TAPS = 6
"""Radius up to which shifted pictures are added one by one; from then on, products of matrices are faster."""

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
    H, W = maps.shape[-2:]
    along_rows, along_columns = sigma if isinstance(sigma, tuple) else (sigma, sigma)
    rows = _gaussian_bands(H, along_rows, border, truncate, maps.dtype, maps.device)
    columns = _gaussian_bands(W, along_columns, border, truncate, maps.dtype, maps.device)
    result = torch.empty(maps.shape, dtype=maps.dtype, device=maps.device)
    pictures = _pictures(maps)
    middle = torch.empty(pictures.shape[1:], dtype=maps.dtype, device=maps.device)
    for out, picture in zip(_pictures(result), pictures, strict=True):
        for outputs, inputs, weights in rows:
            torch.matmul(weights, picture[:, inputs], out=middle[:, outputs])
        flat, flat_out = middle.view(-1, W), out.view(-1, W)
        for outputs, inputs, weights in columns:
            torch.mm(flat[:, inputs], weights.T, out=flat_out[:, outputs])
    return result


def blur_bytes(picture: Tensor, sigma: float, dtype: torch.dtype, out: Tensor) -> None:
    """Gaussian of one picture, uint8 [C, H, W] -> uint8 `out`, the edge replicated, truncated.

    Levels are counted from the middle of their range, which halves the rounding errors; flat areas keep their level.
    """
    H, W = picture.shape[-2:]
    radius = int(4 * sigma + 0.5)
    if radius > FEW_TAPS:
        store_bytes(gaussian_filter(picture[None].to(dtype).sub_(MIDDLE), sigma)[0].add_(MIDDLE + NUDGE[dtype]), out)
        return
    taps = _gaussian_taps(radius, sigma).tolist()
    for strip in strips(H, len(picture) * W, CACHED):
        values = _replicated(picture, strip, radius, dtype).sub_(MIDDLE)
        blurred = symmetric_filter(symmetric_filter(values, -2, taps), -1, taps)
        store_bytes(blurred.add_(MIDDLE + NUDGE[dtype]), out[:, strip])


def symmetric_filter(values: Tensor, axis: int, taps: Sequence[float]) -> Tensor:
    """Along the axis; shorter by len(taps) - 1 than `values`."""
    m = len(taps) // 2
    n = values.shape[axis] - 2 * m
    result = values.narrow(axis, m, n) * taps[m]
    for a in range(1, m + 1):
        for side in (a, -a):
            result.add_(values.narrow(axis, m + side, n), alpha=taps[m + a])
    return result


def _replicated(picture: Tensor, strip: slice, margin: int, dtype: torch.dtype) -> Tensor:
    """The rows of a strip [C, h, W] and a margin around them, in which the edge of the picture is repeated."""
    C, H, W = picture.shape
    padded = torch.empty(C, strip.stop - strip.start + 2 * margin, W + 2 * margin, dtype=dtype, device=picture.device)
    top, bottom = max(margin - strip.start, 0), max(strip.stop + margin - H, 0)  # rows outside the picture
    end = padded.shape[1] - bottom
    inside = padded[:, top:end]
    inside[..., margin : margin + W] = picture[:, strip.start - margin + top : strip.stop + margin - bottom]
    inside[..., :margin] = inside[..., margin : margin + 1]
    inside[..., margin + W :] = inside[..., margin + W - 1 : margin + W]
    padded[:, :top], padded[:, end:] = padded[:, top : top + 1], padded[:, end - 1 : end]
    return padded


@lru_cache(maxsize=64)
def _gaussian_bands(
    n: int, sigma: float, border: Border, truncate: float, dtype: torch.dtype, device: torch.device
) -> list[Band]:
    radius = int(truncate * sigma + 0.5)
    matrix = _gaussian_matrix(n, radius, sigma, border).to(dtype)
    if 2 * radius >= n:
        return _bands(matrix, [0] * n, [n] * n, n, device)
    starts, ends = [max(i - radius, 0) for i in range(n)], [min(i + radius + 1, n) for i in range(n)]
    return _bands(matrix, starts, ends, 32 if radius <= 12 else 48, device)  # the fastest as measured


def _gaussian_taps(radius: int, sigma: float) -> Tensor:
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float64)
    taps = torch.exp(-(offsets**2) / (2 * sigma**2)) if radius else torch.ones(1, dtype=torch.float64)
    return taps / taps.sum()


def _gaussian_matrix(n: int, radius: int, sigma: float, border: Border) -> Tensor:
    """float64 [n, n]: row i has the weights of the inputs of output i, borders folded in."""
    if radius == 0:
        return torch.eye(n, dtype=torch.float64)
    taps = _gaussian_taps(radius, sigma)
    source = torch.arange(n)[:, None] + torch.arange(-radius, radius + 1)  # n taps
    if border == "replicate":
        source = source.clamp(0, n - 1)
    else:
        source = source % (2 * n)
        source = torch.where(source < n, source, 2 * n - 1 - source)
    return torch.zeros(n, n, dtype=torch.float64).scatter_add_(1, source, taps.expand(n, -1))


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
    result = torch.zeros(maps.shape, dtype=maps.dtype, device=maps.device)
    for out, picture, angle in zip(result, maps, angles, strict=True):
        taps = _streak_taps(radius, sigma, angle, *maps.shape[-2:])
        if maps.dtype != torch.float64:
            taps = _merged(taps)
        _add_shifted(out, picture, taps)
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


def _add_shifted(out: Tensor, picture: Tensor, taps: list[Tap]) -> None:
    """out += sum of weight * picture[clamp(y + dy), clamp(x + dx)], from views of the padded picture."""
    H, W = picture.shape[-2:]
    down, right = ([0, *offsets] for offsets in ([dy for _, dy, _ in taps], [dx for _, _, dx in taps]))
    up, left = -min(down), -min(right)
    padded = F.pad(picture.reshape(1, -1, H, W), (left, max(right), up, max(down)), mode="replicate")[0]
    flat = out.view(-1, H, W)
    for strip in strips(H, len(flat) * W, CACHED):
        rows = flat[:, strip]
        for weight, dy, dx in taps:
            shifted = padded[:, up + dy + strip.start : up + dy + strip.stop, left + dx : left + dx + W]
            if out.dtype == torch.float64:
                rows += weight * shifted  # rounded twice, as published: no fused multiply-add
            else:
                rows.add_(shifted, alpha=weight)
