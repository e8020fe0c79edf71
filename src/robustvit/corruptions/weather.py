"""Snow, frost, fog and spatter: weather between the camera and the scene.

Values are on the scale 0 .. 255 throughout, cut there and truncated, not rounded, as published.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from robustvit.corruptions.filters import streak
from robustvit.corruptions.frost_textures import frost_textures
from robustvit.corruptions.pixels import Setting
from robustvit.corruptions.plasma import plasma
from robustvit.corruptions.randomness import Draws
from robustvit.corruptions.spatter import spatter

__all__ = ["fog", "frost", "snow", "spatter"]

GREY = (0.299, 0.587, 0.114)
PIECE = 1 << 17
"""Pixels worked on at a time: a few pictures whose values stay in the cache of a CPU."""


def snow(images: Tensor, parameters: tuple[float, float, float, float, int, float, float], setting: Setting) -> Tensor:
    """Falling flakes over a whitened scene.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: (mean, sd, zoom, threshold, radius, sigma, keep): flakes are where a normal field, enlarged `zoom` times,
            exceeds the threshold; they are drawn out to streaks (radius, sigma); `keep` of the scene is not whitened.
        setting: randomness; asked for a normal field H x W, then an angle.
    """
    *layer_parameters, keep = parameters
    H, W = images.shape[-2:]
    layers = _snow_layers((H, W), layer_parameters, setting)
    layers += layers.flip((-2, -1))  # the same layer again, turned by 180 degrees
    result = torch.empty(images.shape, dtype=torch.uint8, device=images.device)
    for piece in _pieces(images):
        x = images[piece].float()
        white = (x[:, 0] * (1.5 * GREY[0])).add_(x[:, 1], alpha=1.5 * GREY[1]).add_(x[:, 2], alpha=1.5 * GREY[2])
        white += 127.5  # 1.5 grey + 0.5
        for i in range(3):
            # keep x + (1 - keep) max(x, 1.5 grey + 0.5) + flakes
            scene = torch.maximum(x[:, i], white).mul_(1 - keep).add_(x[:, i], alpha=keep)
            _store(scene.to(layers.dtype).add_(layers[piece]), result[piece, i])
    return result


def _snow_layers(size: tuple[int, int], parameters: list[float], setting: Setting) -> Tensor:
    """Streaks of snow [B, H, W], whole levels 0 .. 255."""
    mean, sd, zoom, threshold, radius, sigma = parameters
    H, W = size
    is_arbitrary = setting.family == "arbitrary"
    flakes = _enlarged_normal(setting.draws, mean, sd, size, zoom)
    if not is_arbitrary:
        top, left = ((n - kept) // 2 for n, kept in zip(flakes.shape[-2:], size, strict=True))
        flakes = flakes[:, top : top + H, left : left + W]
    flakes = F.threshold(flakes, threshold, 0).clamp_(max=1)
    angles = setting.draws.uniform(-135, -45, ()).tolist()
    if is_arbitrary:
        return streak(flakes, int(radius), sigma, angles)[:, :H, :W].mul(255).round_()
    layers = streak(flakes.mul_(255).floor_(), int(radius), sigma, angles)
    return layers.mul_(257).add_(0.5).floor_().div_(257).floor_()  # by way of 16 bits, as published


def _enlarged_normal(draws: Draws, mean: float, sd: float, size: tuple[int, int], zoom: float) -> Tensor:
    """The centre of a normal field, enlarged `zoom` times, corners aligned; at least as large as `size`.

    The rest of the field is never seen, and so drawn only where the published stream is repeated.
    """
    if zoom == 1:
        return draws.normal(mean, sd, size)
    h, w = (math.ceil(n / zoom) for n in size)
    if draws.dtype == torch.float64:
        top, left = (size[0] - h) // 2, (size[1] - w) // 2
        centre = draws.normal(mean, sd, size)[:, top : top + h, left : left + w]
    else:
        centre = draws.normal(mean, sd, (h, w))
    enlarged = (round(h * zoom), round(w * zoom))
    return F.interpolate(centre[:, None], size=enlarged, mode="bilinear", align_corners=True)[:, 0]


def frost(images: Tensor, parameters: tuple[float, float], setting: Setting) -> Tensor:
    """A random part of one of the frost textures, laid over the picture.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: (scene, ice): their weights.
        setting: `frost_folder` replaces the generated textures; randomness, asked for the texture, then top, then left.
    """
    scene, ice = parameters
    H, W = images.shape[-2:]
    draws = setting.draws
    textures = frost_textures(setting.frost_folder)
    chosen = [textures[i] for i in draws.integers(0, len(textures), ()).tolist()]
    crops = _random_crops([texture.fitted((H, W), setting.family) for texture in chosen], (H, W), draws)
    result = torch.empty(images.shape, dtype=torch.uint8, device=images.device)
    for picture, crop, out in zip(images, crops, result, strict=True):
        layer = crop.to(images.device, draws.dtype).mul_(ice)
        _store(picture.to(draws.dtype).mul_(scene).add_(layer), out)
    return result


def _random_crops(textures: list[Tensor], size: tuple[int, int], draws: Draws) -> list[Tensor]:
    """A part of `size` of each texture [3, h, w]; the last position an axis is never drawn, as published."""
    H, W = size
    tops = draws.integers(0, [texture.shape[1] - H for texture in textures], ()).tolist()
    lefts = draws.integers(0, [texture.shape[2] - W for texture in textures], ()).tolist()
    return [t[:, top : top + H, left : left + W] for t, top, left in zip(textures, tops, lefts, strict=True)]


def fog(images: Tensor, parameters: tuple[float, float], setting: Setting) -> Tensor:
    """Clouds in front of the scene, which loses contrast so that the brightest value stays as it was.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: (amount, decay): density of the fog, and how fast its structure fades from coarse to fine.
        setting: randomness, see `plasma`; the map is the smallest power of two that covers the picture.
    """
    amount, decay = parameters
    H, W = images.shape[-2:]
    clouds = plasma(1 << (max(H, W) - 1).bit_length(), decay, setting.draws)[:, None, :H, :W]
    brightest = images.amax((1, 2, 3), keepdim=True).to(clouds.dtype)
    result = torch.empty(images.shape, dtype=torch.uint8, device=images.device)
    for piece in _pieces(images):
        # (x + amount P) max / (max + amount)
        contrast = brightest[piece] / (brightest[piece] + 255 * amount)
        x = images[piece].to(clouds.dtype).add_(clouds[piece], alpha=255 * amount).mul_(contrast)
        _store(x, result[piece])
    return result


def _pieces(images: Tensor) -> Iterator[slice]:
    """The batch in parts of a few pictures, on CPUs."""
    H, W = images.shape[-2:]
    count = max(1, PIECE // (H * W)) if images.device.type == "cpu" else len(images)
    return (slice(i, i + count) for i in range(0, len(images), count))


def _store(values: Tensor, out: Tensor) -> None:
    """Cut to 0 .. 255 and truncate; by way of 16 bits, which CPUs convert three times as fast. Overwrites `values`."""
    out.copy_(values.clamp_(0, 255).to(torch.int16))
