"""`self-cae`: a small autoencoder learns the training images, and is then broken anew for every sample.

Of the shape of DeepAugment's compressive autoencoder, smaller: two convolutions of stride 2, residual blocks, a code of few
channels in -1..1, and the way back. The published code is also rounded to one bit per value; on small images too
little would be left of them, so this one is not.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustvit.methods.base import sample_generator
from robustvit.runtime.files import write_whole
from robustvit.runtime.randomness import keyed_seed
from robustvit.runtime.weights import CheckpointError, read_weights, save_weight_file, weights_metadata
from robustvit.training.deepaugment.distortion import Distortion, convolve_each
from robustvit.training.deepaugment.filter_perturbations import CODE, FILTERS_OF_AUTOENCODER, Perturbation, draw_index

__all__ = ["Autoencoder", "SelfAutoencoder", "draw_from", "fit", "learned_network", "repeated_weights", "train_autoencoder"]

CROP = 32
"""Side of what the networks see of an image while they learn."""
STEPS = 400
BATCH = 16
LR = 2e-3

Network = TypeVar("Network", bound=nn.Module)


class Autoencoder(nn.Module):
    """[B, 3, H, W] in 0..1 -> code [B, 16, H/4, W/4] in -1..1 -> [B, 3, H, W]; H and W are multiples of 4."""

    def __init__(self, widths: tuple[int, int] = (32, 64), code: int = 16, blocks: int = 3) -> None:
        super().__init__()
        first, second = widths
        self.down = nn.Sequential(nn.Conv2d(3, first, 5, 2, 2), nn.ReLU(), nn.Conv2d(first, second, 5, 2, 2), nn.ReLU())
        self.encoder = nn.ModuleList(nn.Conv2d(second, second, 3, padding=1) for _ in range(2 * blocks))
        self.to_code = nn.Conv2d(second, code, 5, padding=2)
        self.from_code = nn.Conv2d(code, second, 3, padding=1)
        self.decoder = nn.ModuleList(nn.Conv2d(second, second, 3, padding=1) for _ in range(2 * blocks))
        self.up = nn.Sequential(
            nn.ConvTranspose2d(second, first, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(first, 3, 4, 2, 1), nn.Tanh()
        )

    def encode(self, pixels: Tensor) -> Tensor:
        x = self.down(2 * pixels - 1)
        for first, second in zip(self.encoder[::2], self.encoder[1::2], strict=True):
            x = x + second(F.relu(first(x)))
        return self.to_code(x).tanh()

    def decode(self, code: Tensor, weights: Tensor | None = None) -> Tensor:
        """The image of a code.

        Args:
            code: [B, 16, h, w].
            weights: filters of the decoder's convolutions for every sample [B, layers, O, I, 3, 3]; None for the learned.
        """
        x = self.from_code(code)
        for layer in range(0, len(self.decoder), 2):
            x = x + self._convolve(layer + 1, F.relu(self._convolve(layer, x, weights)), weights)
        return self.up(x) / 2 + 0.5

    def _convolve(self, layer: int, x: Tensor, weights: Tensor | None) -> Tensor:
        conv: Any = self.decoder[layer]
        return conv(x) if weights is None else convolve_each(x, weights[:, layer], conv.bias.expand(len(x), -1))

    def forward(self, pixels: Tensor) -> Tensor:
        return self.decode(self.encode(pixels))


class LearnedDistortion(Distortion):
    """A distortion by a network that has learned the training images, and is then broken.

    Args:
        network: trained.
        mean, std, share: see `Distortion`.
    """

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float], *, share: float = 0.5) -> None:
        super().__init__(mean, std, share=share)
        self.network = network.eval().requires_grad_(False)

    @classmethod
    def trained(
        cls, images: Tensor, mean: Sequence[float], std: Sequence[float], *, cache: Path | None = None, seed: int = 0
    ) -> Self:
        """Trains the network on uint8 [n, 3, H, W], or takes it from the file `cache`."""
        return cls(cls.learn(images, cache, seed), mean, std)

    @classmethod
    @abstractmethod
    def learn(cls, images: Tensor, cache: Path | None, seed: int) -> nn.Module:
        """The trained network; see `learned_network`."""


class SelfAutoencoder(LearnedDistortion):
    """Every sample gets one broken layer in the decoder, and one fault in its code.

    Args:
        network: trained, see `train_autoencoder`.
        mean, std, share: see `Distortion`.
    """

    kind = "self-cae"

    network: Autoencoder

    @classmethod
    def learn(cls, images: Tensor, cache: Path | None, seed: int) -> Autoencoder:
        return learned_network(Autoencoder, train_autoencoder, images, cache, seed)

    @torch.no_grad()
    def distort_all(self, pixels: Tensor, seeds: Sequence[int]) -> Tensor:
        size = (pixels.shape[-2], pixels.shape[-1])
        network = self.network.to(pixels.device)
        code = network.encode(_resized(pixels, tuple(-(-side // 4) * 4 for side in size)))
        weights = repeated_weights(network.decoder, len(pixels))
        for i, seed in enumerate(seeds):
            generator = sample_generator(seed, self.kind)
            layer = draw_index(weights.shape[1], generator)
            weights[i, layer] = draw_from(FILTERS_OF_AUTOENCODER, generator)(weights[i, layer].cpu(), generator)
            code[i] = draw_from(CODE, generator)(code[i].cpu(), generator)
        return _resized(network.decode(code, weights), size)


def train_autoencoder(images: Tensor, seed: int = 0, steps: int = STEPS) -> Autoencoder:
    """An autoencoder of the images, by mean squared error.

    Args:
        images: uint8 [n, 3, H, W]; of large ones it sees crops.
        seed: of weights and batches.
        steps: of Adam, with batches of 16.
    """
    return fit(Autoencoder, images, seed, steps, lambda network, pixels: F.mse_loss(network(pixels), pixels))


def fit(
    network: Callable[[], Network], images: Tensor, seed: int, steps: int, loss: Callable[[Network, Tensor], Tensor]
) -> Network:
    """Trains a network on random crops of images: float [B, 3, h, h] in 0..1, where h is a multiple of 4, at most `CROP`.

    The global random state is left as it was.
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
            loss(learner, images[index, :, top : top + side, left : left + side].float() / 255).backward()
            optimizer.step()
            schedule.step()
    return learner.eval()


