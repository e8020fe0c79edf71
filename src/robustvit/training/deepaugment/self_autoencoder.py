"""`self-cae`: a small autoencoder learns the training images, and is then broken anew for every sample.

Of the shape of DeepAugment's compressive autoencoder, smaller: two convolutions of stride 2, residual blocks, a code of few
channels in -1..1, and the way back. The published code is also rounded to one bit per value; on small images too
little would be left of them, so this one is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustvit.methods.base import sample_generator
from robustvit.training.deepaugment.filter_perturbations import CODE, FILTERS_OF_AUTOENCODER
from robustvit.training.deepaugment.learned import (
    ImageNetwork,
    LearnedDistortion,
    break_features,
    break_filters,
    own_filters,
    residual_block,
    residual_layers,
)

__all__ = ["Autoencoder", "SelfAutoencoder"]


class Autoencoder(ImageNetwork):
    """[B, 3, H, W] in 0..1 -> code [B, 16, H/4, W/4] in -1..1 -> [B, 3, H, W]; H and W are multiples of 4."""

    def __init__(self, widths: tuple[int, int] = (32, 64), code: int = 16, blocks: int = 3) -> None:
        super().__init__()
        self.blocks = blocks
        first, second = widths
        self.down = nn.Sequential(nn.Conv2d(3, first, 5, 2, 2), nn.ReLU(), nn.Conv2d(first, second, 5, 2, 2), nn.ReLU())
        self.encoder = residual_layers(second, blocks)
        self.to_code = nn.Conv2d(second, code, 5, padding=2)
        self.from_code = nn.Conv2d(code, second, 3, padding=1)
        self.decoder = residual_layers(second, blocks)
        self.up = nn.Sequential(
            nn.ConvTranspose2d(second, first, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(first, 3, 4, 2, 1), nn.Tanh()
        )

    def encode(self, pixels: Tensor) -> Tensor:
        x = self.down(2 * pixels - 1)
        for index in range(self.blocks):
            x = residual_block(self.encoder, index, x)
        return self.to_code(x).tanh()

    def decode(self, code: Tensor, filters: Tensor | None = None) -> Tensor:
        """The image of a code.

        Args:
            code: [B, 16, h, w].
            filters: of the decoder, each sample's own; see `residual_block`.
        """
        x = self.from_code(code)
        for index in range(self.blocks):
            x = residual_block(self.decoder, index, x, filters)
        return self.up(x) / 2 + 0.5

    def forward(self, pixels: Tensor) -> Tensor:
        return self.decode(self.encode(pixels))

    def loss(self, pixels: Tensor) -> Tensor:
        return F.mse_loss(self(pixels), pixels)


class SelfAutoencoder(LearnedDistortion):
    """Every sample gets one broken layer in the decoder, and one fault in its code."""

    kind = "self-cae"
    network_class = Autoencoder

    @torch.no_grad()
    def distort_all(self, pixels: Tensor, seeds: Sequence[int]) -> Tensor:
        size = (pixels.shape[-2], pixels.shape[-1])
        network = self.network.to(pixels.device)
        generators = [sample_generator(seed, self.kind) for seed in seeds]
        filters = own_filters(network.decoder, len(pixels))
        break_filters(filters, FILTERS_OF_AUTOENCODER, generators)
        code = network.encode(_resized(pixels, tuple(-(-side // 4) * 4 for side in size)))
        return _resized(network.decode(break_features(code, CODE, generators), filters), size)


def _resized(pixels: Tensor, size: tuple[int, ...]) -> Tensor:
    if tuple(pixels.shape[-2:]) == size:
        return pixels
    return F.interpolate(pixels, size, mode="bilinear", antialias=True)
