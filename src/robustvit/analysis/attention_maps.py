"""Attention as images: whole maps, heads, layers, and what one query sees (TAP Fig. 1, 3, 4, I to IV; AFAT Fig. 1, 3, 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustvit.analysis.attention_chunks import map_chunks, observe
from robustvit.recording.tape import Tape

__all__ = ["MOST_SHOWN", "AttentionMaps", "attention_maps", "block_positions", "query_map"]

ROWS = 256
MOST_SHOWN = 256
"""Rows of a map as an image; of more tokens, squares of entries are averaged."""
DEFINITION = (
    "attention after softmax, mean over heads unless per head, rows are queries, prefix tokens left out (Swin: mean over "
    f"windows); maps of more than {MOST_SHOWN} tokens are averaged in squares; "
    "cosine: between the maps shown, clean and corrupted"
)


@dataclass(frozen=True)
class AttentionMaps:
    """Of one image; n is the number of tokens N, or of squares of them where there are more than `MOST_SHOWN`.

    Attributes:
        layer_maps: per chosen layer [n, n], the mean over heads (Swin: and over windows).
        head_maps: [heads, n, n] of the last chosen layer.
        query_maps: per chosen layer [Hp, Wp], what the query sees, the mean over heads.
        query: (row, column) of the query, as a share of the image.
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
    """The attention of one image, a few rows of the maps at a time.

    Args:
        model: a network with attention.
        image: normalised [3, H, W].
        layers: indices of blocks; -1 is the last one with attention among tokens.
        query: (row, column) of the pixel that asks, as a share of the image; (0.5, 0.5) is the middle.
    """
    with observe(model) as tape:
        model(image[None])
    chosen = block_positions(layers, len(tape.grids))
    with torch.no_grad():
        maps = [_shown_map(tape, layer) for layer in chosen]  # heads n n
        seen = [query_map(tape, layer, query) for layer in chosen]
    return AttentionMaps([one.mean(0) for one in maps], maps[-1], seen, query, chosen)


def block_positions(layers: Sequence[int], count: int) -> tuple[int, ...]:
    """Positions from the front, of blocks counted from either end.

    Raises:
        ValueError: there is no such block, or none was chosen.
    """
    if not layers or any(not -count <= layer < count for layer in layers):
        raise ValueError(f"layers={list(layers)}: this network has {count} blocks, 0 to {count - 1} (or -{count} to -1)")
    return tuple(layer % count for layer in layers)


def _shown_map(tape: Tape, layer: int) -> Tensor:
    """[heads, n, n] of the only image, the mean over windows, as an image of at most `MOST_SHOWN` rows."""
    windows = tape.windows[layer]
    N = tape.grids[layer][0] * tape.grids[layer][1] if windows is None else windows.shape[1]
    side = -(-N // MOST_SHOWN)
    parts = []
    for chunk in map_chunks(tape, layer, 1, rows=side * max(1, ROWS // side)):  # 1 W heads R N
        rows = chunk[0].mean(0)  # heads R N
        parts.append(F.avg_pool2d(rows, side, ceil_mode=True) if side > 1 else rows)
    return torch.cat(parts, dim=1).cpu()


def query_map(tape: Tape, layer: int, query: tuple[float, float]) -> Tensor:
    """[Hp, Wp]: the row of the token at `query`, the mean over heads; outside its window nothing is seen.

    Args:
        tape: from `observe`, of one image.
        layer: index of the block.
        query: (row, column) as a share of the image.
    """
    H, W = tape.grids[layer]
    token = min(int(query[0] * H), H - 1) * W + min(int(query[1] * W), W - 1)
    windows = tape.windows[layer]
    window, place = (0, token) if windows is None else (windows == token).nonzero()[0].tolist()
    row = torch.zeros(0)
    start = 0
    for chunk in map_chunks(tape, layer, 1):
        if start <= place < start + chunk.shape[-2]:
            row = chunk[0, window, :, place - start].mean(0).cpu()
        start += chunk.shape[-2]
    if windows is None:
        return row.view(H, W)
    out = torch.zeros(H * W)
    tokens = windows[window].cpu()
    out[tokens[tokens >= 0]] = row[tokens >= 0]
    return out.view(H, W)