def learned_network(
    network: Callable[[], Network], train: Callable[[Tensor, int], Network], images: Tensor, cache: Path | None, seed: int
) -> Network:
    """What `train(images, seed)` gives, kept in the file `cache`; a file made from other images is made anew."""
    if cache is None:
        return train(images, seed)
    digest = hashlib.blake2b(images.contiguous().numpy().tobytes(), digest_size=16).hexdigest()
    made_from = {"pictures": digest, "shape": str(list(images.shape)), "seed": str(seed), "steps": str(STEPS)}
    known = network()
    if (kept := _read(cache, made_from)) is not None and kept.keys() == known.state_dict().keys():
        known.load_state_dict(kept)
        return known.eval()
    learned = train(images, seed)
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


def repeated_weights(layers: Iterable[Any], samples: int) -> Tensor:
    """A copy of the filters of equal convolutions for every sample: [B, layers, O, I, k, k]."""
    return torch.stack([layer.weight for layer in layers])[None].repeat(samples, 1, 1, 1, 1, 1)


def draw_from(catalogue: Mapping[str, Perturbation], generator: torch.Generator) -> Perturbation:
    """One way of a catalogue, all with the same probability."""
    return list(catalogue.values())[draw_index(len(catalogue), generator)]


def _resized(pixels: Tensor, size: tuple[int, ...]) -> Tensor:
    if tuple(pixels.shape[-2:]) == size:
        return pixels
    return F.interpolate(pixels, size, mode="bilinear", antialias=True)
