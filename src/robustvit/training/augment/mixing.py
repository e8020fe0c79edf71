"""Mixup and CutMix of groups of images, each group mixed with itself reversed.

The draws are timm's. A group is what one GPU has in the published programs, each of which draws for itself: the batch of an
update has groups of `augment.mix_group` images, whatever the processes and micro-batches are. `sampling` says which images
are in a group, and keeps partners together: what a shard has of a group is mixed with itself reversed, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from robustvit.runtime.randomness import keyed_seed
from robustvit.tasks.mixing import Mix, MixedPart
from robustvit.training.augment.keyed_timm import keyed_copy, reseed
from robustvit.training.config import AugmentConfig

__all__ = ["apply_mix", "count_groups", "draw_mix", "draw_mixes", "is_mixing"]


def is_mixing(augment: AugmentConfig) -> bool:
    """Whether some batches are mixed."""
    return augment.mix_prob > 0 and (augment.mixup > 0 or augment.cutmix > 0)


def count_groups(augment: AugmentConfig, batch_size: int) -> int:
    """Groups of images that the batch of an update has, each mixed among themselves; 0 where nothing is mixed.

    Raises:
        ValueError: the batch cannot be divided into groups of this size.
    """
    if not is_mixing(augment):
        return 0
    size = augment.mix_group
    if not size or size >= batch_size:
        return 1
    if batch_size % size:
        possible = max((other for other in range(2, size, 2) if batch_size % other == 0), default=0)
        told = f"{possible}, or 0 to draw once for the whole batch" if possible else "0 to draw once for the whole batch"
        raise ValueError(f"augment.mix_group={size} does not divide loop.batch_size={batch_size}; give {told}")
    return batch_size // size


def draw_mixes(
    augment: AugmentConfig, seed: int, update: int, groups: Sequence[int], height: int, width: int
) -> tuple[MixedPart, ...]:
    """How the images of a shard are mixed, part by part; none where nothing is mixed.

    Args:
        augment: the parameters of the distributions.
        seed: of the run.
        update: counted over all epochs.
        groups: the group of each image, the images of one group in a row; empty where nothing is mixed.
        height, width: of the images in pixels.
    """
    return tuple(
        MixedPart(len(list(images)), draw_mix(augment, seed, update, height, width, group=group))
        for group, images in groupby(groups)
    )


def draw_mix(augment: AugmentConfig, seed: int, update: int, height: int, width: int, *, group: int = 0) -> Mix | None:
    """How a group of images of an update is mixed; None for not at all.

    Args:
        augment: the parameters of the distributions.
        seed: of the run.
        update: counted over all epochs.
        height, width: of the images in pixels.
        group: its number in the batch.
    """
    if not is_mixing(augment):
        return None
    timm_mixup = keyed_copy("mixup")
    reseed(keyed_seed(seed, update, "mixing", *([group] if group else [])))
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
    """Images [B, 3, H, W] mixed with themselves reversed, then in new memory; 8-bit ones are rounded to the nearest integer.

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
