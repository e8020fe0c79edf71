"""What random patches of noise do to a network: accuracy and attention over many masks (AFAT Fig. 1, 3 and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from robustvit.analysis.attention_chunks import check_attention, keep_maps, observe
from robustvit.analysis.attention_stability import attention_cosines
from robustvit.attacks.patches import A_TENTH, PatchSettings, cover_random
from robustvit.attacks.pixel_network import PixelNetwork
from robustvit.recording.tape import NothingRecordedError, Tape
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.runtime.randomness import keyed_seed

__all__ = ["Occlusion", "occlusion_study"]

DEFINITION = (
    "each mask covers floor(rho (N - 1)) + 1 of N patches with noise; over masks: accuracy, and the cosine between attention "
    "of the clean and of the covered image, mean over blocks and heads"
)


@dataclass(frozen=True)
class Occlusion:
    """What `occlusion_study` found.

    Attributes:
        right: bool [masks, B], whether the answer is right.
        cosines: float [masks, B], of the attention; None for a network without.
        clean_right: bool [B], whether the answer to the clean image is right.
    """

    right: Tensor
    cosines: Tensor | None
    clean_right: Tensor

    @property
    def accuracies(self) -> Tensor:
        """[masks]: the accuracy under each mask."""
        return self.right.float().mean(1)


def occlusion_study(
    model: PixelNetwork,
    images: Tensor,
    labels: Tensor,
    *,
    masks: int = 100,
    settings: PatchSettings = A_TENTH,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
    rows: int | None = None,
) -> Occlusion:
    """Covers every image with `masks` random masks.

    Args:
        model: pixels in 0 .. 1 -> logits; left as it was.
        images: float [B, 3, H, W] in 0 .. 1.
        labels: int64 [B].
        masks: how many; the paper has 100, and 1000 for single images.
        settings: share, size and noise of the patches.
        seed, sample_ids: the masks of an image depend on (seed, its id) alone.
        rows: of the attention maps that exist at a time.
    """
    if masks < 1:
        raise ValueError(f"masks={masks} is not possible; give at least 1")
    attends = _attends(model.network, (images.shape[-2], images.shape[-1]))
    settings = replace(settings, patch_size=settings.side(model, (images.shape[-2], images.shape[-1])))  # asked for once
    right, cosines = [], []
    with _look(model, attends) as clean:
        clean_right = _is_right(model(images), labels)
    if clean is not None:
        keep_maps(clean)
    for mask in range(masks):
        covered = cover_random(model, images, labels, settings, seed=keyed_seed(seed, mask), sample_ids=sample_ids)
        with _look(model, attends) as spoiled:
            logits = model(covered)
        right.append(_is_right(logits, labels))
        if clean is not None and spoiled is not None:
            with torch.no_grad():
                cosines.append(torch.cat(attention_cosines(clean, spoiled, len(images), rows=rows), dim=1).mean(1).cpu())
    return Occlusion(torch.stack(right), torch.stack(cosines) if cosines else None, clean_right)


def _attends(network: nn.Module, size: tuple[int, int]) -> bool:
    try:
        check_attention(network, size)
    except NothingRecordedError:
        return False
    return True


def _is_right(logits: Tensor, labels: Tensor) -> Tensor:
    """bool [B]; NaN is no answer, and wrong."""
    return ((logits.argmax(1) == labels) & logits.isfinite().all(1)).cpu()


def _look(model: nn.Module, attends: bool) -> AbstractContextManager[Tape | None]:
    """`observe`, or evaluation mode alone for a network without attention."""
    return observe(model) if attends else evaluation_mode(model)
