"""Patches of images covered with noise: the only code that covers patches.

    x^ = x M + d (1 - M)                                                        (AFAT, Eq. 1)

M is 1 where a patch stays, d the noise. Suite `patches`, the attacks on patches, AFAT and the analyses choose patches
(`keep_highest`), make noise (`noise_of`) and cover (`paste`) here. They differ in who scores the patches, and in the keys of
their random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from robustvit.runtime.randomness import KeyedDraws

__all__ = [
    "PatchNoise",
    "check_noise",
    "clamp_to_pixels",
    "keep_highest",
    "noise_of",
    "occlude_patches",
    "occluded_count",
    "paste",
    "patch_grid",
    "to_pixels",
]

PatchNoise = Literal["unit_normalised", "pixel_uniform", "zero"]
"""What covers a patch.

unit_normalised: U[0, 1) after normalising, as released: mean + std U[0, 1) per channel, bright and of little contrast.
pixel_uniform: U[0, 1) of the range of pixels, all levels equally likely.
zero: 0 after normalising, the mean of each channel. It stands for dropped patches (PatchDrop; AFAT, Table 5): there is nothing
    to see, but the tokens stay, so that those of both images can be compared one by one.
"""
ALIASES = {"mean": "zero"}
"""What `occlude_patches` called them."""
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def patch_grid(size: tuple[int, int], patch_size: int) -> tuple[int, int]:
    """(rows, columns) of the patches of an image.

    Args:
        size: (H, W) of the image.
        patch_size: side of a patch in pixels.

    Raises:
        ValueError: the patches do not tile the image.
    """
    H, W = size
    if not 0 < patch_size <= min(size) or H % patch_size or W % patch_size:
        raise ValueError(f"patches of {patch_size} pixels do not tile {H}x{W} pixels; give another patch size, or resize")
    return H // patch_size, W // patch_size


def occluded_count(share: float, N: int) -> int:
    """How many of N patches are covered: floor(share * (N - 1)) + 1, those not above the `share`-quantile of N scores.

    20 of 196 at a share of 0.1. None at a share of 0.
    """
    if not 0 <= share < 1:
        raise ValueError(f"share={share!r} is not possible; give 0 or more and less than 1")
    return int(share * (N - 1) + 1e-9) + 1 if share else 0  # 0.7 * 10 is 6.999...


def keep_highest(scores: Tensor, share: float) -> Tensor:
    """[B, N]: 0 for the patches to cover, the `occluded_count` with the lowest scores, and 1 for those that stay.

    Args:
        scores: floating point [B, N].
        share: of the patches to cover.
    """
    lowest = scores.float().topk(occluded_count(share, scores.shape[1]), dim=1, largest=False).indices
    return torch.ones_like(scores).scatter(1, lowest, 0.0)


def to_pixels(patches: Tensor, grid: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """[B, N], row by row -> [B, 1, H, W]: every pixel has the value of its patch.

    Args:
        patches: one value per patch.
        grid: (rows, columns) of the patches.
        size: (H, W), multiples of the grid.
    """
    (h, w), (H, W) = grid, size
    return patches.view(len(patches), 1, h, w).repeat_interleave(H // h, 2).repeat_interleave(W // w, 3)


def check_noise(noise: str) -> None:
    """Raises ValueError for a name that is none of `PatchNoise`."""
    if noise not in get_args(PatchNoise):
        raise ValueError(f"noise={noise!r} is not known; choose one of {', '.join(get_args(PatchNoise))}")


def noise_of(u: Tensor, noise: PatchNoise, mean: Sequence[float], std: Sequence[float], *, as_bytes: bool = False) -> Tensor:
    """What covers patches, of the shape of `u`: normalised, or bytes.

    Args:
        u: U[0, 1), floating point [..., 3, h, w]; without influence for "zero".
        noise: see `PatchNoise`.
        mean, std: of the normalisation, for values in 0 .. 1.
        as_bytes: uint8, rounded down.

    Raises:
        ValueError: there is no such noise.
    """
    check_noise(noise)
    centre, spread = _channels(mean, u), _channels(std, u)
    if as_bytes:
        if noise == "pixel_uniform":
            return (256 * u).to(torch.uint8)
        if noise == "zero":
            return (255 * centre).round().expand(u.shape).to(torch.uint8)
        return (255 * (centre + spread * u)).clamp_(0, 255).to(torch.uint8)
    if noise == "zero":
        return torch.zeros_like(u)
    return u if noise == "unit_normalised" else (u - centre) / spread


def paste(images: Tensor, keep: Tensor, noise: Tensor, grid: tuple[int, int]) -> Tensor:
    """`x M + d (1 - M)`; gradients flow into images, mask and noise.

    Args:
        images: x, [B, 3, H, W], bytes or floating point.
        keep: [B, N], row by row: 1 for patches that stay, 0 for those to cover.
        noise: d, of the shape and dtype of `images`.
        grid: (rows, columns) of the patches.
    """
    H, W = images.shape[-2:]
    M = to_pixels(keep.to(images.dtype), grid, (H, W))  # B 1 H W
    return images * M + noise * (1 - M)


def clamp_to_pixels(x: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Normalised images [B, 3, H, W], clamped to what pixels of 0 to 1 become by normalising."""
    centre, spread = _channels(mean, x), _channels(std, x)
    return torch.clamp(x, (0 - centre) / spread, (1 - centre) / spread)


