"""DeepAugment without foreign weights: every second picture goes through a broken or random image-to-image network.

Here are what its three kinds have in common, and the kind that needs no training: Noise2Net, a fresh random residual network
for every sample (`afat.md` 7). `self-cae` and `self-sr` are in `self_autoencoder` and `self_upscaler`. Results belong under
these names: they are not those of the published DeepAugment, whose networks are not available.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from robustvit.corruptions.randomness import keyed_seed
from robustvit.methods.base import sample_generator

__all__ = ["Distortion", "DistortionKind", "Noise2Net", "build_distortion", "convolve_each"]

DistortionKind = Literal["noise2net", "self-cae", "self-sr"]
AT_ONCE = 16
"""Samples in one grouped convolution on an accelerator. On the CPU they go one by one: that is slower for small
pictures, faster for large ones, and makes the result of a sample the same to the last bit, whatever the batch."""


class Distortion(ABC):
    """Distorts a share of the samples, each by a network of its own.

    Whether and how a sample is distorted depends on its picture and its seed alone, never on the rest of the batch.

    Args:
        mean, std: of the normalisation of the pictures.
        share: of the samples that are distorted.
    """

    kind: DistortionKind

    def __init__(self, mean: Sequence[float], std: Sequence[float], *, share: float = 0.5) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"share={share:g} of the samples is not possible; give a number from 0 to 1")
        self.mean, self.std, self.share = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None], share

    def __call__(self, images: Tensor, seeds: Sequence[int]) -> Tensor:
        """The pictures, some of them distorted and clamped to the range of pixels.

        Args:
            images: normalised float [B, 3, H, W].
            seeds: one a sample, of (run seed, epoch, sample id).

        Raises:
            ValueError: the pictures are not float [B, 3, H, W], or there is not a seed for each.
        """
        if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
            raise ValueError(f"pictures must be normalised float [B, 3, H, W], got {images.dtype} {list(images.shape)}")
        if len(seeds) != len(images):
            raise ValueError(f"{len(images)} pictures need as many seeds, got {len(seeds)}")
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
        """Distorts every picture: float32 [B, 3, H, W] in 0..1 -> the same shape, not clamped."""

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


class Noise2Net(Distortion):
    """Four random residual steps `x + e f(x)`, with another f for every step and sample.

    f widens to `PARTS` groups of `WIDTH` channels, sends them through a hierarchy of random convolutions, each part together
    with the result of the part before it, and narrows to 3 channels. Kernels reach 0 to 3 pixels. Normalisation is over each
    sample's own map: batch statistics would tie a sample to its batch. e ~ U(0.375, 0.75), here one a sample.
    """

    kind = "noise2net"
    STEPS, PARTS, WIDTH = 4, 4, 16
    STRENGTH = (0.375, 0.75)

    def distort_all(self, pixels: Tensor, seeds: Sequence[int]) -> Tensor:
        generators = [sample_generator(seed, self.kind) for seed in seeds]
        # the strength e belongs to pictures of unit variance: a pale one would drown in what is added
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
    """[B, 1, 1, 1]: the standard deviation of each picture, over channels and pixels."""
    return x.std((1, 2, 3), correction=0, keepdim=True).clamp(min=1e-3)


def _normalise(x: Tensor) -> Tensor:
    """Mean 0 and variance 1 of every map; a constant map becomes 0."""
    return (x - x.mean((2, 3), keepdim=True)) / (x.var((2, 3), correction=0, keepdim=True) + 1e-5).sqrt()


def build_distortion(
    kind: DistortionKind,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    images: Tensor | None = None,
    cache: Path | None = None,
    seed: int = 0,
) -> Distortion:
    """The DeepAugment equivalent of a recipe's `augment.deepaugment`.

    Args:
        kind: "noise2net", "self-cae" or "self-sr".
        mean, std: of the normalisation.
        images: uint8 [n, 3, H, W], of the training set, that "self-cae" and "self-sr" learn; a thousand is enough.
        cache: file (.safetensors) where the trained network is kept, and taken from if it was trained on the same pictures.
        seed: of that training.
    """
    if kind not in get_args(DistortionKind):
        raise ValueError(f"deepaugment={kind!r} is not known; choose one of {', '.join(get_args(DistortionKind))}")
    if kind == "noise2net":
        return Noise2Net(mean, std)
    if images is None:
        raise ValueError(f"deepaugment={kind!r} trains a network first: give it training pictures (images=)")
    from robustvit.training.self_autoencoder import SelfAutoencoder
    from robustvit.training.self_upscaler import SelfUpscaler

    learned = SelfAutoencoder if kind == "self-cae" else SelfUpscaler
    return learned.trained(images, mean, std, cache=cache, seed=seed)
