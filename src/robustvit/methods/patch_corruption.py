"""AFAT's patch corruption network: chooses the patches whose corruption hurts most, and covers them with noise.

It sees the normalised image and scores every patch; the `rho` share with the lowest scores is covered (AFAT, section 3.1). The
choice is a step function; gradients pass straight through it. The released code clips them to +-1 per patch on the way, after
a scale of hundreds: in small batches little but signs is left. Covered patches have large gradients that tell how much they
hurt, the many kept ones small gradients of nearly random sign, so that the signs add up to noise and the network climbs with
luck or not at all (`benchmarks/corruption_network.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robustvit.corruptions.patches import PatchNoise, check_noise, clamp_to_pixels, keep_highest, noise_of, paste, patch_grid
from robustvit.methods.base import draw_uniform
from robustvit.runtime.checkpoints import method_state
from robustvit.runtime.weights import CheckpointError

__all__ = ["PatchScorer", "cover_patches", "draw_noise", "keep_mask", "load_scorer", "random_scores"]


class PatchScorer(nn.Module):
    """C: `s = W flatten(GELU(conv(x)))`, one score a patch, without biases.

    Args:
        img_size: (H, W) of the images.
        patch_size: side of a patch; should be the token stride of the classifier.
    """

    def __init__(self, img_size: tuple[int, int], patch_size: int = 16) -> None:
        super().__init__()
        self.img_size, self.patch_size = img_size, patch_size
        self.grid = patch_grid(img_size, patch_size)
        N = self.grid[0] * self.grid[1]
        self.conv = nn.Conv2d(3, 1, patch_size, stride=patch_size, bias=False)
        self.act = nn.GELU()
        self.fc = nn.Linear(N, N, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, 3, H, W] -> [B, N]; low scores are covered."""
        if x.shape[-2:] != self.img_size:
            H, W = self.img_size
            raise ValueError(f"this network scores images of {H}x{W} pixels, got {x.shape[-2]}x{x.shape[-1]}")
        return self.fc(self.act(self.conv(x)).flatten(1))


def load_scorer(place: str | Path) -> PatchScorer:
    """The patch corruption network that AFAT trained beside its classifier.

    Args:
        place: the folder of the run, or one of its checkpoints.

    Raises:
        FileNotFoundError, CheckpointError: there is no run with such a network.
    """
    learned = method_state(place, "afat")
    if not learned:
        raise CheckpointError(f"the run in {place} chose its patches at random (selection=random): it has no network for that")
    try:
        scorer = _scorer_of(learned)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, ZeroDivisionError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise CheckpointError(f"the corruption network of {place} cannot be used ({reason}); train it again") from error
    return scorer.eval().requires_grad_(False)


def _scorer_of(learned: dict[str, Any]) -> PatchScorer:
    state: dict[str, Tensor] = learned["scorer"]
    H, W = learned["img_size"]
    side = state["conv.weight"].shape[-1]
    N = (int(H) // side) * (int(W) // side)
    if state["fc.weight"].shape != (N, N):  # before memory is taken for what a damaged file asks for
        raise ValueError(f"its weights are not those of images of {H}x{W} pixels and patches of {side}")
    if not all(value.isfinite().all() for value in state.values()):
        raise ValueError("some of its weights are not finite numbers")
    scorer = PatchScorer((H, W), side)
    scorer.load_state_dict(state)
    return scorer


def keep_mask(scores: Tensor, rho: float, clip: float = 1.0) -> Tensor:
    """1 for patches that stay and 0 for the `occluded_count(rho, N)` lowest scores; straight-through gradient.

    Args:
        scores: [B, N].
        rho: share to cover, 0 <= rho < 1.
        clip: largest gradient of a score, 1 as released; 0 for any.
    """
    return _StraightThrough.apply(scores, rho, clip)


class _StraightThrough(torch.autograd.Function):
    """The mask forward; backward, the gradient of the mask as it is, or clipped."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, rho: float, clip: float) -> Tensor:
        ctx.clip = clip
        return keep_highest(scores, rho)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient.clamp(-ctx.clip, ctx.clip) if ctx.clip else gradient, None, None


def random_scores(seeds: Sequence[int], patches: int, like: Tensor) -> Tensor:
    """Scores [B, N] whose lowest are a uniform choice without replacement: the ablation without a network.

    Args:
        seeds: one per sample.
        patches: N.
        like: gives the device and dtype.
    """
    return draw_uniform(seeds, (patches,), "afat selection", like)


def draw_noise(x: Tensor, noise: PatchNoise, mean: tuple[float, ...], std: tuple[float, ...], seeds: Sequence[int]) -> Tensor:
    """What to cover patches of `x` with: [B, 3, H, W] in normalised space.

    Args:
        x: normalised images [B, 3, H, W].
        noise: see `PatchNoise`.
        mean, std: of the normalisation.
        seeds: one per sample.
    """
    check_noise(noise)
    u = torch.zeros_like(x) if noise == "zero" else draw_uniform(seeds, tuple(x.shape[1:]), "afat noise", x)
    return noise_of(u, noise, mean, std)


def cover_patches(x: Tensor, keep: Tensor, cover: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """`clamp(x M + d (1 - M))` to the range of pixels: AFAT, Eq. 1, and the clamp of the released code.

    Args:
        x: normalised images [B, 3, H, W].
        keep: [B, N], row by row, from `keep_mask`; of square patches, whose side follows from their number.
        cover: d, of the shape of `x`.
        mean, std: of the normalisation.
    """
    _, _, H, W = x.shape
    side = round((H * W / keep.shape[1]) ** 0.5)
    grid = patch_grid((H, W), side)
    if grid[0] * grid[1] != keep.shape[1]:
        raise ValueError(f"{keep.shape[1]} patches do not tile {H}x{W} pixels")
    return clamp_to_pixels(paste(x, keep, cover, grid), mean, std)
