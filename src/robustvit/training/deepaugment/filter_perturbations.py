"""The ways in which `self-cae` and `self-sr` break a network: its filters, the autoencoder's code, the upscaler's features.

A catalogue of small functions, one per way, as DeepAugment lists them. Each takes what it breaks and a generator.
The published numbers of filters belong to layers of 64 and 128; here they are shares, so that any width works.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

__all__ = ["CODE", "FEATURES_BEFORE", "FEATURES_WITHIN", "FILTERS", "FILTERS_OF_AUTOENCODER", "Perturbation", "draw_index"]

Perturbation = Callable[[Tensor, Generator], Tensor]
"""Filters [O, I, k, k], or one sample's features [C, H, W] -> the same shape."""


def draw_index(count: int, generator: Generator) -> int:
    """A uniform draw from 0 .. count - 1."""
    return int(torch.randint(count, (), generator=generator))


def _some(size: int, share: float, generator: Generator) -> Tensor:
    """The positions of a share of `size`, at least one, without order."""
    return torch.randperm(size, generator=generator)[: max(1, round(share * size))]


def _uniform(shape: tuple[int, ...], generator: Generator, low: float = 0.0, high: float = 1.0) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=generator)


def _scale_some(x: Tensor, share: float, factor: float, generator: Generator) -> Tensor:
    """A share of the filters, or channels, times a factor."""
    factors = torch.ones(len(x)).index_fill(0, _some(len(x), share, generator), factor)
    return x * factors.view(-1, *[1] * (x.ndim - 1))


def _mask_positions(x: Tensor, share: float, factor: float, generator: Generator) -> Tensor:
    """A share of single values times a factor."""
    return torch.where(torch.rand(x.shape, generator=generator) < share, factor * x, x)


def _reverse(x: Tensor, generator: Generator) -> Tensor:
    """The filters, or channels, in reverse order."""
    return x.flip(0)


def _negative_gelu(x: Tensor, generator: Generator) -> Tensor:
    return -F.gelu(x)


def _identity(x: Tensor, generator: Generator) -> Tensor:
    return x


def _times_noise(w: Tensor, generator: Generator) -> Tensor:
    return w * _uniform(tuple(w.shape), generator, 0.0, 2.0)


def _plus_noise(w: Tensor, generator: Generator) -> Tensor:
    return w + 0.5 * w.std() * torch.randn(w.shape, generator=generator)


def _random_signs(w: Tensor, generator: Generator) -> Tensor:
    return _mask_positions(w, 0.5, -1.0, generator)


def _random_zeros(w: Tensor, generator: Generator) -> Tensor:
    return _mask_positions(w, 0.5, 0.0, generator)


def _rotate(w: Tensor, generator: Generator) -> Tensor:
    """All kernels by a quarter, half or three quarters of a turn."""
    return torch.rot90(w, 1 + draw_index(3, generator), (2, 3))


