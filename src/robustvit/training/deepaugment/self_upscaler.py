"""`self-sr`: a small network learns to double the size of the training images, and is then broken anew for every sample.

Of the shape of DeepAugment's super-resolution network, smaller: one convolution, a body of residual blocks with a connection
around it, and an enlargement by pixel shuffling. An image is enlarged and averaged down to its own size:
nothing is lost but what the fault takes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustvit.methods.base import sample_generator
from robustvit.training.deepaugment.filter_perturbations import FEATURES_BEFORE, FEATURES_WITHIN, FILTERS
from robustvit.training.deepaugment.learned import (
    ImageNetwork,
    LearnedDistortion,
    break_features,
    break_filters,
    own_filters,
    residual_block,
    residual_layers,
)

__all__ = ["SelfUpscaler", "Upscaler"]

FAULTS = 3
"""Layers of the body that are broken in every sample."""


class Upscaler(ImageNetwork):
    """[B, 3, H, W] in 0..1 -> [B, 3, 2H, 2W]."""

    def __init__(self, width: int = 32, blocks: int = 8) -> None:
        super().__init__()
        self.blocks = blocks
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = residual_layers(width, blocks)
        self.body_end = nn.Conv2d(width, width, 3, padding=1)
        self.tail = nn.Sequential(
            nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(width, 3, 3, padding=1)
        )

    def forward(self, pixels: Tensor) -> Tensor:
        z = x = self.head(pixels - 0.5)
        for index in range(self.blocks):
            x = residual_block(self.body, index, x)
        return self.finish(z, x)

    def finish(self, z: Tensor, x: Tensor) -> Tensor:
        """From what entered the body and what left it to the enlarged image."""
        return self.tail(z + self.body_end(x)) + 0.5

    def loss(self, pixels: Tensor) -> Tensor:
        return F.mse_loss(self(F.avg_pool2d(pixels, 2)), pixels)


class SelfUpscaler(LearnedDistortion):
    """Every sample gets three faults in the filters of the body, one in what enters it and one in its middle."""

    kind = "self-sr"
    network_class = Upscaler

    @torch.no_grad()
    def distort_all(self, pixels: Tensor, seeds: Sequence[int]) -> Tensor:
        network = self.network.to(pixels.device)
        generators = [sample_generator(seed, self.kind) for seed in seeds]
        z = network.head(pixels - 0.5)  # B C H W
        x = break_features(z, FEATURES_BEFORE, generators)
        filters = own_filters(network.body, len(pixels))
        break_filters(filters, FILTERS, generators, faults=FAULTS)
        middle = network.blocks // 3  # block 5 of the published 16
        skipped = torch.stack([torch.rand((), generator=g) < 1 / (len(FEATURES_WITHIN) + 1) for g in generators])
        for index in range(network.blocks):
            broken = residual_block(network.body, index, x, filters)
            x = torch.where(_skips(skipped, index, middle).to(x.device), x, broken)
            if index == middle:
                faulty = break_features(x, FEATURES_WITHIN, generators)
                x = torch.where(skipped[:, None, None, None].to(x.device), x, faulty)
        return F.avg_pool2d(network.finish(z, x), 2)


def _skips(skipped: Tensor, index: int, middle: int) -> Tensor:
    """[B, 1, 1, 1]: whether a sample leaves out this block: two after the middle, where it leaves out any."""
    return (skipped & (middle < index <= middle + 2))[:, None, None, None]
