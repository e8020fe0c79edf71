"""RVT's patch-wise augmentation: a second batch whose 16-pixel patches are cropped, made noisy and flipped, each its own way.

    loss = CE(f(x), y) + weight CE(f(aug(x)), y)

From "Towards Robust Vision Transformer" (Mao et al., CVPR 2022). It follows mixup and the like, on normalised images. The
releases differ from this in two ways: most discard the gradient of the second term, and their library draws the crop once for
a whole batch, at sides of whole pixels; here, as the text means it, each patch has its own draw and its own side, so that
patches of 4 pixels can be cropped as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustvit.corruptions.patches import clamp_to_pixels, patch_grid
from robustvit.methods.base import Method, MethodConfig, MethodContext, Step, sample_generator

__all__ = ["PatchAugment", "PatchAugmentConfig", "augment_patches"]


@dataclass(frozen=True)
class PatchAugmentConfig(MethodConfig):
    """Options of the augmentation.

    Attributes:
        weight: of the cross-entropy of the augmented images.
        patch_size: side of a patch in pixels.
        crop_prob, noise_prob, flip_prob: probability of each change, a patch.
        crop_scale: least share of the patch's area that a crop keeps.
        noise_std: of the Gaussian noise, in normalised units.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)  # patches of a map or a box cannot be moved by themselves

    weight: float = 1.0
    patch_size: int = 16
    crop_prob: float = 0.1
    noise_prob: float = 0.1
    flip_prob: float = 0.1
    crop_scale: float = 0.85
    noise_std: float = 0.01

    def __post_init__(self) -> None:
        for name in ("crop_prob", "noise_prob", "flip_prob"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)!r} is not a probability; give 0 to 1")
        if not 0 < self.crop_scale <= 1:
            raise ValueError(f"crop_scale={self.crop_scale!r} is not possible; give more than 0 and at most 1")

    def build(self, context: MethodContext) -> PatchAugment:
        patch_grid(context.img_size, self.patch_size)
        return PatchAugment(self)


class PatchAugment(Method):
    """Sends the augmented images through the network in a pass of their own."""

    name = "patch_augment"

    def __init__(self, config: PatchAugmentConfig) -> None:
        self.config = config

    def terms(self, step: Step) -> dict[str, Tensor]:
        augmented = augment_patches(step.images, step.seeds, self.config, step.mean, step.std)
        return {self.name: self.config.weight * step.loss(step.forward(augmented))}


@torch.no_grad()
def augment_patches(
    x: Tensor, seeds: Sequence[int], config: PatchAugmentConfig, mean: tuple[float, ...], std: tuple[float, ...]
) -> Tensor:
    """Crops, then noise, then flips of single patches, clamped to the range of pixels.

    Args:
        x: normalised images [B, 3, H, W].
        seeds: one per sample.
        config: probabilities and strengths.
        mean, std: of the normalisation.
    """
    B, C, H, W = x.shape
    p = config.patch_size
    rows, columns = patch_grid((H, W), p)
    patches = x.float().view(B, C, rows, p, columns, p).permute(0, 2, 4, 1, 3, 5).reshape(-1, C, p, p)  # B N C p p, flat
    draws, noise = _draw(seeds, rows * columns, C, config)
    cropped, noisy, flipped = (
        (draws[:, i] < chance).to(x.device) for i, chance in enumerate((config.crop_prob, config.noise_prob, config.flip_prob))
    )
    patches[cropped] = _resized_crop(patches[cropped], draws[:, 3:].to(x.device)[cropped], config.crop_scale)
    patches[noisy] += config.noise_std * noise.to(x.device)
    patches[flipped] = patches[flipped].flip(-1)
    result = patches.view(B, rows, columns, C, p, p).permute(0, 3, 1, 4, 2, 5).reshape(B, C, H, W)
    return clamp_to_pixels(result, mean, std).to(x.dtype)


def _draw(seeds: Sequence[int], patches: int, channels: int, config: PatchAugmentConfig) -> tuple[Tensor, Tensor]:
    """U[0, 1) [B N, 6] for crop?, noise?, flip?, area, top, left of a patch, and noise [M, C, p, p] for those that get it."""
    p, generators = config.patch_size, [sample_generator(seed, "patch augment") for seed in seeds]
    draws = torch.empty(len(generators), patches, 6)
    for row, generator in zip(draws, generators, strict=True):
        row.uniform_(generator=generator)
    counts = (draws[:, :, 1] < config.noise_prob).sum(1).tolist()
    noise = torch.empty(sum(counts), channels, p, p)
    for part, generator in zip(noise.split(counts), generators, strict=True):
        if len(part):
            part.normal_(generator=generator)
    return draws.flatten(0, 1), noise


def _resized_crop(patches: Tensor, draws: Tensor, least_area: float) -> Tensor:
    """A square of each patch [M, C, p, p], scaled back to its size bilinearly.

    Args:
        patches: [M, C, p, p].
        draws: U[0, 1) [M, 3]: area, top, left.
        least_area: the area is uniform between this share and 1.
    """
    p = patches.shape[-1]
    side = p * torch.sqrt(least_area + (1 - least_area) * draws[:, 0])
    start = draws[:, 1:] * (p - side)[:, None]  # M 2
    centres = (torch.arange(p, device=patches.device) + 0.5) / p
    at = (start[..., None] + side[:, None, None] * centres - 0.5).clamp(0, p - 1)  # M 2 p: where each pixel is read
    weights = (1 - (at[..., None] - torch.arange(p, device=patches.device)).abs()).clamp(min=0)  # M 2 p p
    with torch.autocast(patches.device.type, enabled=False):  # pixels keep their precision
        return weights[:, None, 0] @ patches @ weights[:, None, 1].transpose(-1, -2)
