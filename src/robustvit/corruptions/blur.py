"""Blur: Gaussian, defocus, zoom and motion.

All work picture by picture, in the cache, on grey levels 0 .. 255, and truncate. They compute in the dtype of the draws: float32,
where a result that is an integer but for rounding is taken for that integer, or float64, which repeats published files.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from robustvit.corruptions.filters import add_zoomed, gaussian_filter, streak, truncated
from robustvit.corruptions.glass import glass_blur
from robustvit.corruptions.parameters import Family
from robustvit.corruptions.pixels import Setting, to_bytes, to_unit

__all__ = ["defocus_blur", "gaussian_blur", "glass_blur", "motion_blur", "motion_blur_at", "zoom_blur"]


def gaussian_blur(images: Tensor, sigma: float, setting: Setting) -> Tensor:
    """Gaussian of standard deviation `sigma` pixels."""
    result = torch.empty_like(images, memory_format=torch.contiguous_format)
    for out, picture in zip(result.split(1), images.split(1), strict=True):
        out.copy_(truncated(gaussian_filter(picture.to(setting.draws.dtype), sigma)))
    return result


def motion_blur(images: Tensor, parameters: tuple[int, float], setting: Setting) -> Tensor:
    """A one-sided streak (radius, sigma) at a random angle of -45 .. 45 degrees."""
    angles = setting.draws.uniform(-45, 45, ()).tolist()
    return motion_blur_at(images, *parameters, angles, setting.family, dtype=setting.draws.dtype)


def motion_blur_at(
    images: Tensor, radius: int, sigma: float, angles: Sequence[float], family: Family, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Motion blur at given angles.

    Args:
        images: uint8 [B, 3, H, W].
        radius, sigma: of the streak, in pixels.
        angles: degrees, one a picture.
        family: all but `arbitrary` pass through 16-bit integers, as published.
        dtype: of the sums; float64 repeats the published bytes.
    """
    result = torch.empty_like(images, memory_format=torch.contiguous_format)
    for out, picture, angle in zip(result.split(1), images.split(1), angles, strict=True):
        c = streak(picture.to(dtype), radius, sigma, [angle])
        if family != "arbitrary":
            c = c.mul_(257).add_(0.5).floor_().div_(257).add_(1e-5)  # floor(floor(257 c + 0.5) / 257)
        out.copy_(truncated(c, nudge=0 if dtype == torch.float64 else None))
    return result


def defocus_blur(images: Tensor, parameters: tuple[float, float], setting: Setting) -> Tensor:
    kernel = _disk(*parameters).double()
    r = kernel.shape[0] // 2
    x = to_unit(images, torch.float64)
    x = F.pad(x, (r, r, r, r), mode="reflect")
    return to_bytes(F.conv2d(x.flatten(0, 1)[:, None], kernel[None, None]).view(images.shape))


def _disk(radius: float, alias: float) -> Tensor:
    reach = 8 if radius <= 8 else int(radius)
    offsets = torch.arange(-reach, reach + 1).float()
    disk = (offsets[:, None] ** 2 + offsets**2 <= radius**2).float()
    disk /= disk.sum()
    half = 1 if radius <= 8 else 2
    taps = torch.exp(-(torch.arange(-half, half + 1).double() ** 2) / (2 * alias**2))
    taps = (taps / taps.sum()).float()
    padded = F.pad(disk[None, None], (half,) * 4, mode="reflect")
    return F.conv2d(F.conv2d(padded, taps[None, None, None]), taps[None, None, :, None])[0, 0]


def zoom_blur(images: Tensor, zooms: Sequence[float], setting: Setting) -> Tensor:
    """The mean of the picture and its enlargements; computed in float32, as published."""
    result = torch.empty_like(images, memory_format=torch.contiguous_format)
    for out, picture in zip(result, images, strict=True):
        x = to_unit(picture)
        total = 2 * x  # itself and enlarged once
        add_zoomed(total, x, zooms[1:], centred=setting.family != "arbitrary")
        mean = total.div_(len(zooms) + 1)  # (x + sum over z of zoomclip(x, z)) / (len(Z) + 1)
        out.copy_(truncated(mean.clamp_(0, 1).mul_(255), nudge=0))
    return result
