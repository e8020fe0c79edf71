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

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.corruptions.patches import IMAGENET_MEAN, IMAGENET_STD, occlude_patches
from robustvit.corruptions.registry import CORRUPTIONS, ChannelOrder, corrupt, corruption_names

__all__ = ["CLEAN", "GROUPS", "PATCH_SHARE", "Condition", "Damage", "conditions_of", "names_in", "patch_side"]

GROUPS = ("common15", "extra4", "all19", "noise", "blur", "weather", "digital")
JPEG_QUALITY = 85
"""Of the files of ImageNet-C; they are saved with optimised tables."""
PATCH_SHARE = 0.1


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
        patch: side of the patches that "patches" fills with noise, in pixels; see `patch_side`.
        mean, std: of the network's input, which is what the noise follows.
    """

    seed: int = 0
    jpeg: bool = False
    channel_order: ChannelOrder = "rgb"
    frost_folder: Path | None = None
    patch: int = 16
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def apply(self, images: Tensor, ids: Sequence[str], condition: Condition) -> Tensor:
        """uint8 [B, 3, H, W] -> the same under `condition`."""
        if condition == CLEAN:
            return images
        if condition.name == "patches":
            return occlude_patches(
                images,
                share=PATCH_SHARE,
                patch=self.patch,
                seed=self.seed,
                sample_ids=ids,
                mean=self.mean,  # type: ignore[arg-type]
                std=self.std,  # type: ignore[arg-type]
            )
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


def patch_side(size: tuple[int, int]) -> int:
    """Side of the patches that "patches" covers: 16 pixels (4 under 128), or the largest side below that fits the picture.

    Raises:
        ValueError: no side of 2 pixels or more divides both sides of the picture.
    """
    most = 16 if min(size) >= 128 else 4
    for side in range(most, 1, -1):
        if size[0] % side == 0 and size[1] % side == 0:
            return side
    raise ValueError(f"the suite 'patches' cannot divide {size[0]}x{size[1]} pixels into patches; give another size")


def conditions_of(suite: str, severities: Sequence[int] = SEVERITIES) -> tuple[Condition, ...]:
    """The conditions that a suite adds to the clean one.

    Args:
        suite: "clean", "patches", a corruption, one of `GROUPS`, or a suite of files whose corruptions are the common ones.
        severities: of the corruptions.
    """
    if suite == "clean":
        return ()
    if suite == "patches":
        return (Condition("patches"),)
    return tuple(Condition(name, severity) for name in names_in(suite) for severity in severities)


def names_in(suite: str) -> tuple[str, ...]:
    """The corruptions of a suite that has some."""
    if suite in CORRUPTIONS:
        return (suite,)
    return corruption_names(suite if suite in GROUPS else "common15")
