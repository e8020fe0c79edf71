"""Mixup and CutMix of a batch with itself reversed, drawn once for all processes and micro-batches of an update.

The draws are timm's. Image i is mixed with image B-1-i; `sampling` deals a global batch out so that this
holds in every shard.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robustvit.runtime.randomness import keyed_seed
from robustvit.tasks.base import Mix
from robustvit.training.augment.keyed_timm import keyed_copy, reseed
from robustvit.training.config import AugmentConfig

__all__ = ["apply_mix", "draw_mix", "is_mixing"]


def is_mixing(augment: AugmentConfig) -> bool:
    """Whether some batches are mixed."""
    return augment.mix_prob > 0 and (augment.mixup > 0 or augment.cutmix > 0)


def draw_mix(augment: AugmentConfig, seed: int, update: int, height: int, width: int) -> Mix | None:
    """How the batch of an update is mixed; None for not at all.

    Args:
        augment: the parameters of the distributions.
        seed: of the run.
        update: counted over all epochs.
        height, width: of the images in pixels.
    """
    if not is_mixing(augment):
        return None
    timm_mixup = keyed_copy("mixup")
    reseed(keyed_seed(seed, update, "mixing"))
    mixup = timm_mixup.Mixup(augment.mixup, augment.cutmix, prob=augment.mix_prob, switch_prob=augment.mix_switch_prob)
    lam, is_cutmix = mixup._params_per_batch()
    if lam == 1:
        return None
    if not is_cutmix:
        return Mix(float(lam))
    box, lam = timm_mixup.cutmix_bbox_and_lam((height, width), lam)
    top, bottom, left, right = (int(edge) for edge in box)
    return Mix(float(lam), (top, bottom, left, right))


def apply_mix(images: Tensor, mix: Mix | None) -> Tensor:
    """The mixed images [B, 3, H, W], in new memory where they are mixed; 8-bit ones are rounded to the nearest integer.

    Raises:
        ValueError: the number of images is odd.
    """
    if mix is None:
        return images
    if len(images) % 2:
        raise ValueError(f"{len(images)} images cannot be mixed in pairs; give an even batch")
    if mix.box is not None:
        top, bottom, left, right = mix.box
        mixed = images.clone()
        mixed[:, :, top:bottom, left:right] = images[:, :, top:bottom, left:right].flip(0)
        return mixed
    is_8_bit = images.dtype == torch.uint8
    own = images.float() if is_8_bit else images.clone()
    mixed = own.flip(0).mul_(1 - mix.lam).add_(own.mul_(mix.lam))  # in place: fresh memory costs more than the sums
    return mixed.round_().to(torch.uint8) if is_8_bit else mixed
