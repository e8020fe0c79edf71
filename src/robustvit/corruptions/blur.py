"""Blur: Gaussian, defocus, zoom and motion.

All work image by image, in the cache, and truncate. They compute in the dtype of the draws: float32, or float64 where
published files are to be repeated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from robustvit.corruptions.filters import CACHED, NUDGE, ONE, add_zoomed, blur_bytes, streak, symmetric_filter
from robustvit.corruptions.glass import glass_blur
from robustvit.corruptions.parameters import Family
from robustvit.corruptions.pixels import Setting, empty_bytes, store_bytes, strips, to_unit
from robustvit.runtime.portable_math import gaussian_taps, sine_and_cosine

__all__ = ["defocus_blur", "gaussian_blur", "glass_blur", "motion_blur", "motion_blur_at", "zoom_blur"]

SHIFT = ONE.bit_length() - 1


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
        angles: degrees, one per image.
        family: all but `arbitrary` pass through 16-bit integers, as published.
        dtype: of the sums; float64 repeats the published bytes.
    """
    result = empty_bytes(images)
    # floor(floor(257 c + 0.5) / 257) = floor(c + 0.5 / 257)
    raised = 0.0 if family == "arbitrary" else 0.5 / 257
    for out, picture, angle in zip(result, images, angles, strict=True):
        # Level streaks follow rows, where images are flat most often: sums are whole, and their last bits decide.
        is_level = abs(sine_and_cosine(math.radians(angle))[0]) * 2 * radius <= 0.5
        if is_level or dtype == torch.float64:
            c = streak(picture.double(), radius, sigma, angle)
            if family != "arbitrary":
                c = c.mul_(257).add_(0.5).floor_().div_(257).add_(1e-5)
        else:
            c = streak(picture.int(), radius, sigma, angle).add_(round(ONE * raised)).bitwise_right_shift_(SHIFT)
        store_bytes(c, out, cut=False)
    return result


def defocus_blur(images: Tensor, parameters: tuple[float, float], setting: Setting) -> Tensor:
    """Correlation with a disk (radius) whose rim is smoothed by a small Gaussian (alias); the border is mirrored.

    The disk is summed in integers, as boxes of growing width, and then the sums are smoothed instead of the disk.
    """
    disk = _disk(*parameters)
    is_hardly_smoothed = 0.999 < disk.taps[len(disk.taps) // 2] < 1  # then results are almost integers over integers
    dtype = torch.float64 if is_hardly_smoothed else setting.draws.dtype
    nudge = NUDGE[dtype] if disk.weight >= 1 else -NUDGE[dtype]  # where flat areas end up
    scale = float(np.float32(1) / np.float32(disk.pixels))
    H, W = images.shape[-2:]
    result = empty_bytes(images)
    for out, picture in zip(result, images, strict=True):
        padded = _mirrored(picture, disk.margin, torch.int16)
        for strip in strips(H, len(picture) * W, CACHED):
            blurred = _sum_disk(padded[:, strip.start : strip.stop + 2 * disk.margin], disk, dtype)
            store_bytes(blurred.mul_(scale).add_(nudge), out[:, strip], cut=disk.weight > 1.001)
    return result


@dataclass(frozen=True, eq=False)
class Disk:
    """A disk of pixels with a smoothed rim.

    Attributes:
        reach: rows from the centre to the outermost.
        rows: half width -> the rows that are so wide.
        pixels: how many there are.
        taps: of the smoothing; one tap is none.
        weight: the sum of the smoothed disk. Beyond the edge of its grid the smoothing sees the disk mirrored; so where the
            disk fills its grid, the sum is over 1, as published.
        rim: what that adds and takes away above the centre, and the same below, left and right: tap -> half width ->
            (row, 1 or -1).
    """

    reach: int
    rows: dict[int, list[int]]
    pixels: int
    taps: list[float]
    weight: float
    rim: dict[int, dict[int, list[tuple[int, int]]]]

    @property
    def margin(self) -> int:
        """Pixels around an image that its blurred version depends on."""
        return self.reach + len(self.taps) // 2


@lru_cache(maxsize=32)
def _disk(radius: float, alias: float) -> Disk:
    reach, grid, m = (int(radius), 8, 1) if radius <= 8 else (int(radius), int(radius), 2)
    rows: dict[int, list[int]] = {}
    for y in range(-reach, reach + 1):
        rows.setdefault(math.isqrt(int(radius**2 - y * y)), []).append(y)  # x^2 + y^2 <= radius^2
    pixels = sum((2 * w + 1) * len(ys) for w, ys in rows.items())
    taps = list(gaussian_taps(m, alias))
    rim: dict[int, dict[int, list[tuple[int, int]]]] = {}
    for w, i in ((w, i) for w, ys in rows.items() for i in ys if i >= 0):
        for a in range(grid + 1, i + m + 1):  # lost beyond the grid
            rim.setdefault(a - i, {}).setdefault(w, []).append((a, -1))
        for a in range(2 * grid - i - m, grid + 1) if i < grid else ():  # mirrored from there
            rim.setdefault(2 * grid - i - a, {}).setdefault(w, []).append((a, 1))
    weight = _kernel_sum(rows, pixels, grid, taps)
    return Disk(reach, rows, pixels, taps if taps[m] < 1 else [1.0], weight, rim)


def _kernel_sum(rows: dict[int, list[int]], pixels: int, grid: int, taps: list[float]) -> float:
    """Of the smoothed disk in float32, as published: whether it is a little over or under 1 decides about flat areas."""
    kernel = np.zeros((2 * grid + 1, 2 * grid + 1), np.float32)
    for w, ys in rows.items():
        kernel[[grid + y for y in ys], grid - w : grid + w + 1] = np.float32(1) / np.float32(pixels)
    m = len(taps) // 2
    for axis in (0, 1):
        padded = np.pad(kernel, [(m, m) if a == axis else (0, 0) for a in (0, 1)], mode="reflect")
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(taps), axis)
        kernel = np.zeros_like(kernel)
        for k, tap in enumerate(taps):
            kernel = kernel + windows[..., k] * np.float32(tap)
    return math.fsum(kernel.ravel().tolist())


