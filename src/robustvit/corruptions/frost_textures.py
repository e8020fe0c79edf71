"""Textures of frost: generated ones, which stand in for the published photographs, or the user's own photographs.

The photographs of the published program have no stated licence and are not distributed here. The generated textures have
their sizes and statistics, and crystals of the same kinds: see `frost_generation`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from robustvit.corruptions.frost_generation import generate
from robustvit.corruptions.parameters import Family
from robustvit.runtime.image_files import UnreadablePictureError, read_image

__all__ = ["Texture", "frost_textures"]

PUBLISHED = ("frost1", "frost2", "frost3", "frost4", "frost5")
"""Equally probable; a sixth is listed in the published program but never drawn."""
GENERATED = ("frost1", "frost2", "frost2", "frost4", "frost5")
"""The published frost3 has the pixels of frost2."""
SHRINKING: dict[Family, float] = {"cifar": 0.2, "tiny": 0.3}
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}


@dataclass(frozen=True)
class Texture:
    """One texture of frost: generated (`name` of the photograph it imitates) or read from `path`.

    `stamp` has size and time of that file: what was read once is kept until they change.
    """

    name: str
    path: Path | None = None
    stamp: tuple[int, int] = (0, 0)

    def fitted(self, size: tuple[int, int], family: Family) -> Tensor:
        """uint8 [3, h, w], scaled by the rule of the family and larger than `size` (H, W), to take a random part of."""
        return _fitted(self, size, family)


def frost_textures(folder: Path | None = None) -> tuple[Texture, ...]:
    """The textures to draw from with equal probability.

    Args:
        folder: of photographs; frost1 to frost5 (.png or .jpg) as published, else all images in it. None: generated ones.
    """
    if folder is None:
        return tuple(Texture(name) for name in GENERATED)
    return _photographs(Path(folder))


def _photographs(folder: Path) -> tuple[Texture, ...]:
    if not folder.is_dir():
        raise FileNotFoundError(f"frost_folder {folder} is not a folder; give one with frost1.png ... frost5.jpg or others")
    images = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix.lower() in SUFFIXES}
    if not images:
        raise FileNotFoundError(f"no images in frost_folder {folder}; it needs frost1.png ... frost5.jpg, or any images")
    names = PUBLISHED if set(PUBLISHED) <= set(images) else tuple(images)
    statuses = {name: images[name].stat() for name in names}
    return tuple(Texture(name, images[name], (statuses[name].st_size, statuses[name].st_mtime_ns)) for name in names)


@lru_cache(maxsize=32)
def _fitted(texture: Texture, size: tuple[int, int], family: Family) -> Tensor:
    pixels = generate(texture.name) if texture.path is None else _read(texture.path, texture.stamp)
    if family == "arbitrary":
        pixels = _enlarge_to_cover(pixels, size)
    elif family in SHRINKING:
        pixels = _shrink(pixels, SHRINKING[family])
    h, w = pixels.shape[:2]
    if h <= size[0] or w <= size[1]:
        raise ValueError(
            f"the frost texture {texture.path or texture.name} has {h}x{w} pixels for the family {family!r}; "
            f"it needs more than {size[0]}x{size[1]}: use a larger photograph"
        )
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


@lru_cache(maxsize=8)
def _read(path: Path, stamp: tuple[int, int]) -> np.ndarray:
    try:
        return np.array(read_image(path))
    except UnreadablePictureError as error:
        raise ValueError(f"the frost texture {path} cannot be read: {error}") from error


def _enlarge_to_cover(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """1.1 times as large as it is, or as it would have to be to cover `size`; bicubic."""
    h, w = pixels.shape[:2]
    factor = 1.1 * max(1.0, size[0] / h, size[1] / w)
    return np.array(Image.fromarray(pixels).resize((math.ceil(factor * w), math.ceil(factor * h)), Image.Resampling.BICUBIC))


def _shrink(pixels: np.ndarray, factor: float) -> np.ndarray:
    """Bilinear between the two nearest pixels an axis, without averaging over those left out."""
    values = pixels.astype(np.float64)
    for axis in (0, 1):
        n = values.shape[axis]
        position = ((np.arange(round(n * factor)) + 0.5) / factor - 0.5).clip(0, n - 1)
        low = np.floor(position).astype(int)
        shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
        t = (position - low).reshape(shape)
        values = values.take(low, axis) * (1 - t) + values.take((low + 1).clip(max=n - 1), axis) * t
    return np.rint(values).astype(np.uint8)
