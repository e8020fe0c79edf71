"""What the kinds of DeepAugment have in common: every second image goes through a network of its own (see `kinds.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Self

import torch.nn.functional as F
from torch import Tensor

from robustvit.data.normalisation import Normalisation
from robustvit.runtime.randomness import keyed_seed

__all__ = ["Distortion", "convolve_each"]

AT_ONCE = 16
"""Samples in one grouped convolution on an accelerator. On the CPU they go one by one: that is slower for small
images, faster for large ones, and makes the result of a sample the same to the last bit, whatever the batch."""


class Distortion(ABC):
    """Distorts a share of the samples, each by a network of its own.

    Whether and how a sample is distorted depends on its image and its seed alone, never on the rest of the batch.

    Args:
        normalisation: of the images.
        share: of the samples that are distorted.

    Attributes:
        kind: its name in `KINDS`.
    """

    kind: ClassVar[str]

    def __init__(self, normalisation: Normalisation, *, share: float = 0.5) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"share={share:g} of the samples is not possible; give a number from 0 to 1")
        self.normalisation, self.share = normalisation, share

    @classmethod
    def build(
        cls, normalisation: Normalisation, images: Callable[[], Tensor], *, cache: Path | None = None, seed: int = 0
    ) -> Self:
        """For a run.

        Args:
            normalisation: of the images.
            images: called where a network learns them first, for uint8 [n, 3, H, W] of the training set; a thousand is enough.
            cache: file (.safetensors) where that network is kept, and taken from if it has learned the same images.
            seed: of its training.
        """
        return cls(normalisation)

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
            pixels = self.normalisation.inverse(images[index].float())
            distorted = self.distort_all(pixels, [seeds[i] for i in index])
            out[index] = self.normalisation(distorted.clamp(0, 1)).to(images.dtype)
        return out

    def chosen(self, seeds: Sequence[int]) -> list[int]:
        """The positions of the samples that are distorted."""
        return [i for i, seed in enumerate(seeds) if keyed_seed(seed, "deepaugment") < self.share * 2**64]

    @abstractmethod
    def distort_all(self, pixels: Tensor, seeds: Sequence[int]) -> Tensor:
        """Distorts every image: float32 [B, 3, H, W] in 0..1 -> the same shape, not clamped."""


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
