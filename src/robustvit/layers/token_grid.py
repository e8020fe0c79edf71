"""Tokens and maps are two views of the same memory.

Tokens [B, N, C] in row-major order are, read as [B, Hp, Wp, C], a channels-last map. The convolutions keep that layout, so
going back and forth copies nothing.
"""

from __future__ import annotations

from torch import Tensor

__all__ = ["Grid", "grid_of_image", "map_to_tokens", "tokens_to_map"]

Grid = tuple[int, int]
"""(Hp, Wp): rows and columns of tokens."""


def tokens_to_map(x: Tensor, grid: Grid) -> Tensor:
    """[B, N, C] -> [B, C, Hp, Wp], a channels-last view."""
    B, _, C = x.shape
    return x.reshape(B, *grid, C).permute(0, 3, 1, 2)


def map_to_tokens(x: Tensor) -> Tensor:
    """[B, C, Hp, Wp] -> [B, N, C]; free for a channels-last map."""
    B, C, H, W = x.shape
    return x.permute(0, 2, 3, 1).reshape(B, H * W, C)


def grid_of_image(size: Grid, convolutions: list[tuple[int, int, int]]) -> Grid:
    """The grid that a chain of convolutions, given as (kernel, stride, padding), makes of an image of `size` (H, W)."""
    H, W = size
    for kernel, stride, padding in convolutions:
        H, W = ((n + 2 * padding - kernel) // stride + 1 if n + 2 * padding >= kernel else 0 for n in (H, W))
    return H, W
