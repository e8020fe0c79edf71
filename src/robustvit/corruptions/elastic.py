"""Elastic distortion: a random affine map, then a smooth random field of displacements."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from robustvit.corruptions.filters import gaussian_filter
from robustvit.corruptions.pixels import Setting, empty_bytes
from robustvit.corruptions.randomness import Draws

__all__ = ["elastic_transform"]

TRUNCATE = 3.0
"""Radius over sigma of the smoothing."""
SPECTRAL_SIGMA = 2.0
"""Smoothing in pixels from which on a field is a sum of waves: before, it is not yet normal."""
FAINTEST = 0.01
"""Waves that the smoothing weakens further are left out: 2e-5 of the energy."""


def elastic_transform(images: Tensor, parameters: tuple[float, float, float] | float, setting: Setting) -> Tensor:
    """Stretches pictures like rubber.

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
    spectral = draws.dtype == torch.float32 and min(sigmas) >= SPECTRAL_SIGMA
    noise = _noise(draws, amplitude, sigmas, (H, W), spectral) if alpha else None
    result = empty_bytes(images)
    for i, picture in enumerate(images.split(1)):  # each by itself: stays in the cache, and is the same in any batch
        values = picture.to(draws.dtype)
        if moves is not None:
            values = F.grid_sample(values, _affine_grid(moves[i], values), padding_mode="reflection", align_corners=True)
        if noise is not None:
            smooth = _waves(noise[i], sigmas, (H, W)) if spectral else _smoothed(noise[i], sigmas)
            grid = _displaced_grid(smooth, alpha)
            values = F.grid_sample(values, grid, padding_mode="reflection", align_corners=False)
        result[i] = values[0].add_(_rounding(values.dtype)).to(torch.int16)  # to bytes by way of int16: several times faster
    return result


def _rounding(dtype: torch.dtype) -> float:
    """What keeps a grey level that came out a few last bits too low from being truncated to the next one."""
    return 2**-10 if dtype == torch.float32 else 2**-30


def _affine_grid(moves: Tensor, like: Tensor) -> Tensor:
    """Where each pixel comes from [1, H, W, 2] when three anchors (x, y) move by `moves` [3, 2].

    -1 and 1 are the outermost pixels. Sources lie on multiples of 1/32 pixel, from terms rounded to 1/1024, as published.
    """
    H, W = like.shape[-2:]
    m, q = min(H, W) // 2, min(H, W) // 3
    anchors = torch.tensor([[m + q, m + q], [m + q, m - q], [m - q, m - q]], dtype=torch.float32)
    moved = (anchors + moves.float()).double()
    homogeneous = torch.cat([moved, torch.ones(3, 1, dtype=torch.float64)], 1)
    inverse = torch.linalg.solve(homogeneous, anchors.double()).T  # 2 3: source = inverse @ (x, y, 1)
    across = (1024 * inverse[:, :1] * torch.arange(W)).round_()  # 2 W: rint(1024 a x)
    down = (1024 * (inverse[:, 1:2] * torch.arange(H) + inverse[:, 2:])).round_()  # 2 H: rint(1024 (b y + c))
    across, down = across.to(like), (down + 16).to(like)
    source = (down[:, :, None] + across[:, None]).mul_(1 / 32).floor_()  # 2 H W, in 1/32 pixel
    return source.mul_(_per_axis(1 / 16 / (W - 1), 1 / 16 / (H - 1), like)).sub_(1).permute(1, 2, 0)[None]


def _displaced_grid(smooth: Tensor, alpha: float) -> Tensor:
    """Where each pixel comes from [1, H, W, 2], moved by alpha * smooth [2, H, W]; -1 and 1 are the outer edges."""
    H, W = smooth.shape[-2:]
    grid = _pixel_centres(H, W, smooth.dtype, smooth.device) + smooth * _per_axis(2 * alpha / W, 2 * alpha / H, smooth)
    return grid.permute(1, 2, 0)[None]


def _per_axis(x: float, y: float, like: Tensor) -> Tensor:
    return torch.tensor([x, y], dtype=like.dtype, device=like.device)[:, None, None]


@lru_cache(maxsize=16)
def _pixel_centres(H: int, W: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(x, y) of the pixels [2, H, W], where -1 and 1 are the outer edges of the picture."""
    x, y = ((2 * torch.arange(n, dtype=torch.float64) + 1) / n - 1 for n in (W, H))
    return torch.stack([x.expand(H, W), y[:, None].expand(H, W)]).to(dtype).to(device)


def _noise(draws: Draws, amplitude: float, sigmas: tuple[float, float], size: tuple[int, int], spectral: bool) -> Tensor:
    """What becomes the displacements along x and y: uniform in +-amplitude, or weights of waves of the same variance."""
    if spectral:
        kept = tuple(_waves_kept(n, sigma) for n, sigma in zip(size, sigmas, strict=True))
        return draws.normal(0, amplitude / math.sqrt(3), (2, *kept))
    return torch.stack([draws.uniform(-amplitude, amplitude, size) for _ in range(2)], 1)


def _smoothed(noise: Tensor, sigmas: tuple[float, float]) -> Tensor:
    return gaussian_filter(noise, sigmas, border="mirror", truncate=TRUNCATE)


def _waves(weights: Tensor, sigmas: tuple[float, float], size: tuple[int, int]) -> Tensor:
    """Smoothed white noise [2, H, W] from its weights in the cosine basis, which a Gaussian with mirrored borders only scales.

    Smoothed uniform noise is normal but for a kurtosis of -1.2 / (2 pi sigma^2), so that normal weights have its law.
    """
    rows, columns = (_wave_matrix(n, s, weights.dtype, weights.device) for n, s in zip(size, sigmas, strict=True))
    return rows @ weights @ columns.T


def _waves_kept(n: int, sigma: float) -> int:
    """exp(-(sigma pi k / n)^2 / 2) > FAINTEST."""
    return min(n, math.ceil(math.sqrt(-2 * math.log(FAINTEST)) * n / (math.pi * sigma)) + 1)


@lru_cache(maxsize=16)
def _wave_matrix(n: int, sigma: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[n, kept]: orthonormal cosines cos(pi k (x + 1/2) / n), times what the smoothing leaves of them."""
    radius = int(TRUNCATE * sigma + 0.5)
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float64)
    taps = torch.exp(-(offsets**2) / (2 * sigma**2))
    k = torch.arange(_waves_kept(n, sigma), dtype=torch.float64)
    gains = torch.cos(math.pi * k[:, None] * offsets / n) @ (taps / taps.sum())
    cosines = torch.cos(math.pi * k * (torch.arange(n, dtype=torch.float64)[:, None] + 0.5) / n)
    norms = torch.where(k == 0, 1 / math.sqrt(n), math.sqrt(2 / n))
    return (cosines * norms * gains).to(dtype).to(device)
