"""Under which conditions a network is measured: clean, a corruption at a severity, patches of noise."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from robustvit.corruptions.patches import occlude_patches
from robustvit.corruptions.registry import ChannelOrder, corrupt, corruption_names

__all__ = ["CLEAN", "GROUPS", "Condition", "Damage", "conditions_of"]

GROUPS = ("common15", "extra4", "all19", "noise", "blur", "weather", "digital")
JPEG_QUALITY = 85
"""Of the files of ImageNet-C; they are saved with optimised tables."""


@dataclass(frozen=True, order=True)
class Condition:
    """What happens to a picture before the network sees it.

    Attributes:
        name: "clean", a corruption, or "patches".
        severity: 1 to 5; 0 where there is none.
    """

    name: str
    severity: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.severity}" if self.severity else self.name


CLEAN = Condition("clean")


@dataclass(frozen=True)
class Damage:
    """How conditions are made.

    Attributes:
        seed: of the randomness; with the id of a picture it decides what happens to it.
        jpeg: encode corrupted pictures as the files of ImageNet-C are (quality 85), and decode them.
        channel_order: see `corrupt`.
        frost_folder: see `corrupt`.
        patch: side of the patches that "patches" fills with noise, in pixels; None takes 16, on pictures under 128 pixels 4.
        patch_share: share of the patches that it fills.
    """

    seed: int = 0
    jpeg: bool = False
    channel_order: ChannelOrder = "rgb"
    frost_folder: Path | None = None
    patch: int | None = None
    patch_share: float = 0.1

    def apply(self, images: Tensor, ids: Sequence[str], condition: Condition) -> Tensor:
        """uint8 [B, 3, H, W] -> the same under `condition`."""
        if condition == CLEAN:
            return images
        if condition.name == "patches":
            patch = self.patch or (16 if min(images.shape[-2:]) >= 128 else 4)
            return occlude_patches(images, share=self.patch_share, patch=patch, seed=self.seed, sample_ids=ids)
        spoiled = corrupt(
            images,
            condition.name,
            condition.severity,
            seed=self.seed,
            sample_ids=ids,
            channel_order=self.channel_order,
            frost_folder=self.frost_folder,
        )
        return torch.stack([_through_jpeg(picture) for picture in spoiled]) if self.jpeg else spoiled


def _through_jpeg(picture: Tensor) -> Tensor:
    file = io.BytesIO()
    Image.fromarray(picture.permute(1, 2, 0).numpy()).save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1)


def conditions_of(suite: str) -> tuple[Condition, ...]:
    """The conditions that a suite adds to the clean one."""
    if suite == "clean":
        return ()
    if suite == "patches":
        return (Condition("patches"),)
    names = corruption_names("common15" if suite == "imagenet-c" else suite)
    return tuple(Condition(name, severity) for name in names for severity in range(1, 6))
