"""Elastic distortion: a random affine map, then a smooth random field of displacements.

Where the published stream is repeated (draws of float64), images are read between their pixels in double precision.
Otherwise positions are whole fractions of a pixel, so that every sum is one of whole numbers: see `sampling`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from robustvit.corruptions.filters import gaussian_filter, symmetric_filter, with_margins
from robustvit.corruptions.pixels import Setting, empty_bytes
from robustvit.corruptions.sampling import read_between
from robustvit.runtime.portable_math import gaussian_taps, sine_and_cosine, whole_weights
from robustvit.runtime.randomness import Draws, KeyedDraws

__all__ = ["elastic_transform"]

TRUNCATE = 3.0
"""Radius over sigma of the smoothing."""
SPECTRAL_SIGMA = 4.0
"""Smoothing in pixels from which on a field is a sum of waves: before, it is faster to smooth, and not yet normal."""
FAINTEST = 0.01
"""Waves that the smoothing weakens further are left out: 2e-5 of the energy."""
AFFINE_UNIT, FIELD_UNIT = 32, 64
"""Positions in a pixel, of the affine map (as published) and of the displacements."""
GRID = 2**18
"""The cosines of waves are multiples of 1 / GRID, so that sums of them are exact."""


def elastic_transform(images: Tensor, parameters: tuple[float, float, float] | float, setting: Setting) -> Tensor:
    """Stretches images like rubber.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: (alpha, sigma, affine) at the fixed sizes: three anchors move by up to `affine` pixels; displacements are
            noise in -1 .. 1, smoothed by `sigma` pixels, times `alpha`. Alpha alone at arbitrary sizes: nothing affine, noise
            in -0.005 H .. 0.005 H along both axes, smoothed by 0.01 H down and 0.01 W across.
        setting: with draws of the anchors (x, y of each), then of the displacements along x and along y.
    """
    H, W = images.shape[-2:]
    draws, moves = setting.draws, None
    if isinstance(parameters, tuple):
        alpha, sigma, reach = parameters
        moves = draws.uniform(-reach, reach, (3, 2)).cpu()
        amplitude, sigmas = 1.0, (sigma, sigma)
    else:
        alpha, amplitude, sigmas = parameters, 0.005 * H, (0.01 * H, 0.01 * W)
    fields = _fields(draws, alpha * amplitude, sigmas, (H, W)) if alpha else None
    stretch = _stretched if isinstance(draws, KeyedDraws) else _stretched_as_published
    result = empty_bytes(images)
    for i, picture in enumerate(images):  # each by itself: stays in the cache, and is the same in any batch
        affine = None if moves is None else _affine_sources(moves[i], H, W)
        stretch(picture, affine, None if fields is None else fields[i], result[i])
    return result


def _stretched(picture: Tensor, affine: Tensor | None, field: Tensor | None, out: Tensor) -> None:
    """uint8 [3, H, W] -> `out`; affine sources in 1/32 pixels and displacements in pixels, [2, H, W] each (x, y)."""
    values = picture.float()
    if affine is not None:
        values = read_between(values, affine.float(), AFFINE_UNIT, border="reflect")
    if field is not None:
        if affine is not None:
            values.mul_(16).round_().mul_(1 / 16)  # 12 bits
        values = read_between(values, _displaced(field), FIELD_UNIT, border="mirror")
    out.copy_(values.to(torch.int16))  # to bytes by way of int16: several times faster


def _displaced(field: Tensor) -> Tensor:
    """Where each pixel comes from, x and y in 1 / FIELD_UNIT pixels: whole numbers [2, H, W]."""
    H, W = field.shape[-2:]
    sources = field.mul(FIELD_UNIT).round_()
    sources[0] += torch.arange(W, dtype=field.dtype, device=field.device).mul_(FIELD_UNIT)
    sources[1] += torch.arange(H, dtype=field.dtype, device=field.device).mul_(FIELD_UNIT)[:, None]
    return sources


def _stretched_as_published(picture: Tensor, affine: Tensor | None, field: Tensor | None, out: Tensor) -> None:
    """`_stretched` in double precision."""
    H, W = picture.shape[-2:]
    values = picture[None].double()
    if affine is not None:
        grid = affine.double().mul_(_per_axis(1 / 16 / (W - 1), 1 / 16 / (H - 1), affine.device)).sub_(1)
        values = F.grid_sample(values, grid.permute(1, 2, 0)[None], padding_mode="reflection", align_corners=True)
    if field is not None:
        grid = _pixel_centres(H, W, field.device) + field * _per_axis(2 / W, 2 / H, field.device)
        values = F.grid_sample(values, grid.permute(1, 2, 0)[None], padding_mode="reflection", align_corners=False)
    # 2^-30 keeps a grey level that came out a few last bits too low from being truncated to the next one
    out.copy_(values[0].add_(2**-30).to(torch.int16))


def _affine_sources(moves: Tensor, H: int, W: int) -> Tensor:
    """Where each pixel comes from, in 1/32 pixels, when three anchors (x, y) move by `moves` [3, 2]: int32 [2, H, W].

    From terms rounded to 1/1024, as published.
    """
    m, q = min(H, W) // 2, min(H, W) // 3
    anchors = ((m + q, m + q), (m + q, m - q), (m - q, m - q))
    moved = (torch.tensor(anchors, dtype=torch.float32) + moves.float()).double().tolist()
    sources = []
    for u in zip(*anchors, strict=True):
        a, b, c = _plane(moved, u)
        across = (torch.arange(W, dtype=torch.float64) * (1024 * a)).round_().to(torch.int32)  # rint(1024 a x)
        down = (torch.arange(H, dtype=torch.float64) * b).add_(c).mul_(1024).round_().to(torch.int32)  # rint(1024 (b y + c))
        sources.append((down[:, None] + across + 16) >> 5)
    return torch.stack(sources)


def _plane(points: list[list[float]], values: tuple[float, ...]) -> tuple[float, float, float]:
    """(a, b, c) of the plane a x + b y + c that has these values at three points (x, y): Cramer's rule."""
    (x1, y1), (x2, y2), (x3, y3) = points
    u1, u2, u3 = values
    det = (x1 - x3) * (y2 - y3) - (x2 - x3) * (y1 - y3)
    a = ((u1 - u3) * (y2 - y3) - (u2 - u3) * (y1 - y3)) / det
    b = ((x1 - x3) * (u2 - u3) - (x2 - x3) * (u1 - u3)) / det
    return a, b, u3 - a * x3 - b * y3


