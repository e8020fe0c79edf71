"""Attention maps a few rows at a time, of whatever kind of network, so that N x N maps of many tokens need not fit.

A network runs once with its fused attention while q and k of every block are kept (`record(..., rows=True)`); rows of the maps
are computed from them when they are looked at. Attention of another kind, whose rows cannot be computed by themselves, is
recorded as whole maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from robustvit.methods.probing import evaluation_mode
from robustvit.recording import Tape, attention_blocks, has_attention_rows, record

__all__ = ["ROWS", "map_chunks", "observe", "whole_map"]

ROWS = 256
"""Rows of a map that exist at a time."""


@contextmanager
def observe(model: nn.Module) -> Iterator[Tape]:
    """Records what `map_chunks` needs, in evaluation mode and without gradients; the network is left as it was."""
    by_rows = all(has_attention_rows(block.attn) for block in attention_blocks(model))
    with evaluation_mode(model), record(model, attention=not by_rows, rows=by_rows) as tape:
        yield tape


def map_chunks(tape: Tape, layer: int, pictures: int, rows: int = ROWS) -> Iterator[Tensor]:
    """Rows of a block's attention among image tokens: float [B, windows, heads, R, N], R at most `rows`.

    Prefix tokens are left out, as rows and as columns, without renormalising. Networks without windows have one.

    Args:
        tape: from `observe`.
        layer: index of the block.
        pictures: B, of the batch that ran.
        rows: at a time.
    """
    prefix = tape.prefix_tokens
    if tape.attention:
        maps = tape.attention[layer][:, :, prefix:, prefix:]
        for chunk in maps.split(rows, dim=2):
            yield chunk.unflatten(0, (pictures, -1))
        return
    known = tape.rows[layer]
    assert known is not None, "observe() records whole maps of attention that has no rows"
    for part in known.split(rows, skip=prefix):
        yield part.compute()[..., prefix:].unflatten(0, (pictures, -1))


def whole_map(tape: Tape, layer: int, pictures: int) -> Tensor:
    """[B, windows, heads, N, N]."""
    return torch.cat(list(map_chunks(tape, layer, pictures)), dim=3)