def _laplacian_mask(w: Tensor, generator: Generator) -> Tensor:
    """Kernels times a random peak whose surroundings count against it."""
    k = w.shape[-1]
    mask = -_uniform((k, k), generator)
    mask[k // 2, k // 2] = 1.0
    return w * mask


def _convolve_kernels(w: Tensor, by: Tensor) -> Tensor:
    """All kernels convolved with one k x k kernel, keeping the size."""
    return F.conv2d(w.flatten(0, 1)[:, None], by[None, None], padding=by.shape[-1] // 2).view_as(w)


def _shift_kernels(w: Tensor, generator: Generator) -> Tensor:
    """All kernels by one pixel in a random direction; what leaves them is lost."""
    by = torch.zeros(9)
    by[[1, 3, 5, 7][draw_index(4, generator)]] = 1.0
    return _convolve_kernels(w, by.view(3, 3))


def _blur_kernels(w: Tensor, generator: Generator) -> Tensor:
    by = _uniform((3, 3), generator)
    return _convolve_kernels(w, by / by.sum())


def _largest_tap(w: Tensor, generator: Generator) -> Tensor:
    """Only the largest value of every kernel."""
    taps = w.flatten(2)
    largest = taps.abs() == taps.abs().amax(-1, keepdim=True)
    return (taps * largest).view_as(w)


FILTERS_OF_AUTOENCODER: Mapping[str, Perturbation] = {
    "reverse the filters": _reverse,
    "negate a tenth of the filters": lambda w, g: _scale_some(w, 0.1, -1.0, g),
    "drop a fifth of the filters": lambda w, g: _scale_some(w, 0.2, 0.0, g),
    "negative GELU": _negative_gelu,
    "multiply by noise": _times_noise,
    "random signs or zeros": lambda w, g: (_random_signs, _random_zeros)[draw_index(2, g)](w, g),
    "rotate the kernels": _rotate,
    "negate a fifth of the filters": lambda w, g: _scale_some(w, 0.2, -1.0, g),
}
"""Of which `self-cae` draws one."""

FILTERS: Mapping[str, Perturbation] = {
    **FILTERS_OF_AUTOENCODER,
    "random signs": _random_signs,
    "random zeros": _random_zeros,
    "negate half of the filters": lambda w, g: _scale_some(w, 0.5, -1.0, g),
    "add noise": _plus_noise,
    "Laplacian mask": _laplacian_mask,
    "shift the kernels": _shift_kernels,
    "blur the kernels": _blur_kernels,
    "only the largest tap": _largest_tap,
    "transpose the kernels": lambda w, g: w.transpose(2, 3),
}
"""Of which `self-sr` draws three."""


def _scale_code(z: Tensor, generator: Generator) -> Tensor:
    return z * _uniform((), generator, 0.5, 2.0)


def _permute_channels(z: Tensor, generator: Generator) -> Tensor:
    """A third of the channels change places."""
    places = _some(len(z), 1 / 3, generator)
    order = torch.arange(len(z))
    order[places] = places[torch.randperm(len(places), generator=generator)]
    return z[order]


def _mirror_channels(z: Tensor, share: float, generator: Generator) -> Tensor:
    """The maps of a share of the channels are mirrored."""
    places = _some(len(z), share, generator)
    return z.index_copy(0, places, z[places].flip(-1))


def _mix_neighbours(z: Tensor, generator: Generator) -> Tensor:
    """Every map through a random 3x3 kernel near the identity."""
    kernels = 0.15 * torch.randn(len(z), 1, 3, 3, generator=generator)
    kernels[:, :, 1, 1] += 1.0
    return F.conv2d(F.pad(z[None], [1] * 4, mode="replicate"), kernels, groups=len(z))[0]


def _cross_talk(z: Tensor, generator: Generator) -> Tensor:
    """Every channel hears a little of all others."""
    mixing = torch.eye(len(z)) + 0.5 / math.sqrt(len(z)) * torch.randn(len(z), len(z), generator=generator)
    return (mixing @ z.flatten(1)).view_as(z)


def _shift_channels(z: Tensor, generator: Generator) -> Tensor:
    """Every map by up to one position, around the edge."""
    steps = torch.randint(-1, 2, (len(z), 2), generator=generator).tolist()
    return torch.stack([channel.roll((dy, dx), (0, 1)) for channel, (dy, dx) in zip(z, steps, strict=True)])


CODE: Mapping[str, Perturbation] = {
    "scale": _scale_code,
    "drop a fifth of the values": lambda z, g: _mask_positions(z, 0.2, 0.0, g),
    "negate a tenth of the values": lambda z, g: _mask_positions(z, 0.1, -1.0, g),
    "permute channels": _permute_channels,
    "mirror some channels": lambda z, g: _mirror_channels(z, 0.15, g),
    "mirror all channels": lambda z, g: _mirror_channels(z, 1.0, g),
    "mix neighbours": _mix_neighbours,
    "cross-talk": _cross_talk,
    "shift channels": _shift_channels,
}
"""Of the code of `self-cae`, of which one is drawn."""

FEATURES_BEFORE: Mapping[str, Perturbation] = {
    "permute channels": _permute_channels,
    "drop a twentieth of the values": lambda z, g: _mask_positions(z, 0.05, 0.0, g),
    "negate a fortieth of the values": lambda z, g: _mask_positions(z, 0.025, -1.0, g),
    "nothing": _identity,
}
"""Of what enters the body of `self-sr`, of which one is drawn."""

FEATURES_WITHIN: Mapping[str, Perturbation] = {
    "negate": lambda z, g: -z,
    "ReLU": lambda z, g: F.relu(z),
    "GELU": lambda z, g: F.gelu(z),
    "reverse the channels": _reverse,
    "nothing": _identity,
}
"""In the middle of that body, of which one is drawn; skipping blocks is the sixth way, see `self_upscaler`."""
