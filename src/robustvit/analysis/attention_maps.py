"""Attention as pictures: whole maps, heads, layers, and what one query sees (TAP Fig. 1, 3, 4, I to IV; AFAT Fig. 1, 3, 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robustvit.analysis.attention_chunks import map_chunks, observe, whole_map
from robustvit.recording import Tape

__all__ = ["AttentionMaps", "attention_maps", "query_map"]

DEFINITION = "attention after softmax, mean over heads unless per head, rows are queries, prefix tokens left out"


@dataclass(frozen=True)
class AttentionMaps:
    """Of one picture.

    Attributes:
        layer_maps: per chosen layer [N, N], the mean over heads (Swin: [windows, M, M]).
        head_maps: [heads, N, N] of the last chosen layer.
        query_maps: per chosen layer [Hp, Wp], what the query sees, the mean over heads.
        query: (row, column) of the query, as a share of the picture.
        layers: the chosen layers.
    """

    layer_maps: list[Tensor]
    head_maps: Tensor
    query_maps: list[Tensor]
    query: tuple[float, float]
    layers: tuple[int, ...]


def attention_maps(
    model: nn.Module, image: Tensor, *, layers: Sequence[int] = (-1,), query: tuple[float, float] = (0.5, 0.5)
) -> AttentionMaps:
    """The attention of one picture.

    Args:
        model: a network with attention.
        image: normalised [3, H, W].
        layers: indices of blocks; -1 is the last one with attention among tokens.
        query: (row, column) of the pixel that asks, as a share of the picture; (0.5, 0.5) is the middle.
    """
    with observe(model) as tape:
        model(image[None])
    count = len(tape.grids)
    wrong = [layer for layer in layers if not -count <= layer < count]
    if wrong or not layers:
        raise ValueError(f"layers={list(layers)}: this network has {count} blocks with attention, 0 to {count - 1}")
    chosen = tuple(layer % count for layer in layers)
    with torch.no_grad():
        maps = [whole_map(tape, layer, 1)[0] for layer in chosen]  # windows heads N N
        seen = [query_map(tape, layer, query) for layer in chosen]
    means = [one.mean(1) if len(one) > 1 else one.mean(1)[0] for one in maps]
    heads = maps[-1][0] if len(maps[-1]) == 1 else maps[-1].mean(0)
    return AttentionMaps(means, heads, seen, query, chosen)


def query_map(tape: Tape, layer: int, query: tuple[float, float]) -> Tensor:
    """[Hp, Wp]: the row of the token at `query`, the mean over heads; outside its window nothing is seen.

    Args:
        tape: from `observe`, of one picture.
        layer: index of the block.
        query: (row, column) as a share of the picture.
    """
    H, W = tape.grids[layer]
    token = min(int(query[0] * H), H - 1) * W + min(int(query[1] * W), W - 1)
    windows = tape.windows[layer]
    out = torch.zeros(H * W)
    if windows is None:
        start = 0
        for chunk in map_chunks(tape, layer, 1):
            if start <= token < start + chunk.shape[-2]:
                out = chunk[0, 0, :, token - start].mean(0).cpu()
            start += chunk.shape[-2]
        return out.view(H, W)
    window, place = (windows == token).nonzero()[0].tolist()
    row = whole_map(tape, layer, 1)[0, window, :, place].mean(0).cpu()  # M
    is_real = windows[window].cpu() >= 0
    out[windows[window].cpu()[is_real]] = row[is_real]
    return out.view(H, W)
