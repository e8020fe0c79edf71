"""Noise2Net, the kind of DeepAugment that needs no training: a fresh random residual network for every sample."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from robustvit.methods.base import sample_generator
from robustvit.training.deepaugment.distortion import Distortion, convolve_each

__all__ = ["Noise2Net"]


class Noise2Net(Distortion):
    """Four random residual steps `x + e f(x)`, with another f for every step and sample.

    f widens to `PARTS` groups of `WIDTH` channels, sends them through a hierarchy of random convolutions, each part together
    with the result of the part before it, and narrows to 3 channels. Kernels reach 0 to 3 pixels. Normalisation is over each
    sample's own map: batch statistics would tie a sample to its batch. e ~ U(0.375, 0.75), here one per sample.
    """

    kind = "noise2net"
    STEPS, PARTS, WIDTH = 4, 4, 16
    STRENGTH = (0.375, 0.75)

    def distort_all(self, pixels: Tensor, seeds: Sequence[int]) -> Tensor:
        generators = [sample_generator(seed, self.kind) for seed in seeds]
        # the strength e belongs to images of unit variance: a pale one would drown in what is added
        brightness, contrast = pixels.mean((1, 2, 3), keepdim=True), _contrast(pixels)
        x = (pixels - brightness) / contrast
        low, high = self.STRENGTH
        drawn = [torch.rand((), generator=generator) for generator in generators]
        e = (low + (high - low) * torch.stack(drawn).to(x.device))[:, None, None, None]
        for _ in range(self.STEPS):
            x = x + e * self._random_function(x, generators)
        # as much contrast as before: most of what was added would otherwise end in black and white
        return x * (contrast / _contrast(x)) + brightness

    def _random_function(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """f(x): [B, 3, H, W] -> [B, 3, H, W] with mean 0 and variance 1 in every map."""
        wide = self.PARTS * self.WIDTH
        parts = convolve_each(x, _normals(generators, (wide, 3, 1, 1), x)).chunk(self.PARTS, 1)
        results = [parts[0]]
        for part in parts[1:]:
            reach = torch.stack([torch.randint(4, (), generator=generator) for generator in generators])
            kernels = _normals(generators, (self.WIDTH, self.WIDTH, 3, 3), x)
            results.append(F.relu(_normalise(_convolve_within(part + results[-1], kernels, reach))))
        return _normalise(convolve_each(torch.cat(results, 1), _normals(generators, (3, wide, 1, 1), x)))


def _convolve_within(x: Tensor, kernels: Tensor, reach: Tensor) -> Tensor:
    """Each sample with its 3x3 kernel, dilated by its reach of 1 to 3 pixels; reach 0 has the middle of the kernel only."""
    out = torch.empty_like(x)
    for distance in reach.unique().tolist():
        index = (reach == distance).nonzero()[:, 0].to(x.device)
        weights = kernels[index] if distance else kernels[index][..., 1:2, 1:2]
        out[index] = convolve_each(x[index], weights, dilation=max(distance, 1))
    return out


def _normals(generators: Sequence[torch.Generator], shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.stack([torch.randn(shape, generator=generator) for generator in generators]).to(like.device)


def _contrast(x: Tensor) -> Tensor:
    """[B, 1, 1, 1]: the standard deviation of each image, over channels and pixels."""
    return x.std((1, 2, 3), correction=0, keepdim=True).clamp(min=1e-3)


def _normalise(x: Tensor) -> Tensor:
    """Mean 0 and variance 1 of every map; a constant map becomes 0."""
    return (x - x.mean((2, 3), keepdim=True)) / (x.var((2, 3), correction=0, keepdim=True) + 1e-5).sqrt()
