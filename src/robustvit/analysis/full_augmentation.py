"""Images as a student of STL sees them: RandAugment, CutMix and random erasing (STL Fig. 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from robustvit.attacks.pixel_network import PixelNetwork, channels
from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.erasing import erase
from robustvit.training.augment.mixing import apply_mix, draw_mix
from robustvit.training.augment.views import RandAugmentPair
from robustvit.training.config import AugmentConfig

__all__ = ["fully_augmented"]

RECIPE = "rand-m9-mstd0.5-inc1"
MIXING = AugmentConfig(cutmix=1.0, mix_prob=1.0)


def fully_augmented(model: PixelNetwork, pixels: Tensor, ids: Sequence[str], seed: int = 0) -> Tensor:
    """float [B, 3, H, W] in 0 .. 1: every image with RandAugment, CutMix with its partner, and erasing.

    Args:
        model: gives the normalisation, in whose units the noise of erasing is.
        pixels: uint8 [B, 3, H, W]; partners are the first and the last, and so on, of the middle one of an odd number the
            first. A single image has none, and goes without CutMix.
        ids: one per image; what RandAugment and erasing do depends on (seed, id) alone.
        seed: of all draws.
    """
    H, W = pixels.shape[-2:]
    fill = tuple(min(255, round(255 * value)) for value in model.mean)
    augment = RandAugmentPair(RECIPE, fill=fill, size=(H, W), interpolation="bicubic")
    seeds = [keyed_seed(seed, i, "full augmentation") for i in ids]
    images = [Image.fromarray(picture.permute(1, 2, 0).cpu().numpy()) for picture in pixels]
    views = [augment(image, value, with_view=False)[0] for image, value in zip(images, seeds, strict=True)]
    x = torch.stack([torch.from_numpy(np.array(view)).permute(2, 0, 1) for view in views]).float() / 255
    x = _mixed(x, seed) if len(x) > 1 else x
    erased = erase(model.normalise(x), seeds, 1.0)
    return (erased * channels(model.std, x) + channels(model.mean, x)).clamp(0, 1)


def _mixed(x: Tensor, seed: int) -> Tensor:
    """CutMix with the batch reversed; the middle one of an odd number is its own partner there, and gets the first."""
    mix = draw_mix(MIXING, seed, 0, x.shape[-2], x.shape[-1])
    if len(x) % 2 == 0:
        return apply_mix(x, mix)
    middle = len(x) // 2
    others = apply_mix(torch.cat([x[:middle], x[middle + 1 :]]), mix)
    own = apply_mix(torch.stack([x[middle], x[0]]), mix)[:1]
    return torch.cat([others[:middle], own, others[middle:]])
