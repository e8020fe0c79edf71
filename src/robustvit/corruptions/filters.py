"""The linear filters that several corruptions share: Gaussian, zoom about the centre, one-sided streak.

They give the same bits on every processor. A processor is free in the order of long sums, as in products of matrices, and may
round a product and its sum at once; so every sum here is made of single operations in a stated order, or of whole numbers that
are exact in any order. All take maps [..., H, W], and work image by image: what lies between two steps stays in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from robustvit.corruptions.pixels import store_bytes, strips
from robustvit.runtime.portable_math import exp, gaussian_taps, sine_and_cosine, whole_weights

__all__ = [
    "CACHED",
    "NUDGE",
    "ONE",
    "Border",
    "add_zoomed",
    "blur_bytes",
    "enlarged",
    "fill_margins",
    "gaussian_filter",
    "streak",
    "symmetric_filter",
    "with_margins",
]

Border = Literal["replicate", "mirror", "reflect", "black"]
"""What lies outside: the edge again and again (a a | a b c), the image mirrored with its edge (b a | a b c) or without it
(c b | a b c), or nothing (0 0 | a b c)."""

NUDGE = {torch.float32: 6e-5, torch.float64: 1e-9}
"""Grey levels added before truncating: just more than the rounding errors, so that flat areas keep their level."""

MIDDLE = 128
ONE = 2**23
"""The sum of whole weights: times a grey level, it fits 32 bits."""
MOST_TAPS = 21
"""From more on, products of matrices in float64 are faster than tap after tap in float32."""
BLOCK = 16
"""Outputs of a product of matrices: the fewer, the fewer useless products with 0, and the slower those that are left."""
BAND = 3 * 2**18
"""Values of a band of rows: large images go through the two passes of a filter band by band, which stays nearer to the cache
than the whole, and computes the rows around a band twice."""
CACHED = 2**18
"""Values of a strip: few enough for the cache, many enough to be worth a call."""


def gaussian_filter(
    maps: Tensor, sigma: float | tuple[float, float], *, border: Border = "replicate", truncate: float = 4.0
) -> Tensor:
    """Separable Gaussian over the last two axes, taps up to `int(truncate * sigma + 0.5)`, weights normalised.

    Args:
        maps: [..., H, W], float64 or float32.
        sigma: standard deviation in pixels; one an axis (rows, columns) if they differ. Radius 0 is the identity.
        border: see `Border`; mirrored as often as needed.
        truncate: radius over sigma.
    """
    sigmas = sigma if isinstance(sigma, tuple) else (sigma, sigma)
    down, across = (gaussian_taps(int(truncate * s + 0.5), s) for s in sigmas)
    margin = len(down) // 2
    if maps.dtype == torch.float64 or len(down) + len(across) <= 2 * MOST_TAPS:
        pictures = maps.reshape(-1, *maps.shape[-3:]) if maps.ndim > 3 else maps[None]
        made = [_in_bands(lambda rows: _blurred(rows, down, across, border), picture, margin) for picture in pictures]
        return torch.stack(made).view(maps.shape)
    result = torch.empty(maps.shape, dtype=maps.dtype, device=maps.device)
    for out, plane in zip(result.view(-1, *maps.shape[-2:]), maps.reshape(-1, *maps.shape[-2:]), strict=True):
        scale = 2.0 ** (24 - math.frexp(float(plane.abs().amax()))[1])  # values to 2^-24 of the largest
        whole = (plane * scale).round_()[None]
        blurred = _in_bands(lambda rows: _blurred_whole(rows, down, across, 2**14, border), whole, margin)
        out.copy_(blurred[0].mul_(2.0**-28 / scale))
    return result


def blur_bytes(picture: Tensor, sigma: float, dtype: torch.dtype, out: Tensor) -> None:
    """Gaussian of one image, uint8 [C, H, W] -> uint8 `out`, the edge replicated, truncated; flat areas keep their level.

    Levels are counted from the middle of their range, which halves the rounding errors.
    """
    taps = gaussian_taps(int(4 * sigma + 0.5), sigma)

    def blurred(rows: Tensor) -> Tensor:
        made = torch.empty_like(rows)
        _blur_bytes(rows, taps, dtype, made)
        return made

    if picture.numel() <= BAND:
        _blur_bytes(picture, taps, dtype, out)
    else:
        out.copy_(_in_bands(blurred, picture, len(taps) // 2))


def _blur_bytes(picture: Tensor, taps: tuple[float, ...], dtype: torch.dtype, out: Tensor) -> None:
    levels = (picture ^ MIDDLE).view(torch.int8)  # x - 128
    if dtype == torch.float64:
        blurred = _blurred(levels.to(dtype), taps, taps, "replicate")
        store_bytes(blurred.add_(MIDDLE + NUDGE[dtype]), out, cut=False)
        return
    if len(taps) <= MOST_TAPS:
        whole = whole_weights(taps, ONE)
        across = symmetric_filter(with_margins(levels, 2, whole, "replicate", torch.int32), 2, whole)
        blurred = symmetric_filter(with_margins(across, 1, taps, "replicate", dtype).mul_(1 / ONE), 1, taps)
        store_bytes(blurred.add_(MIDDLE + NUDGE[dtype]), out, cut=False)
        return
    blurred = _blurred_whole(levels, taps, taps, 2**22, "replicate").mul_(2.0**-44)
    store_bytes(blurred.add_(MIDDLE + NUDGE[dtype]), out, cut=False)


def _in_bands(blur: Callable[[Tensor], Tensor], maps: Tensor, margin: int) -> Tensor:
    """`blur(maps)` of [..., H, W], band by band: the same, as an output depends on rows within `margin` of it alone, and on
    the border only where there is one."""
    H = maps.shape[-2]
    rows = max(2 * margin, BAND * H // max(1, maps.numel()), 1)
    if rows >= H:
        return blur(maps)
    parts = []
    for start in range(0, H, rows):
        first, stop = max(0, start - margin), min(H, start + rows)
        part = blur(maps[..., first : min(H, stop + margin), :])
        parts.append(part[..., start - first : stop - first, :])
    return torch.cat(parts, dim=-2)


def _blurred(maps: Tensor, down: Sequence[float], across: Sequence[float], border: Border) -> Tensor:
    """[..., H, W], tap after tap, in the dtype of the maps."""
    for axis, taps in ((maps.ndim - 1, across), (maps.ndim - 2, down)):
        maps = symmetric_filter(with_margins(maps, axis, taps, border), axis, taps)
    return maps


def _blurred_whole(maps: Tensor, down: tuple[float, ...], across: tuple[float, ...], one: int, border: Border) -> Tensor:
    """Whole numbers [C, H, W], blurred and multiplied by one^2, in float64: exact, as long as all sums are below 2^53.

    By products of matrices along the first axis, which are faster than along the last: once with W, then with H there.
    """
    maps = maps.transpose(0, 1)  # H C W
    for taps in (across, down):
        values = with_margins(maps.transpose(0, 2), 0, taps, border, torch.float64)  # W C H, then H C W
        maps = torch.empty((values.shape[0] - len(taps) + 1, *values.shape[1:]), dtype=torch.float64, device=values.device)
        weights = _block(taps, one, min(BLOCK, len(maps)), values.device)
        _filter_columns(values.flatten(1), weights, maps.view(len(maps), -1))
    return maps.transpose(0, 1)


def _filter_columns(values: Tensor, weights: Tensor, out: Tensor) -> None:
    """[n + 2 radius, N] -> [n, N]: blocks of outputs, each the product of the inputs around it with the same weights."""
    block, inputs = weights.shape
    windows, blocks = values.unfold(0, inputs, block).transpose(1, 2), out.unfold(0, block, block).transpose(1, 2)
    torch.bmm(weights.expand(len(blocks), -1, -1), windows, out=blocks)
    if rest := len(out) % block:
        torch.mm(weights[:rest, : inputs - block + rest], values[-rest - inputs + block :], out=out[-rest:])


@lru_cache(maxsize=64)
def _block(taps: tuple[float, ...], one: int, block: int, device: torch.device) -> Tensor:
    """float64 [block, block + len(taps) - 1]: the whole weights of the inputs of neighbouring outputs."""
    weights = torch.zeros(block, block + len(taps) - 1, dtype=torch.float64)
    whole = torch.tensor(whole_weights(taps, one), dtype=torch.float64)
    for i in range(block):
        weights[i, i : i + len(taps)] = whole
    return weights.to(device)


def with_margins(maps: Tensor, axis: int, taps: Sequence[float], border: Border, dtype: torch.dtype | None = None) -> Tensor:
    """With what `taps` reach on both ends of the axis, as `dtype`."""
    margin = len(taps) // 2
    shape = [n + 2 * margin if i == axis else n for i, n in enumerate(maps.shape)]
    values = torch.empty(shape, dtype=dtype or maps.dtype, device=maps.device)
    values.narrow(axis, margin, maps.shape[axis]).copy_(maps)
    fill_margins(values, axis, margin, border)
    return values


def fill_margins(values: Tensor, axis: int, margin: int, border: Border) -> None:
    """What lies within `margin` of both ends of the axis, from what lies between."""
    n = values.shape[axis] - 2 * margin
    for start, outside in ((0, range(-margin, 0)), (margin + n, range(n, n + margin))):
        if margin and border == "replicate":
            values.narrow(axis, start, margin).copy_(values.narrow(axis, margin if start == 0 else start - 1, 1))
        elif margin and border == "black":
            values.narrow(axis, start, margin).zero_()
        elif margin:
            period, last = (2 * n, 2 * n - 1) if border == "mirror" else (2 * n - 2, 2 * n - 2)
            sources = torch.tensor(outside, device=values.device) % period
            sources = torch.minimum(sources, last - sources) + margin
            values.narrow(axis, start, margin).copy_(values.index_select(axis, sources))


def symmetric_filter(values: Tensor, axis: int, taps: Sequence[float]) -> Tensor:
    """Along the axis; shorter by len(taps) - 1 than `values`, whose dtype is that of the sums. Integers take whole taps."""
    m = len(taps) // 2
    n = values.shape[axis] - 2 * m
    result = values.narrow(axis, m, n) * taps[m]
    pair = torch.empty_like(result)
    for a in range(1, m + 1):
        torch.add(values.narrow(axis, m - a, n), values.narrow(axis, m + a, n), out=pair)
        if values.is_floating_point():
            result += pair.mul_(taps[m + a])  # rounded twice: at once would be other bits
        else:
            result.add_(pair, alpha=taps[m + a])
    return result


def enlarged(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """[C, h, w] -> [C, *size], bilinear, corners aligned."""
    for n in reversed(size):
        kept = maps.shape[-1]
        turned = maps.mT.contiguous()
        taps = _between(torch.arange(n, dtype=torch.float64) * ((kept - 1) / max(n - 1, 1)), kept, maps.dtype)
        maps = _between_rows(turned, _steps_to_next(turned), *(tap.to(maps.device) for tap in taps))
    return maps


def add_zoomed(total: Tensor, picture: Tensor, zooms: Sequence[float], *, centred: bool) -> None:
    """Add to `total` the centre of the image, enlarged `zoom` times to its size by corner-aligned bilinear interpolation.

    Args:
        total, image: [C, H, W], contiguous.
        zooms: each at least 1.
        centred: after enlarging, keep the centre (fixed sizes) or the top left (arbitrary sizes).
    """
    H, W = picture.shape[-2:]
    kind = (centred, picture.dtype, picture.device)
    turned = picture.mT.contiguous()  # C W H: rows are read faster than columns
    steps = _steps_to_next(turned)
    for zoom in zooms:
        wide = _between_rows(turned, steps, *_zoom_taps(W, zoom, *kind)).mT.contiguous()
        total += _between_rows(wide, _steps_to_next(wide), *_zoom_taps(H, zoom, *kind))


@lru_cache(maxsize=256)
def _zoom_taps(n: int, zoom: float, centred: bool, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """For each of n outputs: the input before it, and how far it is from there."""
    kept = math.ceil(n / zoom)
    enlarged = round(kept * zoom)  # halves to even
    start = (enlarged - n) // 2 if centred else 0
    step = (kept - 1) / (enlarged - 1) if enlarged > 1 else 0.0
    low, t = _between((torch.arange(n, dtype=torch.float64) + start) * step, kept, dtype)
    return (low + (n - kept) // 2).to(device), t.to(device)


def _between(position: Tensor, kept: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The input 0 .. kept - 1 at or before each position, and how far it is from there to the next: int64, `dtype`."""
    low = position.floor().clamp_(max=kept - 1)
    return low.long(), (position - low).clamp_(0, 1).to(dtype)


