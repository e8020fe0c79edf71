"""RVT's position-aware attention scaling: a learned mask multiplies the attention logits before the softmax."""

from __future__ import annotations

import math
from typing import Any

import torch
from timm.layers import Attention
from torch import Tensor, nn
from torch.nn import functional as F

from robustvit.layers.token_grid import Grid

__all__ = ["PositionScaledAttention", "resize_mask"]


def resize_mask(mask: Tensor, before: Grid, after: Grid) -> Tensor:
    """A mask learned on one grid, for another: the query grid is resized bicubically, then the key grid.

    Args:
        mask: [heads, N, N] before the sigmoid; row = query, column = key, both row-major over `before`.
        before: (Hp, Wp) of the mask.
        after: (Hp, Wp) wanted.

    Returns:
        [heads, N', N'].
    """
    if before == after:
        return mask
    heads, N, M = mask.shape[0], before[0] * before[1], after[0] * after[1]

    def resize(m: Tensor) -> Tensor:  # heads Hp Wp X -> heads Hp' Wp' X
        return F.interpolate(m.permute(0, 3, 1, 2), size=after, mode="bicubic", align_corners=False).permute(0, 2, 3, 1)

    m = resize(mask.float().reshape(heads, *before, N)).reshape(heads, M, N)  # queries
    m = resize(m.transpose(1, 2).reshape(heads, *before, M)).reshape(heads, M, M)  # keys
    return m.transpose(1, 2).contiguous().to(mask.dtype)


class PositionScaledAttention(Attention):
    """`softmax(Q K^T / sqrt(d) * sigmoid(M)) V` with M learned per head and pair of positions.

    The mask multiplies the logits, so a zero mask halves them, and fused attention (which only adds) cannot compute it.
    """

    mask_grid: Tensor

    def __init__(self, dim: int, num_heads: int, *, grid: Grid, attn_drop: float = 0.0, proj_drop: float = 0.0) -> None:
        super().__init__(dim, num_heads, qkv_bias=True, attn_drop=attn_drop, proj_drop=proj_drop)
        self.fused_attn = False
        self.grid = grid
        N = grid[0] * grid[1]
        self.mask = nn.Parameter(self.proj.weight.new_empty(num_heads, N, N))
        self.register_buffer("mask_grid", torch.tensor(grid))  # saved, so that a file says what its mask is for
        nn.init.trunc_normal_(self.mask, std=0.02)  # uninitialised memory in the original release

    def set_grid(self, grid: Grid) -> None:
        """Resizes the mask to another grid, in place."""
        if grid != self.grid:
            resized = resize_mask(self.mask.detach(), self.grid, grid)
            self.mask = nn.Parameter(resized, requires_grad=self.mask.requires_grad)
            self.grid, self.mask_grid = grid, torch.tensor(grid, device=self.mask_grid.device)

    def fit_weights(self, weights: dict[str, Tensor], prefix: str) -> None:
        """Resizes the mask `prefix + "mask"` of a state dict to the grid of this layer; without a grid, it is square."""
        mask = weights.get(f"{prefix}mask")
        if mask is None or mask.ndim != 3:
            return
        side = math.isqrt(mask.shape[-1])
        saved = weights.get(f"{prefix}mask_grid")
        before = (side, side) if saved is None else (int(saved[0]), int(saved[1]))
        if before[0] * before[1] == mask.shape[1] == mask.shape[2]:
            weights[f"{prefix}mask"] = resize_mask(mask, before, self.grid)
            weights[f"{prefix}mask_grid"] = torch.tensor(self.grid)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        self.fit_weights(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        B, N, _ = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q * self.scale) @ k.transpose(-2, -1)  # B H N N
        attention = self.attn_drop((scores * torch.sigmoid(self.mask)).softmax(dim=-1))
        return self.proj_drop(self.proj((attention @ v).transpose(1, 2).reshape(B, N, -1)))
