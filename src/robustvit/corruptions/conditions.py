"""Under which conditions a network is measured: clean, a corruption at a severity, patches of noise."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from robustvit.corruptions.patches import IMAGENET_MEAN, IMAGENET_STD, occlude_patches
from robustvit.corruptions.registry import ChannelOrder, corrupt

__all__ = ["CLEAN", "JPEG_QUALITY", "PATCHES", "PATCH_SHARE", "Condition", "apply_condition", "patch_side"]

JPEG_QUALITY = 85
"""Of the files of ImageNet-C; they are saved with optimised tables."""
PATCH_SHARE = 0.1


class Condition(NamedTuple):
    """What happens to an image before the network sees it.

    Attributes:
        name: "clean", a corruption, "patches", or an attack.
        severity: 1 to 5; 0 where there is none.
    """

    name: str
    severity: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.severity}" if self.severity else self.name


CLEAN = Condition("clean")
PATCHES = Condition("patches")


def apply_condition(
    images: Tensor,
    ids: Sequence[str],
    condition: Condition,
    *,
    seed: int = 0,
    jpeg: bool = False,
    channel_order: ChannelOrder = "rgb",
    frost_folder: Path | None = None,
    patch: int | None = None,
    mean: tuple[float, ...] = IMAGENET_MEAN,
    std: tuple[float, ...] = IMAGENET_STD,
) -> Tensor:
    """Images under a condition.

    Args:
        images: uint8 [B, 3, H, W].
        ids: of the samples; with the seed they decide what happens to each.
        condition: which.
        seed: of the randomness.
        jpeg: encode corrupted images as the files of ImageNet-C are (quality 85), and decode them.
        channel_order, frost_folder: see `corrupt`.
        patch: side of the patches that "patches" fills with noise, in pixels; None for `patch_side`.
        mean, std: of the network's input, which is what the noise of "patches" follows.
    """
    if condition == CLEAN:
        return images
    if condition == PATCHES:
        H, W = images.shape[-2:]
        side = patch_side((H, W)) if patch is None else patch
        noise = dict(mean=mean, std=std)
        return occlude_patches(images, share=PATCH_SHARE, patch=side, seed=seed, sample_ids=ids, **noise)  # type: ignore[arg-type]
    corrupted = corrupt(
        images,
        condition.name,
        condition.severity,
        seed=seed,
        sample_ids=ids,
        channel_order=channel_order,
        frost_folder=frost_folder,
    )
    return torch.stack([_through_jpeg(image) for image in corrupted]) if jpeg else corrupted


def _through_jpeg(image: Tensor) -> Tensor:
    file = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1)


def patch_side(size: tuple[int, int]) -> int:
    """Side of the patches that "patches" covers: 16 pixels (4 under 128), or the largest side below that fits the image.

    Raises:
        ValueError: no side of 2 pixels or more divides both sides of the image.
    """
    most = 16 if min(size) >= 128 else 4
    for side in range(most, 1, -1):
        if size[0] % side == 0 and size[1] % side == 0:
            return side
    raise ValueError(f"the suite 'patches' cannot divide {size[0]}x{size[1]} pixels into patches; give another size")