def _steps_to_next(maps: Tensor) -> Tensor:
    """maps[:, y + 1] - maps[:, y]; 0 in the last row."""
    steps = torch.empty_like(maps)
    torch.sub(maps[:, 1:], maps[:, :-1], out=steps[:, :-1])
    steps[:, -1] = 0
    return steps


def _between_rows(maps: Tensor, steps: Tensor, low: Tensor, t: Tensor) -> Tensor:
    """What lies `t` of the step behind the rows `low` of [C, H, W]."""
    return steps.index_select(1, low).mul_(t[:, None]).add_(maps.index_select(1, low))


def streak(maps: Tensor, radius: int, sigma: float, angle: float, *, one: int = ONE) -> Tensor:
    """One-sided Gaussian streak of `2 * radius + 1` taps in the direction of an angle; the edge is replicated.

    Where a tap would reach further than the map is large, the sum stops there without renormalising (only for maps
    under some 41 pixels): the map darkens. In float64 the terms are added one by one in their order, which repeats the
    published bits. Whole numbers are exact, in one operation a tap.

    Args:
        maps: [..., H, W], float64 or int32.
        radius, sigma: of the streak, in pixels.
        angle: degrees.
        one: of int32 maps, what the weights add up to; times the largest value, it must fit 32 bits.

    Returns:
        Of the shape and dtype of `maps`; of int32 maps, `one` times the streak.
    """
    weights = _streak_weights(radius, sigma)
    if maps.is_floating_point():
        taps = _streak_taps(weights, angle, *maps.shape[-2:])
    else:
        taps = _merged(_streak_taps(_whole_streak_weights(radius, sigma, one), angle, *maps.shape[-2:]))
    result = torch.empty(maps.shape, dtype=maps.dtype, device=maps.device)
    _sum_shifted(result.view(-1, *maps.shape[-2:]), maps.reshape(-1, *maps.shape[-2:]), taps)
    return result


