"""Occlusion: random patches of a picture replaced by noise, as AFAT measures robustness to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from robustvit.runtime.randomness import KeyedDraws

__all__ = ["PatchNoise", "occlude_patches", "occluded_count", "occlusion_masks"]

PatchNoise = Literal["unit_normalised", "pixel_uniform", "mean"]
"""What covers a patch.

unit_normalised: mean + std * U[0, 1) a channel, bright and of little contrast: the released code covers after normalising.
pixel_uniform: all 256 levels, equally likely.
mean: the mean of each channel, which is 0 after normalising: the patch is dropped.
"""
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def occluded_count(share: float, N: int) -> int:
    """How many of N patches are covered: floor(share * (N - 1)) + 1, those not above the `share`-quantile of N scores.

    20 of 196 at a share of 0.1. None at a share of 0.
    """
    if not 0 <= share < 1:
        raise ValueError(f"share={share!r} is not possible; give 0 or more and less than 1")
    return int(share * (N - 1) + 1e-9) + 1 if share else 0  # 0.7 * 10 is 6.999...


def occlusion_masks(
    grid: tuple[int, int], *, share: float = 0.1, seed: int = 0, sample_ids: Sequence[int | str] = (0,)
) -> Tensor:
    """Which patches are covered: bool [B, *grid], `occluded_count` of them in each picture, all choices equally likely.

    Args:
        grid: patches down and across.
        share: of the patches, see `occluded_count`.
        seed: another seed gives other masks of the same pictures.
        sample_ids: one a picture.
    """
    return _choose(_draws(seed, sample_ids, "cpu"), grid, share)


def occlude_patches(
    images: Tensor,
    *,
    share: float = 0.1,
    patch: int = 16,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
    noise: PatchNoise = "unit_normalised",
    mean: tuple[float, float, float] = IMAGENET_MEAN,
    std: tuple[float, float, float] = IMAGENET_STD,
) -> Tensor:
    """Pictures with random patches covered; the rest is untouched. What is covered depends on (seed, sample id) alone.

    Args:
        images: uint8 [B, 3, H, W], sides multiples of `patch`.
        share: of the patches, see `occluded_count`.
        patch: side in pixels; best that of the network's tokens.
        seed: of the randomness.
        sample_ids: one a picture; None takes 0, 1, ... in the order of the batch.
        noise: see `PatchNoise`.
        mean, std: with which the network's input is normalised.
    """
    _check(images, patch, noise)
    B, C, H, W = images.shape
    ids = range(B) if sample_ids is None else sample_ids
    if len(ids) != B:
        raise ValueError(f"{len(ids)} sample_ids for {B} images; give one for each")
    draws, grid = _draws(seed, ids, images.device), (H // patch, W // patch)
    masks = _choose(draws, grid, share)
    cover = _cover(draws, noise, (occluded_count(share, grid[0] * grid[1]), C, patch, patch), mean, std)
    result = images.clone(memory_format=torch.contiguous_format)
    tiles = result.view(B, C, grid[0], patch, grid[1], patch).permute(0, 2, 4, 1, 3, 5)  # B h w C p p
    tiles[masks] = cover.flatten(0, 1)
    return result


def _check(images: Tensor, patch: int, noise: PatchNoise) -> None:
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
        raise TypeError(f"images must be uint8 [B, 3, H, W] (not normalised yet), got {images.dtype} {list(images.shape)}")
    H, W = images.shape[-2:]
    if patch < 1 or H % patch or W % patch:
        raise ValueError(f"images of {H}x{W} pixels do not divide into patches of {patch}; resize them or change `patch`")
    if noise not in get_args(PatchNoise):
        raise ValueError(f"noise={noise!r} is not known; choose one of {', '.join(get_args(PatchNoise))}")


def _draws(seed: int, sample_ids: Sequence[int | str], device: torch.device | str) -> KeyedDraws:
    return KeyedDraws(seed, sample_ids, "occlusion", device=device)


def _choose(draws: KeyedDraws, grid: tuple[int, int], share: float) -> Tensor:
    scores = draws.uniform(0, 1, grid).flatten(1)
    chosen = scores.topk(occluded_count(share, scores.shape[1]), dim=1, largest=False).indices
    masks = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
    return masks.scatter_(1, chosen, True).view(-1, *grid)


def _cover(
    draws: KeyedDraws,
    noise: PatchNoise,
    size: tuple[int, ...],
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
) -> Tensor:
    """uint8 [B, *size]: what goes onto the chosen patches [k, C, p, p] of each picture."""
    u = draws.uniform(0, 1, size)
    if noise == "pixel_uniform":
        return (256 * u).to(torch.uint8)
    centre, spread = (torch.tensor(values, device=u.device)[:, None, None] for values in (mean, std))
    if noise == "mean":
        return (255 * centre).round().expand(u.shape).to(torch.uint8)
    return (255 * (centre + spread * u)).clamp_(0, 255).to(torch.uint8)
