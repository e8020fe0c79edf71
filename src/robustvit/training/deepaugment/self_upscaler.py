"""`self-sr`: a small network learns to double the size of the training images, and is then broken anew for every sample.

Of the shape of DeepAugment's super-resolution network, smaller: one convolution, a body of residual blocks with a connection
around it, and an enlargement by pixel shuffling. An image is enlarged and averaged down to its own size:
nothing is lost but what the fault takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustvit.methods.base import sample_generator
from robustvit.training.deepaugment.distortion import convolve_each
from robustvit.training.deepaugment.filter_perturbations import (
    FEATURES_BEFORE,
    FEATURES_WITHIN,
    FILTERS,
    Perturbation,
    draw_index,
)
from robustvit.training.deepaugment.self_autoencoder import (
    STEPS,
    LearnedDistortion,
    draw_from,
    fit,
    learned_network,
    repeated_weights,
)

__all__ = ["SelfUpscaler", "Upscaler", "train_upscaler"]

FAULTS = 3
"""Layers of the body that are broken in every sample; the same may be drawn twice."""


class Upscaler(nn.Module):
    """[B, 3, H, W] in 0..1 -> [B, 3, 2H, 2W]."""

    def __init__(self, width: int = 32, blocks: int = 8) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2 * blocks))
        self.body_end = nn.Conv2d(width, width, 3, padding=1)
        self.tail = nn.Sequential(
            nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(width, 3, 3, padding=1)
        )

    def forward(self, pixels: Tensor) -> Tensor:
        z = x = self.head(pixels - 0.5)
        for first, second in zip(self.body[::2], self.body[1::2], strict=True):
            x = x + second(F.relu(first(x)))
        return self.finish(z, x)

    def block(self, index: int, x: Tensor, weights: Tensor) -> Tensor:
        """One residual block with filters of each sample's own [B, layers, O, I, 3, 3]."""
        body: Any = self.body
        first, second = (body[2 * index + k].bias.expand(len(x), -1) for k in (0, 1))
        return x + convolve_each(F.relu(convolve_each(x, weights[:, 2 * index], first)), weights[:, 2 * index + 1], second)

    def finish(self, z: Tensor, x: Tensor) -> Tensor:
        """From what entered the body and what left it to the enlarged image."""
        return self.tail(z + self.body_end(x)) + 0.5


class SelfUpscaler(LearnedDistortion):
    """Every sample gets three faults in the filters of the body, one in what enters it and one in its middle.

    Args:
        network: trained, see `train_upscaler`.
        mean, std, share: see `Distortion`.
    """

    kind = "self-sr"

    network: Upscaler

    @classmethod
    def learn(cls, images: Tensor, cache: Path | None, seed: int) -> Upscaler:
        return learned_network(Upscaler, train_upscaler, images, cache, seed)

    @torch.no_grad()
    def distort_all(self, pixels: Tensor, seeds: Sequence[int]) -> Tensor:
        network = self.network.to(pixels.device)
        generators = [sample_generator(seed, self.kind) for seed in seeds]
        z = x = network.head(pixels - 0.5)  # B C H W
        x = _each(FEATURES_BEFORE, x, generators)
        weights = repeated_weights(network.body, len(pixels))
        for of_sample, generator in zip(weights, generators, strict=True):
            for _ in range(FAULTS):
                layer = draw_index(len(of_sample), generator)
                of_sample[layer] = draw_from(FILTERS, generator)(of_sample[layer].cpu(), generator).clone()
        blocks = len(network.body) // 2
        middle = blocks // 3  # block 5 of the published 16
        skipped = torch.stack([torch.rand((), generator=g) < 1 / (len(FEATURES_WITHIN) + 1) for g in generators])
        for index in range(blocks):
            x = torch.where(_skips(skipped, index, middle).to(x.device), x, network.block(index, x, weights))
            if index == middle:
                x = torch.where(skipped[:, None, None, None].to(x.device), x, _each(FEATURES_WITHIN, x, generators))
        return F.avg_pool2d(network.finish(z, x), 2)


def _skips(skipped: Tensor, index: int, middle: int) -> Tensor:
    """[B, 1, 1, 1]: whether a sample leaves out this block: two after the middle, where it leaves out any."""
    return (skipped & (middle < index <= middle + 2))[:, None, None, None]


def _each(catalogue: Mapping[str, Perturbation], x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """Every sample's features with a fault of its own."""
    broken = [draw_from(catalogue, g)(features.cpu(), g) for features, g in zip(x, generators, strict=True)]
    return torch.stack(broken).to(x.device)


def train_upscaler(images: Tensor, seed: int = 0, steps: int = STEPS) -> Upscaler:
    """Learns the images from themselves at half the size, by mean squared error.

    Args:
        images: uint8 [n, 3, H, W].
        seed: of weights and batches.
        steps: of Adam, with batches of 16.
    """
    return fit(Upscaler, images, seed, steps, lambda network, pixels: F.mse_loss(network(F.avg_pool2d(pixels, 2)), pixels))
