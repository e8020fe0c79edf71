"""Do a few tokens get all the attention, whoever asks? Three numbers for what TAP 3.1 describes in words."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robustvit.analysis.attention_chunks import map_chunks, observe, tokens_per_window
from robustvit.analysis.batches import Images, image_batches
from robustvit.recording.tape import Tape

__all__ = ["MOST", "Overfocus", "overfocus", "overfocus_of"]

MOST = 5
"""Tokens whose share of the attention counts."""
DEFINITION = (
    f"of the map averaged over heads, prefix tokens left out: what the {MOST} most attended tokens get, as a share of what "
    "all image tokens get; the number of tokens that get more than 2/N on average; the mean cosine between rows and the mean "
    "row"
)


@dataclass(frozen=True)
class Overfocus:
    """One value per layer [L], the mean over images (Swin: over windows first); of one batch [L, B].

    Attributes:
        top_share: share of all attention that the most attended tokens get.
        crowded: tokens that get more than 2/N on average.
        row_similarity: mean cosine between rows and the mean row; 1 where all queries look alike.
        even_share: what `top_share` is where attention is spread evenly: 5 / N.
    """

    top_share: Tensor
    crowded: Tensor
    row_similarity: Tensor
    even_share: Tensor


def overfocus_of(tape: Tape, pictures: int, *, rows: int | None = None) -> Overfocus:
    """[L, B] each.

    Args:
        tape: from `observe`.
        pictures: B.
        rows: of the maps that exist at a time.
    """
    shares, crowds, cosines, evens = [], [], [], []
    for layer in range(len(tape.grids)):
        received = torch.zeros(())
        for chunk in map_chunks(tape, layer, pictures, rows):
            received = received + chunk.mean(2).sum(2)  # B W N
        N = tokens_per_window(tape, layer).to(received)  # W
        column = received / N[:, None]  # the mean row
        top = column.topk(min(MOST, column.shape[-1]), dim=-1).values.sum(-1)
        shares.append((top / column.sum(-1)).mean(1))
        evens.append((MOST / N).clamp(max=1).mean().expand(pictures))
        crowds.append((column > 2 / N[:, None]).float().sum(-1).mean(1))
        total = torch.zeros(())
        for chunk in map_chunks(tape, layer, pictures, rows):
            total = total + torch.cosine_similarity(_scaled(chunk.mean(2)), _scaled(column[:, :, None]), dim=-1).sum(-1)  # B W
        cosines.append((total / N).mean(1))
    return Overfocus(torch.stack(shares), torch.stack(crowds), torch.stack(cosines), torch.stack(evens))


def _scaled(rows: Tensor) -> Tensor:
    """Up to 1: where class tokens get all the attention, the squares of what is left would be 0."""
    return rows / rows.amax(-1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)


def overfocus(model: nn.Module, batches: Images, *, rows: int | None = None) -> Overfocus:
    """[L] each, over a dataset.

    Args:
        model: a network with attention.
        batches: normalised images [B, 3, H, W]: a batch, or a loader.
        rows: see `overfocus_of`.
    """
    sums = [torch.zeros(())] * 4
    count = 0
    for images in image_batches(batches):
        with observe(model) as tape:
            model(images)
        with torch.no_grad():
            found = overfocus_of(tape, len(images), rows=rows)
        values = (found.top_share, found.crowded, found.row_similarity, found.even_share)
        sums = [total + value.sum(1).cpu() for total, value in zip(sums, values, strict=True)]
        count += len(images)
    return Overfocus(*(total / count for total in sums))
