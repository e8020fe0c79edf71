"""What becomes of noise on its way through the blocks (FAN Fig. 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import torch
from torch import Tensor, nn

from robustvit.analysis.options import NoiseKind
from robustvit.block_outputs import blocks_of, outputs_of
from robustvit.corruptions.randomness import KeyedDraws

__all__ = ["DEFINITIONS", "noise_decay"]

DEFINITIONS = {
    "perturbation": "||f_l(x + n) - f_l(x)|| / ||f_l(x)|| after block l, n ~ N(0, sigma^2) in normalised units, the mean",
    "input": "||f_l(n)|| / ||f_1(n)|| after block l of a network that is fed n ~ N(0, 1), mean over pictures",
}


def noise_decay(
    model: nn.Module,
    batches: Iterable[Tensor],
    *,
    kind: NoiseKind = "perturbation",
    sigma: float = 1.0,
    seed: int = 0,
) -> Tensor:
    """[L]: the strength of noise after every block, the mean over pictures.

    Args:
        model: a network with attention, or a CNN of residual blocks.
        batches: normalised pictures [B, 3, H, W].
        kind: of `DEFINITIONS`.
        sigma: standard deviation of the noise of "perturbation".
        seed: of the noise; that of a picture depends on (seed, its place in the data set) alone.
    """
    if kind not in get_args(NoiseKind):
        raise ValueError(f"kind={kind!r} is not known; choose one of {', '.join(get_args(NoiseKind))}")
    if not sigma > 0:
        raise ValueError(f"sigma={sigma!r} is not possible; give more than 0")
    blocks = blocks_of(model)
    total, count = torch.zeros(()), 0
    for images in batches:
        places = range(count, count + len(images))
        noise = KeyedDraws(seed, places, "noise decay", device=images.device).normal(0, 1, tuple(images.shape[1:]))
        if kind == "input":
            norms = [_norm(x) for x in outputs_of(model, blocks, noise)]
            strength = torch.stack([norm / norms[0] for norm in norms])
        else:
            clean, noisy = (outputs_of(model, blocks, x) for x in (images, images + sigma * noise))
            strength = torch.stack([_norm(b - a) / _norm(a) for a, b in zip(clean, noisy, strict=True)])
        total = total + strength.sum(1).cpu()
        count += len(images)
    if not count:
        raise ValueError("there are no pictures to look at; give at least one batch")
    return total / count


def _norm(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1).clamp(min=torch.finfo(torch.float32).tiny)
