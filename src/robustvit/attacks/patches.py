"""Patches covered with noise: chosen at random, or by a network trained to find those that hurt (AFAT, Table 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from robustvit.attacks.pixel_network import PixelNetwork, channels, check_pixels
from robustvit.methods.patch_corruption import Noise, PatchScorer, cover_patches, draw_noise, keep_mask, random_scores
from robustvit.recording.block_outputs import block_tokens
from robustvit.recording.token_grids import token_stride
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.randomness import keyed_seed

__all__ = ["PatchSettings", "cover_adversarial", "cover_random", "fit_scorer"]


@dataclass(frozen=True)
class PatchSettings:
    """How patches are covered.

    Attributes:
        rho: share of the patches: floor(rho (N - 1)) + 1 of N.
        patch_size: side in pixels; None takes the token stride of the network, 16 for one without tokens.
        noise: what covers a patch; "zero" drops it.
    """

    rho: float = 0.1
    patch_size: int | None = None
    noise: Noise = "unit_normalised"

    def side(self, model: PixelNetwork, size: tuple[int, int]) -> int:
        if self.patch_size is not None:
            return self.patch_size
        try:
            return token_stride(model.network, size)
        except RuntimeError:  # nothing to record: no tokens
            return 16


A_TENTH = PatchSettings()


def cover_random(
    model: PixelNetwork,
    images: Tensor,
    labels: Tensor,
    settings: PatchSettings = A_TENTH,
    *,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
) -> Tensor:
    """Pictures with random patches covered.

    Args:
        model: gives the normalisation, in whose units the noise is, and the patches.
        images: float [B, 3, H, W] in 0 .. 1.
        labels: int64 [B]; without influence.
        settings: see `PatchSettings`.
        seed, sample_ids: what happens to a picture depends on (seed, its id) alone.
    """
    ids = check_pixels(images, labels, sample_ids)
    H, W = images.shape[-2:]
    side = settings.side(model, (H, W))
    seeds = _seeds(seed, ids)
    keep = keep_mask(random_scores(seeds, (H // side) * (W // side), images), settings.rho)
    return _covered(model, images, keep, settings, seeds)


def cover_adversarial(
    model: PixelNetwork,
    images: Tensor,
    labels: Tensor,
    scorer: PatchScorer,
    settings: PatchSettings = A_TENTH,
    *,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
) -> Tensor:
    """Pictures with the patches covered that `scorer` chooses; other arguments as in `cover_random`."""
    ids = check_pixels(images, labels, sample_ids)
    with torch.no_grad():
        keep = keep_mask(scorer(model.normalise(images).float()), settings.rho).to(images.dtype)
    return _covered(model, images, keep, settings, _seeds(seed, ids))


def fit_scorer(
    model: PixelNetwork,
    batches: Iterable[Tensor],
    settings: PatchSettings = A_TENTH,
    *,
    steps: int = 200,
    lr: float = 1e-3,
    seed: int = 0,
) -> PatchScorer:
    """A patch corruption network for a frozen classifier: it learns which patches change the features most.

    Two random masks of every picture are tried; the patches of the one with the larger alignment loss should get the lower
    scores (a logistic loss on the difference of their sums). AFAT's straight-through gradient knows nothing of patches that
    are not covered, and does not reliably climb on a frozen classifier.

    Args:
        model: the classifier; left as it was.
        batches: pixels [B, 3, H, W] in 0 .. 1, at least `steps` of them.
        settings: of the covering.
        steps: of Adam.
        lr: its rate.
        seed: of the start, the masks and the noise.

    Raises:
        ValueError: there are fewer batches.
    """
    scorer: PatchScorer | None = None
    done = 0
    for images in batches:
        check_interrupted()
        if done == steps:
            break
        if scorer is None:
            scorer = _new_scorer(model, images, settings, seed)
            optimizer = torch.optim.Adam(scorer.parameters(), lr=lr)
        optimizer.zero_grad()
        _ranking_loss(model, scorer, images, settings, [keyed_seed(seed, done, i) for i in range(len(images))]).backward()
        optimizer.step()
        done += 1
    if scorer is None or done < steps:
        raise ValueError(f"{steps} steps of training need as many batches, got {done}")
    return scorer.eval().requires_grad_(False)


def _ranking_loss(
    model: PixelNetwork, scorer: PatchScorer, images: Tensor, settings: PatchSettings, seeds: list[int]
) -> Tensor:
    x = model.normalise(images)
    N = scorer.grid[0] * scorer.grid[1]
    clean = _features(model, x)
    hurt, sums = [], []
    scores = scorer(x.float())
    for attempt in range(2):
        drawn = [keyed_seed(value, attempt, "mask") for value in seeds]
        keep = keep_mask(random_scores(drawn, N, x), settings.rho)
        cover = draw_noise(x, settings.noise, model.mean, model.std, drawn)
        spoiled = _features(model, cover_patches(x, keep, cover, model.mean, model.std))
        change = [(a - b).square().flatten(1).mean(1) for a, b in zip(clean, spoiled, strict=True)]
        hurt.append(torch.stack(change).mean(0))  # L_align of each picture
        sums.append((scores * (1 - keep)).sum(1))
    return F.softplus((sums[0] - sums[1]) * (hurt[0] - hurt[1]).sign()).mean()


def _features(model: PixelNetwork, x: Tensor) -> list[Tensor]:
    """Image tokens after every block; of a CNN, the positions of its maps."""
    own = next((parameter.dtype for parameter in model.network.parameters()), x.dtype)
    return [block.tokens.float() for block in block_tokens(model.network, x.to(own))]


def _new_scorer(model: PixelNetwork, images: Tensor, settings: PatchSettings, seed: int) -> PatchScorer:
    H, W = images.shape[-2:]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keyed_seed(seed, "scorer") >> 1)
        return PatchScorer((H, W), settings.side(model, (H, W))).to(images.device)


def _covered(model: PixelNetwork, images: Tensor, keep: Tensor, settings: PatchSettings, seeds: list[int]) -> Tensor:
    """In pixels; what is kept is untouched."""
    x = model.normalise(images)
    cover = draw_noise(x, settings.noise, model.mean, model.std, seeds)
    noise = (cover * channels(model.std, x) + channels(model.mean, x)).clamp(0, 1)
    zero, one = (0.0,) * 3, (1.0,) * 3
    return cover_patches(images, keep, noise, zero, one)


def _seeds(seed: int, ids: Sequence[int | str]) -> list[int]:
    return [keyed_seed(seed, i, "patches") for i in ids]
