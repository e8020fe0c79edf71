"""Snow, frost, fog and spatter: weather between the camera and the scene.

Values are on the scale 0 .. 255 throughout, cut there and truncated, not rounded, as published.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from robustvit.corruptions.filters import enlarged, streak
from robustvit.corruptions.frost_textures import frost_textures
from robustvit.corruptions.pixels import Setting, empty_bytes, store_bytes, strips
from robustvit.corruptions.plasma import plasma
from robustvit.corruptions.spatter import spatter
from robustvit.runtime.randomness import Draws

__all__ = ["fog", "frost", "snow", "spatter"]

GREY = (0.299, 0.587, 0.114)
FINE = 2**12
"""Steps of the light of a flake, between nothing and all."""


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
    result = empty_bytes(images)
    for picture, layer, out in zip(images, _snow_layers((H, W), layer_parameters, setting), result, strict=True):
        flakes = layer + layer.flip((-2, -1))  # the same layer again, turned by 180 degrees
        for strip in strips(H, 3 * W):
            x = picture[:, strip].float()
            white = (x[0] * (1.5 * GREY[0])).add_(x[1] * (1.5 * GREY[1])).add_(x[2] * (1.5 * GREY[2]))
            white += 127.5  # 1.5 grey + 0.5
            # keep x + (1 - keep) max(x, 1.5 grey + 0.5) + flakes
            scene = torch.maximum(x, white).mul_(1 - keep).add_(x.mul_(keep))
            store_bytes(scene.to(flakes.dtype).add_(flakes[strip]), out[:, strip])
    return result


def _snow_layers(size: tuple[int, int], parameters: list[float], setting: Setting) -> Iterator[Tensor]:
    """For each image in turn streaks of snow [H, W], whole levels 0 .. 255."""
    mean, sd, zoom, threshold, radius, sigma = parameters
    H, W = size
    is_arbitrary = setting.family == "arbitrary"
    fields = _centres(setting.draws, mean, sd, size, zoom)
    angles = setting.draws.uniform(-135, -45, ()).tolist()
    for field, angle in zip(fields, angles, strict=True):
        flakes = _enlarged(field, zoom)
        if not is_arbitrary:
            top, left = ((n - kept) // 2 for n, kept in zip(flakes.shape[-2:], size, strict=True))
            flakes = flakes[:, top : top + H, left : left + W]
        flakes = F.threshold(flakes, threshold, 0).clamp_(max=1)
        if is_arbitrary:
            yield _streak(flakes.mul_(FINE), int(radius), sigma, angle)[0, :H, :W].mul_(255 / FINE).round_()
        else:
            layer = _streak(flakes.mul_(255).floor_(), int(radius), sigma, angle)[0]
            yield layer.mul_(257).add_(0.5).floor_().div_(257).floor_()  # by way of 16 bits, as published


def _streak(flakes: Tensor, radius: int, sigma: float, angle: float) -> Tensor:
    """`streak`, for float32 by way of whole numbers up to `FINE`."""
    if flakes.dtype == torch.float64:
        return streak(flakes, radius, sigma, angle)
    one = 2**31 // (2 * FINE)
    return streak(flakes.to(torch.int32), radius, sigma, angle, one=one).to(flakes.dtype).mul_(1 / one)


def _centres(draws: Draws, mean: float, sd: float, size: tuple[int, int], zoom: float) -> Tensor:
    """What will be seen of a normal field [B, *size] after enlarging it; the rest is drawn only in the published stream."""
    h, w = (math.ceil(n / zoom) for n in size)
    if draws.dtype != torch.float64:
        return draws.normal(mean, sd, (h, w))
    top, left = (size[0] - h) // 2, (size[1] - w) // 2
    return draws.normal(mean, sd, size)[:, top : top + h, left : left + w]


def _enlarged(field: Tensor, zoom: float) -> Tensor:
    """[h, w] -> [1, h * zoom, w * zoom], bilinear, corners aligned."""
    if zoom == 1:
        return field[None]
    return enlarged(field[None], (round(field.shape[0] * zoom), round(field.shape[1] * zoom)))


def frost(images: Tensor, parameters: tuple[float, float], setting: Setting) -> Tensor:
    """A random part of one of the frost textures, laid over the image.

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
    result = empty_bytes(images)
    for picture, crop, out in zip(images, crops, result, strict=True):
        crop = crop.to(images.device)
        for strip in strips(H, 3 * W):
            layer = crop[:, strip].to(draws.dtype).mul_(ice)
            store_bytes(picture[:, strip].to(draws.dtype).mul_(scene).add_(layer), out[:, strip])
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
        setting: randomness, see `plasma`; the map is the smallest power of two that covers the image.
    """
    amount, decay = parameters
    H, W = images.shape[-2:]
    side = 1 << (max(H, W) - 1).bit_length()
    brightest = images.amax((1, 2, 3)).tolist()
    result = empty_bytes(images)
    for picture, white, clouds, out in zip(images, brightest, plasma(side, decay, setting.draws, rows=H), result, strict=True):
        contrast = white / (white + 255 * amount)
        layer = clouds.mul_(255 * amount * contrast)[:, :W]
        for strip in strips(H, 3 * W):  # (x + amount P) max / (max + amount)
            values = picture[:, strip].to(clouds.dtype).mul_(contrast).add_(layer[strip])
            store_bytes(values, out[:, strip], cut=False)  # at most max
    return result
