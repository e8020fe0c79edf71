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

from robustvit.recording.tape import Tape, attention_blocks, has_attention_rows, record
from robustvit.runtime.evaluation_mode import evaluation_mode

__all__ = ["check_attention", "keep_maps", "map_chunks", "observe", "tokens_per_window"]

CHUNK_BYTES = 2**26
"""Of the rows of a map that exist at a time, unless their number is given."""
KEPT_BYTES = 2**29
"""Of all maps of a batch that are kept for many looks; more are computed for each."""


@contextmanager
def observe(model: nn.Module) -> Iterator[Tape]:
    """Records what `map_chunks` needs, in evaluation mode and without gradients; the network is left as it was."""
    by_rows = all(has_attention_rows(block.attn) for block in attention_blocks(model))
    with evaluation_mode(model), record(model, attention=not by_rows, rows=by_rows) as tape:
        yield tape


def check_attention(model: nn.Module, size: tuple[int, int]) -> None:
    """Raises NothingRecordedError where the maps of a network cannot be read, as an empty image of `size` shows."""
    parameter = next(model.parameters())
    with observe(model):
        model(parameter.new_zeros(1, 3, *size))


def keep_maps(tape: Tape) -> None:
    """Computes the maps of all blocks, where they fit `KEPT_BYTES`, for those who look at them many times.

    Args:
        tape: from `observe`; `map_chunks` gives the same afterwards.
    """
    known = [rows for rows in tape.rows if rows is not None]
    if not tape.attention and sum(4 * rows.k[..., 0].numel() * rows.q.shape[2] for rows in known) <= KEPT_BYTES:
        with torch.no_grad():
            tape.attention = [rows.compute() for rows in known]


def map_chunks(tape: Tape, layer: int, pictures: int, rows: int | None = None) -> Iterator[Tensor]:
    """Rows of a block's attention among image tokens: float [B, windows, heads, R, N], R at most `rows`.

    Prefix tokens are left out, as rows and as columns, without renormalising. Networks without windows have one. What Swin
    pads its windows with is 0, as row and as column.

    Args:
        tape: from `observe`.
        layer: index of the block.
        pictures: B, of the batch that ran.
        rows: at a time; None for as many as fit `CHUNK_BYTES`.
    """
    is_real = _real_places(tape, layer)
    start = 0
    for chunk in _all_chunks(tape, layer, pictures, rows):
        if is_real is None:
            yield chunk
            continue
        stop = start + chunk.shape[-2]
        yield chunk * is_real[:, None, start:stop, None] * is_real[:, None, None]  # W 1 R 1 and W 1 1 N
        start = stop


def tokens_per_window(tape: Tape, layer: int) -> Tensor:
    """[windows]: how many tokens attend to each other; padding does not count."""
    windows = tape.windows[layer]
    if windows is None:
        H, W = tape.grids[layer]
        return torch.tensor([H * W])
    return (windows >= 0).sum(1)


def _all_chunks(tape: Tape, layer: int, pictures: int, rows: int | None) -> Iterator[Tensor]:
    prefix = tape.prefix_tokens
    if tape.attention:
        maps = tape.attention[layer][:, :, prefix:, prefix:]
        for chunk in maps.split(rows or _rows_that_fit(maps[:, :, 0]), dim=2):
            yield chunk.unflatten(0, (pictures, -1))
        return
    known = tape.rows[layer]
    assert known is not None, "observe() records whole maps of attention that has no rows"
    for part in known.split(rows or _rows_that_fit(known.k[..., 0]), skip=prefix):
        yield part.compute()[..., prefix:].unflatten(0, (pictures, -1))


def _rows_that_fit(row: Tensor) -> int:
    """How many rows of maps [B, heads, N] a chunk has."""
    return max(1, CHUNK_BYTES // (4 * row.numel()))


def _real_places(tape: Tape, layer: int) -> Tensor | None:
    """[windows, M], 1 for tokens and 0 for padding; None where nothing is padded."""
    windows = tape.windows[layer]
    return None if windows is None or bool((windows >= 0).all()) else (windows >= 0).float()