def _sum_disk(padded: Tensor, disk: Disk, dtype: torch.dtype) -> Tensor:
    """The sum over the smoothed disk around each pixel: int16 [C, H + 2 margin, W + 2 margin] -> [C, H, W]."""
    m = len(disk.taps) // 2
    C, H, W = (n - 2 * e for n, e in zip(padded.shape, (0, disk.margin, disk.margin), strict=True))
    values = torch.zeros(C, H + 2 * m, W + 2 * m, dtype=dtype, device=padded.device)
    total, count = torch.zeros(values.shape, dtype=torch.int16, device=padded.device), 0
    above = [torch.zeros(C, H, W + 2 * m, dtype=torch.int16, device=padded.device) for _ in disk.rim]
    for w, boxes in _boxes(padded, 2, max(disk.rows), disk.reach):
        for y in disk.rows.get(w, ()):
            if count + 2 * w + 1 > 2**15 // 255:  # more would not fit
                values += total.to(dtype)
                total.zero_()
                count = 0
            total += boxes[:, disk.reach + y : disk.reach + y + H + 2 * m]
            count += 2 * w + 1
        _add_rim(above, boxes, 1, disk, w)
    values += total.to(dtype)
    smoothed = symmetric_filter(values, 1, disk.taps)
    if not disk.rim:
        return symmetric_filter(smoothed, 2, disk.taps)
    beside = [torch.zeros(C, H + 2 * m, W, dtype=torch.int16, device=padded.device) for _ in disk.rim]
    for w, boxes in _boxes(padded, 1, max(w for terms in disk.rim.values() for w in terms), disk.reach):
        _add_rim(beside, boxes, 2, disk, w)
    at_sides = torch.zeros(C, H + 2 * m, W, dtype=dtype, device=padded.device)
    for tap, upper, side in zip(disk.rim, above, beside, strict=True):
        smoothed += upper.to(dtype).mul_(disk.taps[m + tap])
        at_sides += side.to(dtype).mul_(disk.taps[m + tap])
    return symmetric_filter(smoothed, 2, disk.taps).add_(symmetric_filter(at_sides, 1, disk.taps))


def _boxes(padded: Tensor, axis: int, widest: int, reach: int) -> Iterator[tuple[int, Tensor]]:
    """(w, sums over 2 w + 1 neighbours along the axis), w = 0 .. widest; `reach` values at each end only serve the sums."""
    n = padded.shape[axis] - 2 * reach
    boxes = padded.narrow(axis, reach, n).clone()
    yield 0, boxes
    for w in range(1, widest + 1):
        boxes += padded.narrow(axis, reach - w, n)
        boxes += padded.narrow(axis, reach + w, n)
        yield w, boxes


def _add_rim(totals: list[Tensor], boxes: Tensor, axis: int, disk: Disk, w: int) -> None:
    """To each total what belongs to its tap: boxes before and after each pixel, along the axis across that of the boxes."""
    for total, terms in zip(totals, disk.rim.values(), strict=True):
        for row, sign in terms.get(w, ()):
            for side in (-row, row):
                total.add_(boxes.narrow(axis, disk.margin + side, total.shape[axis]), alpha=sign)


def _mirrored(picture: Tensor, margin: int, dtype: torch.dtype) -> Tensor:
    """[C, H, W] with a margin in which it is mirrored, its edge not repeated."""
    C, H, W = picture.shape
    padded = torch.empty(C, H + 2 * margin, W + 2 * margin, dtype=dtype, device=picture.device)
    inside = padded[:, margin : margin + H]
    inside[..., margin : margin + W] = picture
    inside[..., :margin] = inside[..., margin + 1 : 2 * margin + 1].flip(-1)
    inside[..., margin + W :] = inside[..., W - 1 : margin + W - 1].flip(-1)
    padded[:, :margin] = inside[:, 1 : margin + 1].flip(1)
    padded[:, margin + H :] = inside[:, H - margin - 1 : H - 1].flip(1)
    return padded


def zoom_blur(images: Tensor, zooms: Sequence[float], setting: Setting) -> Tensor:
    """The mean of the image and its enlargements; computed in float32, as published."""
    result = empty_bytes(images)
    for out, picture in zip(result, images, strict=True):
        x = to_unit(picture)
        total = 2 * x  # itself and enlarged once
        add_zoomed(total, x, zooms[1:], centred=setting.family != "arbitrary")
        mean = total.div_(len(zooms) + 1)  # (x + sum over z of zoomclip(x, z)) / (len(Z) + 1)
        store_bytes(mean.mul_(255), out, cut=False)
    return result
