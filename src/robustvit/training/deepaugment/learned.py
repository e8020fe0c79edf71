"""What `self-cae` and `self-sr` share: a network learns the training images, and is then broken anew for every sample."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from robustvit.data.normalisation import Normalisation
from robustvit.runtime.files import write_whole
from robustvit.runtime.randomness import keyed_seed
from robustvit.runtime.weights import CheckpointError, read_weights, save_weight_file, weights_metadata
from robustvit.training.deepaugment.distortion import Distortion, convolve_each
from robustvit.training.deepaugment.filter_perturbations import Perturbation, draw_index

__all__ = [
    "ImageNetwork",
    "LearnedDistortion",
    "break_features",
    "break_filters",
    "fit",
    "own_filters",
    "residual_block",
    "residual_layers",
]

CROP = 32
"""Side of what the networks see of an image while they learn."""
STEPS = 400
BATCH = 16
LR = 2e-3


class ImageNetwork(nn.Module, ABC):
    """A network that learns images from themselves."""

    @abstractmethod
    def loss(self, pixels: Tensor) -> Tensor:
        """Of images [B, 3, H, W] in 0..1, where H and W are multiples of 4."""


Network = TypeVar("Network", bound=ImageNetwork)


class LearnedDistortion(Distortion):
    """A distortion by a network that has learned the training images, and is then broken.

    Args:
        network: trained, see `fit`.
        normalisation, share: see `Distortion`.
    """

    network_class: ClassVar[type[ImageNetwork]]
    network: Any

    def __init__(self, network: ImageNetwork, normalisation: Normalisation, *, share: float = 0.5) -> None:
        super().__init__(normalisation, share=share)
        self.network = network.eval().requires_grad_(False)

    @classmethod
    def build(
        cls, normalisation: Normalisation, images: Callable[[], Tensor], *, cache: Path | None = None, seed: int = 0
    ) -> Self:
        return cls(_learned(cls.network_class, images(), cache, seed), normalisation)


def fit(network: type[Network], images: Tensor, seed: int = 0, steps: int = STEPS) -> Network:
    """A network trained by Adam on random crops of images, in batches of 16. The global random state is left as it was.

    Args:
        network: its class.
        images: uint8 [n, 3, H, W]; of large ones it sees crops with sides of a multiple of 4, at most `CROP`.
        seed: of weights and batches.
        steps: of Adam.
    """
    if images.ndim != 4 or images.shape[1] != 3 or images.dtype != torch.uint8 or not len(images):
        raise ValueError(f"training images must be uint8 [n, 3, H, W], got {images.dtype} {list(images.shape)}")
    side = min(CROP, *images.shape[-2:]) // 4 * 4
    if not side:
        raise ValueError(f"training images must have 4 pixels or more on each side, got {list(images.shape[-2:])}")
    draws = torch.Generator().manual_seed(keyed_seed(seed, "batches") >> 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keyed_seed(seed, "weights") >> 1)
        learner = network()
    optimizer = torch.optim.Adam(learner.parameters(), LR)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps, 1))
    with torch.enable_grad():
        for _ in range(steps):
            index = torch.randint(len(images), (BATCH,), generator=draws)
            top, left = (draw_index(length - side + 1, draws) for length in images.shape[-2:])
            optimizer.zero_grad()
            learner.loss(images[index, :, top : top + side, left : left + side].float() / 255).backward()
            optimizer.step()
            schedule.step()
    return learner.eval()


def _learned(network: type[Network], images: Tensor, cache: Path | None, seed: int) -> Network:
    """What `fit` gives, kept in the file `cache`; a file made from other images is made anew."""
    if cache is None:
        return fit(network, images, seed)
    digest = hashlib.blake2b(images.contiguous().numpy().tobytes(), digest_size=16).hexdigest()
    made_from = {"pictures": digest, "shape": str(list(images.shape)), "seed": str(seed), "steps": str(STEPS)}
    known = network()
    if (kept := _read(cache, made_from)) is not None and kept.keys() == known.state_dict().keys():
        known.load_state_dict(kept)
        return known.eval()
    learned = fit(network, images, seed)
    cache.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(cache) as file:
        save_weight_file(learned.state_dict(), file, made_from)
    return learned


def _read(cache: Path, made_from: Mapping[str, str]) -> dict[str, Tensor] | None:
    """The weights in the file, if it is whole and made from this."""
    if not cache.is_file():
        return None
    try:
        return read_weights(cache) if made_from.items() <= weights_metadata(cache).items() else None
    except CheckpointError:
        return None


def residual_layers(width: int, blocks: int) -> nn.ModuleList:
    """The convolutions of `residual_block`, two for each block."""
    return nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2 * blocks))


def residual_block(layers: nn.ModuleList, index: int, x: Tensor, filters: Tensor | None = None) -> Tensor:
    """x + conv(relu(conv(x))).

    Args:
        layers: of `residual_layers`.
        index: of the block.
        x: [B, C, H, W].
        filters: each sample's own, of all layers [B, layers, O, I, 3, 3]; None for the learned ones.
    """

    def convolve(layer: int, x: Tensor) -> Tensor:
        conv: Any = layers[layer]
        return conv(x) if filters is None else convolve_each(x, filters[:, layer], conv.bias.expand(len(x), -1))

    return x + convolve(2 * index + 1, F.relu(convolve(2 * index, x)))


def own_filters(layers: nn.ModuleList, samples: int) -> Tensor:
    """A copy of the filters of equal convolutions for every sample: [B, layers, O, I, k, k]."""
    return torch.stack([layer.weight for layer in layers])[None].repeat(samples, 1, 1, 1, 1, 1)  # type: ignore[misc]


def break_filters(
    filters: Tensor, catalogue: Mapping[str, Perturbation], generators: Sequence[Generator], *, faults: int = 1
) -> None:
    """Breaks as many layers of every sample's filters [B, layers, O, I, k, k], in place; the same may be drawn twice."""
    for of_sample, generator in zip(filters, generators, strict=True):
        for _ in range(faults):
            layer = draw_index(len(of_sample), generator)
            of_sample[layer] = _drawn(catalogue, generator)(of_sample[layer].cpu(), generator).clone()


def break_features(x: Tensor, catalogue: Mapping[str, Perturbation], generators: Sequence[Generator]) -> Tensor:
    """Every sample's features [B, C, H, W] with a fault of its own."""
    broken = [_drawn(catalogue, g)(features.cpu(), g) for features, g in zip(x, generators, strict=True)]
    return torch.stack(broken).to(x.device)


def _drawn(catalogue: Mapping[str, Perturbation], generator: Generator) -> Perturbation:
    """One way of a catalogue, all with the same probability."""
    return list(catalogue.values())[draw_index(len(catalogue), generator)]