def _per_axis(x: float, y: float, device: torch.device) -> Tensor:
    return torch.tensor([x, y], dtype=torch.float64, device=device)[:, None, None]


@lru_cache(maxsize=16)
def _pixel_centres(H: int, W: int, device: torch.device) -> Tensor:
    """(x, y) of the pixels [2, H, W], where -1 and 1 are the outer edges of the image."""
    x, y = ((2 * torch.arange(n, dtype=torch.float64) + 1) / n - 1 for n in (W, H))
    return torch.stack([x.expand(H, W), y[:, None].expand(H, W)]).to(device)


def _fields(draws: Draws, amplitude: float, sigmas: tuple[float, float], size: tuple[int, int]) -> Tensor:
    """Displacements in pixels along x and y [B, 2, H, W]: uniform noise in +-amplitude, smoothed."""
    if not isinstance(draws, KeyedDraws):
        noise = torch.stack([draws.uniform(-amplitude, amplitude, size) for _ in range(2)], 1)
        return gaussian_filter(noise, sigmas, border="mirror", truncate=TRUNCATE)
    if min(sigmas) < SPECTRAL_SIGMA:
        words = torch.from_numpy(np.stack([words.view(np.int16) for words in draws.words(2 * math.prod(size))]))
        noise = (words >> 8).view(-1, 2, *size).to(draws.device)
        return torch.stack([_smoothed(maps, sigmas) for maps in noise]).mul_(amplitude)
    kept = tuple(_waves_kept(n, sigma) for n, sigma in zip(size, sigmas, strict=True))
    return _waves(draws.normal(0, 1, (2, *kept)), sigmas, size).mul_(amplitude / math.sqrt(3))


