"""Blur: Gaussian, defocus, zoom and motion.

All work picture by picture, in the cache, and truncate. They compute in the dtype of the draws: float32, or float64 where
published files are to be repeated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from robustvit.corruptions.filters import NUDGE, add_zoomed, blur_bytes, streak, symmetric_filter
from robustvit.corruptions.glass import glass_blur
from robustvit.corruptions.parameters import Family
from robustvit.corruptions.pixels import Setting, empty_bytes, store_bytes, strips, to_unit

__all__ = ["defocus_blur", "gaussian_blur", "glass_blur", "motion_blur", "motion_blur_at", "zoom_blur"]

TILE = 280
"""Rows and columns that the Fourier transform takes at a time."""


def gaussian_blur(images: Tensor, sigma: float, setting: Setting) -> Tensor:
    """Gaussian of standard deviation `sigma` pixels."""
    result = empty_bytes(images)
    for out, picture in zip(result, images, strict=True):
        blur_bytes(picture, sigma, setting.draws.dtype, out)
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
    result = empty_bytes(images)
    for out, picture, angle in zip(result.split(1), images.split(1), angles, strict=True):
        # Level streaks follow rows, where pictures are flat most often: sums are whole, and their last bits decide.
        is_level = abs(math.sin(math.radians(angle))) * 2 * radius <= 0.5
        c = streak(picture.to(torch.float64 if is_level else dtype), radius, sigma, [angle])
        if family != "arbitrary":
            c = c.mul_(257).add_(0.5).floor_().div_(257).add_(1e-5)  # floor(floor(257 c + 0.5) / 257)
        store_bytes(c if c.dtype == torch.float64 else c.add_(NUDGE[dtype]), out, cut=False)
    return result


def defocus_blur(images: Tensor, parameters: tuple[float, float], setting: Setting) -> Tensor:
    """Correlation with a disk (radius) whose rim is smoothed by a small Gaussian (alias); the border is mirrored.

    A small disk is summed in integers, as boxes of growing width, and then the sums are smoothed instead of the disk. A large
    one goes through the Fourier transform.
    """
    disk = _disk(*parameters)
    is_hardly_smoothed = 0.999 < disk.taps[len(disk.taps) // 2] < 1  # then results are almost integers over integers
    dtype = torch.float64 if is_hardly_smoothed else setting.draws.dtype
    nudge = NUDGE[dtype] if disk.kernel.sum(dtype=np.float64) >= 1 else -NUDGE[dtype]  # where flat areas end up
    correlate = _sum_boxes if disk.pixels * 255 < 2**15 else _multiply_spectra
    result = empty_bytes(images)
    for out, picture in zip(result, images, strict=True):
        correlate(picture, disk, dtype, nudge, out)
    return result


@dataclass(frozen=True, eq=False)
class Disk:
    """A disk of pixels with a smoothed rim.

    Attributes:
        reach: rows from the centre to the outermost.
        rows: half width -> the rows that are so wide.
        pixels: how many there are.
        taps: of the smoothing; one tap is none.
        kernel: the smoothed disk on its grid, float32. Beyond the edge of the grid the smoothing sees the disk mirrored; so
            where the disk fills its grid, the sum is over 1, as published.
    """

    reach: int
    rows: dict[int, list[int]]
    pixels: int
    taps: list[float]
    kernel: np.ndarray


@lru_cache(maxsize=32)
def _disk(radius: float, alias: float) -> Disk:
    reach, grid, m = (int(radius), 8, 1) if radius <= 8 else (int(radius), int(radius), 2)
    rows: dict[int, list[int]] = {}
    for y in range(-reach, reach + 1):
        rows.setdefault(math.isqrt(int(radius**2 - y * y)), []).append(y)  # x^2 + y^2 <= radius^2
    pixels = sum((2 * w + 1) * len(ys) for w, ys in rows.items())
    g = [math.exp(-(a * a) / (2 * alias**2)) for a in range(-m, m + 1)]
    taps = [tap / sum(g) for tap in g]
    kernel = np.zeros((2 * grid + 1, 2 * grid + 1), np.float32)
    for w, ys in rows.items():
        kernel[[grid + y for y in ys], grid - w : grid + w + 1] = np.float32(1) / np.float32(pixels)
    for axis in (0, 1):
        padded = np.pad(kernel, [(m, m) if a == axis else (0, 0) for a in (0, 1)], mode="reflect")
        kernel = np.lib.stride_tricks.sliding_window_view(padded, len(taps), axis) @ np.array(taps, np.float32)
    return Disk(reach, rows, pixels, taps if taps[m] < 1 else [1.0], kernel)


def _sum_boxes(picture: Tensor, disk: Disk, dtype: torch.dtype, nudge: float, out: Tensor) -> None:
    """For a disk whose rim is inside its grid and whose sum fits 16 bits."""
    m, reach = len(disk.taps) // 2, disk.reach
    H, W = (n + 2 * m for n in picture.shape[-2:])
    padded = _mirrored(picture, reach + m, torch.int16)
    total = padded.new_zeros(len(picture), H, W)
    box = padded[..., reach : reach + W].clone()  # sums over -w .. w along a row
    for w in range(max(disk.rows) + 1):
        if w > 0:
            box += padded[..., reach - w : reach - w + W]
            box += padded[..., reach + w : reach + w + W]
        for y in disk.rows.get(w, ()):
            total += box[:, reach + y : reach + y + H]
    scale = float(np.float32(1) / np.float32(disk.pixels))
    for strip in strips(H - 2 * m, len(picture) * W):
        values = total[:, strip.start : strip.stop + 2 * m].to(dtype)
        smoothed = symmetric_filter(symmetric_filter(values, -2, disk.taps), -1, disk.taps)
        store_bytes(smoothed.mul_(scale).add_(nudge), out[:, strip], cut=False)


def _multiply_spectra(picture: Tensor, disk: Disk, dtype: torch.dtype, nudge: float, out: Tensor) -> None:
    """For any disk; tile by tile, to stay in the cache."""
    H, W = picture.shape[-2:]
    margin = len(disk.kernel) // 2
    h, w = (-(-n // math.ceil(n / TILE)) for n in (H, W))
    size = (_fast_length(h + 2 * margin), _fast_length(w + 2 * margin))
    room = ((H - 1) // h * h + size[0], (W - 1) // w * w + size[1])
    padded = _mirrored(picture, margin, dtype, room)
    kernel = _spectrum(disk, size, dtype, picture.device)
    for top in range(0, H, h):
        for left in range(0, W, w):
            tile = padded[:, top : top + size[0], left : left + size[1]]
            blurred = torch.fft.irfft2(torch.fft.rfft2(tile).mul_(kernel), s=size)
            kept = out[:, top : top + h, left : left + w]
            store_bytes(blurred[:, : kept.shape[1], : kept.shape[2]].add_(nudge), kept)  # what wraps around lies beyond


@lru_cache(maxsize=8)
def _spectrum(disk: Disk, size: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    kernel = torch.from_numpy(disk.kernel).to(device, dtype)
    return torch.fft.rfft2(kernel, s=size).conj().resolve_conj()  # conjugate: correlation, not convolution


def _fast_length(n: int) -> int:
    """The next length 16 * 2^a * 3^b * 5^c: its transforms are fast."""
    length = -(-n // 16)
    while length not in _smooth_numbers():
        length += 1
    return 16 * length


@lru_cache(maxsize=1)
def _smooth_numbers() -> frozenset[int]:
    return frozenset(2**a * 3**b * 5**c for a in range(16) for b in range(10) for c in range(7))


def _mirrored(picture: Tensor, margin: int, dtype: torch.dtype, room: tuple[int, int] | None = None) -> Tensor:
    """[C, H, W] with a margin in which it is mirrored, its edge not repeated; then zeros, up to the size `room`."""
    C, H, W = picture.shape
    h, w = H + 2 * margin, W + 2 * margin
    padded = torch.empty(C, *(room or (h, w)), dtype=dtype, device=picture.device)
    padded[:, h:], padded[:, :h, w:] = 0, 0
    inside = padded[:, margin : margin + H, :w]
    inside[..., margin : margin + W] = picture
    inside[..., :margin] = inside[..., margin + 1 : 2 * margin + 1].flip(-1)
    inside[..., margin + W :] = inside[..., W - 1 : margin + W - 1].flip(-1)
    padded[:, :margin, :w] = inside[:, 1 : margin + 1].flip(1)
    padded[:, margin + H : h, :w] = inside[:, H - margin - 1 : H - 1].flip(1)
    return padded


def zoom_blur(images: Tensor, zooms: Sequence[float], setting: Setting) -> Tensor:
    """The mean of the picture and its enlargements; computed in float32, as published."""
    result = empty_bytes(images)
    for out, picture in zip(result, images, strict=True):
        x = to_unit(picture)
        total = 2 * x  # itself and enlarged once
        add_zoomed(total, x, zooms[1:], centred=setting.family != "arbitrary")
        mean = total.div_(len(zooms) + 1)  # (x + sum over z of zoomclip(x, z)) / (len(Z) + 1)
        store_bytes(mean.mul_(255), out, cut=False)
    return result
