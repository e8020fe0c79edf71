"""Which patches hurt a network most, and what covering them costs (AFAT Fig. 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from robustvit.attacks.chosen_patches import cover_adversarial
from robustvit.attacks.patches import A_TENTH, PatchSettings, cover_random
from robustvit.attacks.pixel_network import PixelNetwork
from robustvit.methods.patch_corruption import PatchScorer
from robustvit.runtime.evaluation_mode import evaluation_mode

__all__ = ["PatchEffect", "patch_effect"]

DEFINITION = (
    "confidence (softmax) of the true class of an image, with the patches covered that a patch corruption network chooses, "
    "and with as many random ones; floor(rho (N - 1)) + 1 of N patches"
)


@dataclass(frozen=True)
class PatchEffect:
    """Of a batch.

    Attributes:
        chosen: [B, 3, H, W] pixels in 0 .. 1, with the chosen patches covered.
        clean, spoiled, by_chance: float [B], the confidence of the true class: before, with the chosen patches covered, and
            with random ones.
    """

    chosen: Tensor
    clean: Tensor
    spoiled: Tensor
    by_chance: Tensor


def patch_effect(
    model: PixelNetwork,
    images: Tensor,
    labels: Tensor,
    scorer: PatchScorer,
    settings: PatchSettings = A_TENTH,
    *,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
) -> PatchEffect:
    """What the patches that `scorer` chooses do to a batch.

    Args:
        model: pixels in 0 .. 1 -> logits; left as it was.
        images: float [B, 3, H, W] in 0 .. 1.
        labels: int64 [B], the true classes.
        scorer: from `fit_scorer` or `load_scorer`.
        settings: share, size and noise of the patches.
        seed, sample_ids: noise and random patches of an image depend on (seed, its id) alone.
    """
    options = dict(seed=seed, sample_ids=sample_ids)
    chosen = cover_adversarial(model, images, labels, scorer, settings, **options)  # type: ignore[arg-type]
    by_chance = cover_random(model, images, labels, settings, **options)  # type: ignore[arg-type]
    with evaluation_mode(model):
        confidences = [model(x).softmax(1).gather(1, labels[:, None])[:, 0] for x in (images, chosen, by_chance)]
    return PatchEffect(chosen, *(torch.as_tensor(value).cpu() for value in confidences))