Tap = tuple[float, int, int]
"""Weight, rows down, columns right."""


def _streak_taps(weights: Sequence[float], angle: float, H: int, W: int) -> list[Tap]:
    sin, cos = sine_and_cosine(math.radians(angle))
    taps = []
    for i, weight in enumerate(weights):
        dy, dx = math.ceil(i * sin - 0.5), math.ceil(i * cos - 0.5)
        if abs(dy) >= H or abs(dx) >= W:
            break
        taps.append((weight, dy, dx))
    return taps


@lru_cache(maxsize=64)
def _streak_weights(radius: int, sigma: float) -> tuple[float, ...]:
    """Divided by sqrt(2 pi) sigma first and by their sum then, as published, so that the last bits agree."""
    k = np.array([exp(-(i * i) / (2 * sigma**2)) for i in range(2 * radius + 1)]) / (math.sqrt(2 * math.pi) * sigma)
    return tuple((k / k.sum()).tolist())


@lru_cache(maxsize=64)
def _whole_streak_weights(radius: int, sigma: float, one: int) -> tuple[int, ...]:
    return whole_weights(_streak_weights(radius, sigma), one)


def _merged(taps: list[Tap]) -> list[Tap]:
    """One tap an offset, without those of no weight."""
    weights: dict[tuple[int, int], float] = {}
    for weight, dy, dx in taps:
        weights[dy, dx] = weights.get((dy, dx), 0) + weight
    return [(weight, dy, dx) for (dy, dx), weight in weights.items() if weight]