def occlude_patches(
    images: Tensor,
    *,
    share: float = 0.1,
    patch: int = 16,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
    noise: PatchNoise | Literal["mean"] = "unit_normalised",
    mean: tuple[float, float, float] = IMAGENET_MEAN,
    std: tuple[float, float, float] = IMAGENET_STD,
) -> Tensor:
    """Images with random patches covered; the rest is untouched. What is covered depends on (seed, sample id) alone.

    Args:
        images: uint8 [B, 3, H, W], sides multiples of `patch`.
        share: of the patches, see `occluded_count`.
        patch: side of a patch in pixels; best that of the network's tokens.
        seed: of the randomness.
        sample_ids: one per image; None takes 0, 1, ... in the order of the batch.
        noise: see `PatchNoise`; "mean" is another name of "zero".
        mean, std: with which the network's input is normalised.
    """
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
        raise TypeError(f"images must be uint8 [B, 3, H, W] (not normalised yet), got {images.dtype} {list(images.shape)}")
    B, C, H, W = images.shape
    grid, kind = patch_grid((H, W), patch), ALIASES.get(noise, noise)
    ids = range(B) if sample_ids is None else sample_ids
    if len(ids) != B:
        raise ValueError(f"{len(ids)} sample_ids for {B} images; give one for each")
    draws = _draws(seed, ids, images.device)
    keep = _random_mask(draws, grid, share)
    u = draws.uniform(0, 1, (occluded_count(share, grid[0] * grid[1]), C, patch, patch))  # for covered patches only
    covering = torch.zeros_like(images, memory_format=torch.contiguous_format)
    tiles = covering.view(B, C, grid[0], patch, grid[1], patch).permute(0, 2, 4, 1, 3, 5)  # B h w C p p
    tiles[keep.view(-1, *grid) == 0] = noise_of(u, kind, mean, std, as_bytes=True).flatten(0, 1)  # type: ignore[arg-type]
    return paste(images, keep, covering, grid)


def _draws(seed: int, sample_ids: Sequence[int | str], device: torch.device | str) -> KeyedDraws:
    return KeyedDraws(seed, sample_ids, "occlusion", device=device)


def _random_mask(draws: KeyedDraws, grid: tuple[int, int], share: float) -> Tensor:
    return keep_highest(draws.uniform(0, 1, grid).flatten(1), share)


def _channels(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None, None]
