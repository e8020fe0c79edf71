"""How pixel values become the input of a network: (x - mean) / std, the only place that does it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Normalisation"]


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation per channel, for values in 0 .. 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @staticmethod
    def of(network: nn.Module) -> Normalisation:
        """That of timm's `pretrained_cfg`; without one, ImageNet's.

        Raises:
            ValueError: what the network says are not three numbers.
        """
        from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD

        cfg = getattr(network, "pretrained_cfg", None) or {}
        found = {"mean": cfg.get("mean") or IMAGENET_DEFAULT_MEAN, "std": cfg.get("std") or IMAGENET_DEFAULT_STD}
        for name, values in found.items():
            if not _are_numbers(values) or (name == "std" and min(values) <= 0):
                expected = "three finite numbers" + (" above 0" if name == "std" else "")
                raise ValueError(f"{type(network).__name__} says {name}={values!r} in its pretrained_cfg; expected {expected}")
        return Normalisation(tuple(found["mean"]), tuple(found["std"]))

    def __call__(self, images: Tensor) -> Tensor:
        """uint8 [..., 3, H, W], or floating point in 0 .. 1 -> normalised, floating point."""
        if images.is_floating_point():
            return (images - _channels(self.mean, images)) / _channels(self.std, images)
        x = images.float()
        return x.sub_(_channels(self.mean, x) * 255).div_(_channels(self.std, x) * 255)

    def inverse(self, inputs: Tensor) -> Tensor:
        """Normalised [..., 3, H, W] -> values in 0 .. 1, where the input was an image."""
        return inputs * _channels(self.std, inputs) + _channels(self.mean, inputs)


def _channels(values: Sequence[float], like: Tensor) -> Tensor:
    """One value per channel as [3, 1, 1]."""
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None, None]


def _are_numbers(values: Any) -> bool:
    is_list = isinstance(values, list | tuple) and len(values) == 3
    return is_list and all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values)
