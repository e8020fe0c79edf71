"""A batch of 8-bit images, and how it becomes what the network and the methods get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from robustvit.data.normalisation import Normalisation
from robustvit.runtime.nested import map_tensors
from robustvit.tasks.base import Task
from robustvit.tasks.mixing import Mix, MixedPart, mix_parts
from robustvit.training.augment.erasing import erase
from robustvit.training.augment.mixing import apply_mix
from robustvit.training.config import AugmentConfig

__all__ = ["Batch", "Distort", "Inputs", "prepare"]

Distort = Callable[[Tensor, Sequence[int]], Tensor]
"""(normalised images [B, 3, H, W], seeds of the samples) -> images, some of them distorted."""


@dataclass(frozen=True)
class Batch:
    """b augmented images, not yet mixed.

    Attributes:
        images: uint8 [b, 3, H, W].
        targets: as the task collates them: of a classifier int64 [b].
        seeds: b numbers, of (run seed, sample id, epoch): what happens to a sample later is drawn from them.
        ids: b names of images.
        view: uint8 [b, 3, H, W] with the spatial augmentations alone; None where nobody asked for it.
        unreadable: (id, reason) of images that were to be here, and were replaced by the next ones that can be read.
        shown: b sizes (h, w) of what shows the image; the rest, to the right and below, is padding. Empty where there is none.
        groups: b numbers of the groups of the update in which images are mixed, in ascending order; empty for no mixing.
    """

    images: Tensor
    targets: Any
    seeds: list[int]
    ids: list[str]
    view: Tensor | None = None
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    shown: Sequence[tuple[int, int]] = ()
    groups: Sequence[int] = ()


@dataclass(frozen=True)
class Inputs:
    """A prepared batch, on the device.

    Attributes:
        images: float [B, 3, H, W], normalised, distorted, mixed, erased.
        targets: as the task mixes them: of a classifier float32 [B, K], mixed and smoothed.
        view: float [B, 3, H, W], the spatial view, normalised only; None where the batch has none.
        unmixed: float [B, 3, H, W], `images` without mixing; None where nobody asked for it.
    """

    images: Tensor
    targets: Any
    view: Tensor | None
    unmixed: Tensor | None = None


def prepare(
    task: Task,
    batch: Batch,
    augment: AugmentConfig,
    mixes: Sequence[MixedPart],
    *,
    device: torch.device | str,
    normalisation: Normalisation,
    outputs: int,
    smoothing: float = 0.0,
    distort: Distort | None = None,
    with_unmixed: bool = False,
) -> Inputs:
    """Mixes, normalises and erases; with `distort`: normalises, distorts, mixes, erases.

    8-bit images are mixed before they are normalised and rounded, as timm does while collating. Distorted ones cannot be
    8-bit any more; they are mixed as they are. The spatial view is normalised and nothing else. Padding is set to 0 after
    normalising, which no 8-bit colour becomes exactly.

    Args:
        task: what is learned.
        batch: of one shard.
        augment: probability of erasing.
        mixes: how the batch is mixed, part by part; none for not at all.
        device: of the network.
        normalisation: of the network.
        outputs: of the network.
        smoothing: s of the targets.
        distort: DeepAugment's; chooses the samples that it distorts itself.
        with_unmixed: make `Inputs.unmixed` too.
    """
    targets = map_tensors(batch.targets, lambda tensor: tensor.to(device, non_blocking=True))
    pixels = batch.images.to(device, non_blocking=True)
    view = None if batch.view is None else normalisation(batch.view.to(device, non_blocking=True))
    distorted = None if distort is None else distort(normalisation(pixels), batch.seeds)

    def finished(mixes: Sequence[MixedPart]) -> Tensor:
        mixed = mix_parts(mixes, pixels if distorted is None else distorted, apply_mix)
        images = normalisation(mixed) if distorted is None else mixed
        return erase(_with_blank_padding(images, batch.shown), batch.seeds, augment.erasing)

    def mixed_targets(targets: Any, mix: Mix | None) -> Any:
        return task.mix(targets, mix, outputs=outputs, smoothing=smoothing)

    images, is_mixed = finished(mixes), any(part.mix is not None for part in mixes)
    return Inputs(
        images=images,
        targets=mix_parts(mixes, targets, mixed_targets),
        view=None if view is None else _with_blank_padding(view, batch.shown),
        unmixed=(finished(()) if is_mixed else images) if with_unmixed else None,
    )


def _with_blank_padding(images: Tensor, shown: Sequence[tuple[int, int]]) -> Tensor:
    """Sets the padding of normalised images [B, 3, H, W] to 0, in place."""
    whole = tuple(images.shape[2:])
    for i, (height, width) in enumerate(shown):
        if (height, width) != whole:
            images[i, :, height:] = 0
            images[i, :, :, width:] = 0
    return images
