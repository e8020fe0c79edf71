"""Which patches a network looks at, from its recorded attention, on whatever grid a block has.

A patch is a cell of the grid of one block: the pixels at the place of a token. In a block with a finer grid it is several
tokens, in one with a coarser grid a part of one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robustvit.corruptions.patches import to_pixels
from robustvit.recording.tape import Tape

__all__ = ["attention_drawn", "attention_received", "pixel_mask", "tokens_of"]

LEAST = 1e-12
"""Attention below this counts as this, so that its logarithm is finite."""


def attention_received(tape: Tape, layer: int) -> Tensor:
    """[B, N]: what each image token gets of the attention, the mean over heads and over all queries, class token included.

    In Swin the queries are those of the token's window.
    """
    maps, windows = tape.attention[layer], tape.windows[layer]
    received = maps.mean((1, 2))  # B keys, or (B windows) M
    if windows is None:
        return received[:, tape.prefix_tokens :]
    return _to_grid(received, windows, tape.grids[layer])


def attention_drawn(tape: Tape, layer: int, tokens: Tensor) -> Tensor:
    """[B]: the mean over queries of log(attention on `tokens`), attention being the mean over heads.

    Args:
        tape: of a forward pass.
        layer: index of the block.
        tokens: float [B, N] on the grid of the block, 1 for those that should draw attention. In Swin only the queries of
            windows with such a token count.
    """
    maps, windows = tape.attention[layer].mean(1), tape.windows[layer]  # B queries keys, or (B windows) M M
    if windows is None:
        wanted = torch.cat([tokens.new_zeros(len(tokens), tape.prefix_tokens), tokens], dim=1)
        return _log(torch.einsum("bqk,bk->bq", maps, wanted)).mean(1)
    is_real = (windows >= 0).to(tokens.dtype)  # W M
    wanted = tokens[:, windows.clamp(min=0)] * is_real  # B W M
    drawn = _log(torch.einsum("wqk,wk->wq", maps, wanted.flatten(0, 1))).unflatten(0, wanted.shape[:2])  # B W M
    queries = is_real * (wanted.sum(-1, keepdim=True) > 0)
    return (drawn * queries).sum((1, 2)) / queries.sum((1, 2))


def tokens_of(patches: Tensor, patch_grid: tuple[int, int], grid: tuple[int, int]) -> Tensor:
    """float [B, N]: 1 for the tokens of `grid` that touch one of the patches.

    Args:
        patches: int64 [B, k], cells of `patch_grid`.
        patch_grid, grid: (rows, columns) of the patches and of the tokens.
    """
    cells = _cells(patches, patch_grid)  # B 1 h w
    (h, w), (H, W) = patch_grid, grid
    fine = cells.repeat_interleave(H, 2).repeat_interleave(W, 3)  # B 1 hH wW
    return torch.nn.functional.max_pool2d(fine, (h, w)).flatten(1)


def pixel_mask(patches: Tensor, patch_grid: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """float [B, 1, H, W]: 1 for the pixels of the patches.

    Raises:
        ValueError: the patches do not divide the image evenly.
    """
    (h, w), (H, W) = patch_grid, size
    if H % h or W % w:
        raise ValueError(f"{h}x{w} patches do not divide {H}x{W} pixels; resize the images")
    return to_pixels(_cells(patches, patch_grid).flatten(1), patch_grid, size)


def _cells(patches: Tensor, grid: tuple[int, int]) -> Tensor:
    B = len(patches)
    return torch.zeros(B, grid[0] * grid[1], device=patches.device).scatter_(1, patches, 1.0).view(B, 1, *grid)


def _to_grid(values: Tensor, windows: Tensor, grid: tuple[int, int]) -> Tensor:
    """[B * windows, M] -> [B, N], each token from its place."""
    values = values.unflatten(0, (-1, len(windows))).flatten(1)  # B (W M)
    places = windows.flatten()
    is_real = places >= 0
    out = values.new_zeros(len(values), grid[0] * grid[1])
    return out.index_copy(1, places[is_real], values[:, is_real])


def _log(x: Tensor) -> Tensor:
    return x.clamp(min=LEAST).log()