def _smoothed(noise: Tensor, sigmas: tuple[float, float]) -> Tensor:
    """Whole numbers -128 .. 127, int16 [2, H, W], as noise in -1 .. 1, smoothed: float32.

    Everything fits 16 bits, a quarter of the memory of float64. Weights are multiples of 1/256; rounding between the
    axes adds a hundredth of what the field is.
    """
    values = noise
    for axis, sigma in ((2, sigmas[1]), (1, sigmas[0])):
        taps = _short_weights(sigma)
        values = symmetric_filter(with_margins(values, axis, taps, "mirror"), axis, taps)
        if axis == 2:
            values = values.add_(2**7).bitwise_right_shift_(8)
    return values.float().add_(2**7).mul_(2.0**-15)  # -128 .. 127 stand for steps whose middle is 0.5 higher


@lru_cache(maxsize=32)
def _short_weights(sigma: float) -> tuple[int, ...]:
    """Whole weights whose sum is 256, without zeros at the ends."""
    taps = whole_weights(gaussian_taps(int(TRUNCATE * sigma + 0.5), sigma), 2**8)
    zeros = next(i for i, tap in enumerate(taps) if tap)
    return taps[zeros : len(taps) - zeros]


def _waves(weights: Tensor, sigmas: tuple[float, float], size: tuple[int, int]) -> Tensor:
    """Smoothed white noise [..., H, W] from its weights in the cosine basis, which a mirrored Gaussian only scales.

    Smoothed uniform noise is normal but for a kurtosis of -1.2 / (2 pi sigma^2), so that normal weights have its law. All sums
    are of whole numbers below 2^53, so that products of matrices are exact in any order.
    """
    rows, columns = (_wave_matrix(n, sigma).to(weights.device) for n, sigma in zip(size, sigmas, strict=True))
    whole = weights.double().mul_(2**10).round_()
    half = (rows @ whole).mul_(2**-14).round_()  # below 2^24
    return (half @ columns.T).mul_(2.0**4 / GRID**2).float()


def _waves_kept(n: int, sigma: float) -> int:
    """exp(-(sigma pi k / n)^2 / 2) > FAINTEST."""
    return min(n, math.ceil(math.sqrt(-2 * math.log(FAINTEST)) * n / (math.pi * sigma)) + 1)


@lru_cache(maxsize=16)
def _wave_matrix(n: int, sigma: float) -> Tensor:
    """float64 [n, kept]: `GRID` times orthonormal cosines cos(pi k (x + 1/2) / n) times what the smoothing leaves of them."""
    cosines = np.array([sine_and_cosine(math.pi * j / (2 * n))[1] for j in range(2 * n + 1)])
    cosines = np.concatenate([cosines, cosines[-2:0:-1]])  # cos(pi j / 2n), j = 0 .. 4n - 1
    radius = int(TRUNCATE * sigma + 0.5)
    taps, offsets = np.array(gaussian_taps(radius, sigma)), np.arange(-radius, radius + 1)
    columns = []
    for k in range(_waves_kept(n, sigma)):
        gain = math.fsum((cosines[2 * k * offsets % (4 * n)] * taps).tolist())
        norm = math.sqrt((2 if k else 1) / n)
        columns.append(cosines[k * (2 * np.arange(n) + 1) % (4 * n)] * (norm * gain))
    return torch.from_numpy(np.stack(columns, 1)).mul_(GRID).round_()
