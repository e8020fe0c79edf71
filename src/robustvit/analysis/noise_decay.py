"""What becomes of noise on its way through the blocks (FAN Fig. 3)."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from robustvit.analysis.batches import Images, keyed_batches
from robustvit.analysis.shared_options import NoiseKind
from robustvit.recording.block_outputs import block_tokens
from robustvit.runtime.randomness import KeyedDraws

__all__ = ["DEFINITIONS", "noise_decay"]

DEFINITIONS = {
    "perturbation": "||f_l(x + n) - f_l(x)|| / ||f_l(x)||, f_l the image tokens after block l, n ~ N(0, sigma^2) in "
    "normalised units, mean over images",
    "input": "||f_l(n)|| / ||f_1(n)||, f_l the image tokens after block l of a network that is fed n ~ N(0, 1), mean over "
    "pictures",
}


def noise_decay(
    model: nn.Module,
    batches: Images,
    *,
    kind: NoiseKind = "perturbation",
    sigma: float = 1.0,
    seed: int = 0,
) -> Tensor:
    """[L]: the strength of noise after every block, the mean over images.

    Args:
        model: a network with attention, or a CNN of residual blocks.
        batches: normalised images [B, 3, H, W]: a batch, a loader, or pairs of ids and images.
        kind: of `DEFINITIONS`.
        sigma: standard deviation of the noise of "perturbation".
        seed: of the noise; that of an image depends on (seed, its id) alone, which is its place where none is given.
    """
    if kind not in get_args(NoiseKind):
        raise ValueError(f"kind={kind!r} is not known; choose one of {', '.join(get_args(NoiseKind))}")
    if not sigma > 0:
        raise ValueError(f"sigma={sigma!r} is not possible; give more than 0")
    total, count = torch.zeros(()), 0
    for ids, images in keyed_batches(batches):
        draws = KeyedDraws(seed, ids, "noise decay", device=images.device)
        noise = draws.normal(0, 1, tuple(images.shape[1:])).to(images.dtype)
        if kind == "input":
            norms = [_norm(x) for x in _tokens(model, noise)]
            strength = torch.stack([norm / norms[0] for norm in norms])
        else:
            clean, noisy = (_tokens(model, x) for x in (images, images + sigma * noise))
            strength = torch.stack([_norm(b - a) / _norm(a) for a, b in zip(clean, noisy, strict=True)])
        total = total + strength.sum(1).cpu()
        count += len(images)
    return total / count


def _tokens(model: nn.Module, images: Tensor) -> list[Tensor]:
    return [block.tokens.float() for block in block_tokens(model, images)]


def _norm(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1).clamp(min=torch.finfo(torch.float32).tiny)
