"""timm's random erasing: a box of 2 to 33 % of a normalised image becomes noise N(0, 1), for each sample from its seed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.keyed_timm import keyed_copy, reseed

__all__ = ["erase"]


def erase(images: Tensor, seeds: Sequence[int], probability: float) -> Tensor:
    """Erases in place, and returns the images.

    Args:
        images: normalised float [B, 3, H, W].
        seeds: one per sample.
        probability: of erasing an image.
    """
    eraser = _eraser(str(images.device))
    for image, seed in zip(images, seeds, strict=True):
        if seed >> 48 < probability * 2**16:  # 16 bits of the hash that cropping does not use: a coin that costs nothing
            reseed(keyed_seed(seed, "erasing"))
            eraser(image)
    return images


@lru_cache(maxsize=8)
def _eraser(device: str) -> Any:
    timm_erasing = keyed_copy("random_erasing")
    vars(timm_erasing)["_get_pixels"] = _noise  # timm's own draws from the generator of the device
    return timm_erasing.RandomErasing(1.0, mode="pixel", device=device)


def _noise(per_pixel: bool, rand_color: bool, size: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensor:
    """N(0, 1) from the generator of the sample, always drawn on the CPU so that every device sees the same."""
    generator = torch.Generator().manual_seed(keyed_copy("random_erasing").random.getrandbits(63))
    return torch.randn(size, generator=generator).to(device=device, dtype=dtype)
