"""What the kinds of DeepAugment have in common: every second image goes through a network of its own (see `kinds.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from robustvit.runtime.randomness import keyed_seed

__all__ = ["Distortion", "DistortionKind", "convolve_each"]

DistortionKind = Literal["noise2net", "self-cae", "self-sr"]
AT_ONCE = 16
"""Samples in one grouped convolution on an accelerator. On the CPU they go one by one: that is slower for small
images, faster for large ones, and makes the result of a sample the same to the last bit, whatever the batch."""


class Distortion(ABC):
    """Distorts a share of the samples, each by a network of its own.

    Whether and how a sample is distorted depends on its image and its seed alone, never on the rest of the batch.

    Args:
        mean, std: of the normalisation of the images.
        share: of the samples that are distorted.
    """

    kind: DistortionKind

    def __init__(self, mean: Sequence[float], std: Sequence[float], *, share: float = 0.5) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"share={share:g} of the samples is not possible; give a number from 0 to 1")
        self.mean, self.std, self.share = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None], share

    def __call__(self, images: Tensor, seeds: Sequence[int]) -> Tensor:
        """The images, some of them distorted and clamped to the range of pixels.

        Args:
            images: normalised float [B, 3, H, W].
            seeds: one per sample, of (run seed, epoch, sample id).

        Raises:
            ValueError: the images are not float [B, 3, H, W], or there is not a seed for each.
        """
        if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
            raise ValueError(f"images must be normalised float [B, 3, H, W], got {images.dtype} {list(images.shape)}")
        if len(seeds) != len(images):
            raise ValueError(f"{len(images)} images need as many seeds, got {len(seeds)}")
        out = images.clone()
        chosen = self.chosen(seeds)
        at_once = 1 if images.device.type == "cpu" else AT_ONCE
        for start in range(0, len(chosen), at_once):
            index = chosen[start : start + at_once]
            distorted = self.distort_all(self.to_pixels(images[index]), [seeds[i] for i in index])
            out[index] = self.from_pixels(distorted.clamp(0, 1), images)
        return out

    def chosen(self, seeds: Sequence[int]) -> list[int]:
        """The positions of the samples that are distorted."""
        return [i for i, seed in enumerate(seeds) if keyed_seed(seed, "deepaugment") < self.share * 2**64]

    @abstractmethod
    def distort_all(self, pixels: Tensor, seeds: Sequence[int]) -> Tensor:
        """Distorts every image: float32 [B, 3, H, W] in 0..1 -> the same shape, not clamped."""

    def to_pixels(self, images: Tensor) -> Tensor:
        return images.float() * self.std.to(images.device) + self.mean.to(images.device)

    def from_pixels(self, pixels: Tensor, like: Tensor) -> Tensor:
        return ((pixels - self.mean.to(like.device)) / self.std.to(like.device)).to(like.dtype)


def convolve_each(x: Tensor, weights: Tensor, biases: Tensor | None = None, *, dilation: int = 1) -> Tensor:
    """Convolves every sample with weights of its own, keeping the size; edges are repeated, so that no frame appears.

    Args:
        x: [B, I, H, W].
        weights: [B, O, I, k, k], k odd.
        biases: [B, O].

    Returns:
        [B, O, H, W].
    """
    B = len(weights)
    margin = dilation * (weights.shape[-1] // 2)
    padded = F.pad(x, [margin] * 4, mode="replicate") if margin else x
    bias = None if biases is None else biases.flatten()
    # B I H W -> 1 (B I) H W: one group a sample
    out = F.conv2d(padded.flatten(0, 1)[None], weights.flatten(0, 1), bias, dilation=dilation, groups=B)
    return out.unflatten(1, (B, -1))[0]
