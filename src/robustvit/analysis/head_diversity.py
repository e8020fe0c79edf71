"""Do the heads of a layer look at different things? (TAP 4.1.2)"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from robustvit.analysis.attention_chunks import map_chunks, observe
from robustvit.analysis.attention_stability import LEAST_SQUARES
from robustvit.analysis.batches import Images, image_batches
from robustvit.recording.tape import Tape

__all__ = ["head_diversity", "head_similarity"]

DEFINITION = (
    "mean over blocks and over pairs of different heads of the cosine between their attention maps, prefix tokens left out; "
    "lower is more diverse (Swin: per window, then averaged)"
)


def head_similarity(tape: Tape, pictures: int, *, rows: int | None = None) -> Tensor:
    """[L, B]: the mean over pairs of different heads of `cos(vec A[l, h], vec A[l, h'])`; NaN for layers with one head.

    Args:
        tape: from `observe`.
        pictures: B.
        rows: of the maps that exist at a time.
    """
    found = []
    for layer in range(len(tape.grids)):
        gram = _gram_of(tape, layer, pictures, rows, torch.float32)  # B W h h
        if gram.diagonal(dim1=-2, dim2=-1).min() < LEAST_SQUARES:
            gram = _gram_of(tape, layer, pictures, rows, torch.float64)
        norms = gram.diagonal(dim1=-2, dim2=-1).sqrt().clamp(min=torch.finfo(gram.dtype).tiny)
        cosine = gram / (norms[..., :, None] * norms[..., None, :])
        heads = cosine.shape[-1]
        pairs = torch.triu(torch.ones(heads, heads, dtype=torch.bool, device=cosine.device), diagonal=1)
        found.append(cosine[..., pairs].mean(-1).mean(1).float())
    return torch.stack(found)


def _gram_of(tape: Tape, layer: int, pictures: int, rows: int | None, dtype: torch.dtype) -> Tensor:
    gram = torch.zeros(())
    for chunk in map_chunks(tape, layer, pictures, rows):
        flat = (chunk.cpu() if chunk.device.type == "mps" else chunk).flatten(-2).to(dtype)  # B W heads (R N)
        gram = gram + flat @ flat.transpose(-2, -1)
    return gram


def head_diversity(model: nn.Module, batches: Images, *, rows: int | None = None) -> Tensor:
    """[L]: `head_similarity` over a dataset, the mean over images.

    Args:
        model: a network with attention.
        batches: normalised images [B, 3, H, W]: a batch, or a loader.
        rows: see `head_similarity`.
    """
    total, count = torch.zeros(()), 0
    for images in image_batches(batches):
        with observe(model) as tape:
            model(images)
        with torch.no_grad():
            total = total + head_similarity(tape, len(images), rows=rows).sum(1).cpu()
        count += len(images)
    return total / count