def _sum_shifted(out: Tensor, picture: Tensor, taps: list[Tap]) -> None:
    """out = sum of weight * image[clamp(y + dy), clamp(x + dx)], from views of the padded image: all [C, H, W]."""
    H, W = picture.shape[-2:]
    down, right = ([0, *offsets] for offsets in ([dy for _, dy, _ in taps], [dx for _, _, dx in taps]))
    up, left = -min(down), -min(right)
    padded = _padded(picture, (up, max(down)), (left, max(right)))
    area, line, _ = padded.stride()
    for strip in strips(H, len(out) * W, CACHED):
        rows = out[:, strip]
        for i, (weight, dy, dx) in enumerate(taps):
            start = (up + dy + strip.start) * line + left + dx
            shifted = padded.as_strided(rows.shape, (area, line, 1), start)  # faster than three slices
            if i == 0:
                torch.mul(shifted, weight, out=rows)
            elif out.is_floating_point():
                rows += weight * shifted  # rounded twice, as published: no fused multiply-add
            else:
                rows.add_(shifted, alpha=weight)


def _padded(picture: Tensor, rows: tuple[int, int], columns: tuple[int, int]) -> Tensor:
    """[C, H, W] with its edge repeated (above, below), (left, right)."""
    C, H, W = picture.shape
    (up, down), (left, right) = rows, columns
    padded = torch.empty(C, up + H + down, left + W + right, dtype=picture.dtype, device=picture.device)
    inside = padded[:, up : up + H]
    inside[..., left : left + W] = picture
    inside[..., :left], inside[..., left + W :] = picture[..., :1], picture[..., -1:]
    padded[:, :up], padded[:, up + H :] = inside[:, :1], inside[:, -1:]
    return padded
